"""The tables of numbers agree with what is known of them from elsewhere."""

from __future__ import annotations

import pytest

from corral.linux.syscalls import Arch, is_known, number, numbers
from corral.model.capability import parse_capability
from corral.model.errors import CapabilitySyntaxError
from corral.model.syscall_groups import GROUPS
from corral.policy.compose import build_policy


@pytest.mark.parametrize(
    ("name", "x86_64", "aarch64"),
    [
        ("read", 0, 63),
        ("execve", 59, 221),
        ("ptrace", 101, 117),
        ("openat", 257, 56),
        ("bpf", 321, 280),
        ("kexec_file_load", 320, 294),
        ("clone3", 435, 435),
        ("landlock_create_ruleset", 444, 444),
        ("open_tree_attr", 467, 467),
        ("rseq_slice_yield", 471, 471),
        ("open", 2, None),
        ("iopl", 172, None),
    ],
)
def test_numbers_are_those_of_the_kernel(name: str, x86_64: int, aarch64: int | None) -> None:
    assert number(Arch.X86_64, name) == x86_64
    assert number(Arch.AARCH64, name) == aarch64


@pytest.mark.parametrize("arch", Arch)
def test_no_number_has_two_names(arch: Arch) -> None:
    table = numbers(arch)

    assert len(set(table.values())) == len(table)


def test_both_architectures_number_the_newer_calls_alike() -> None:
    newer = {arch: {name: nr for name, nr in numbers(arch).items() if nr >= 424} for arch in Arch}

    assert newer[Arch.X86_64] == newer[Arch.AARCH64]
    assert sorted(newer[Arch.X86_64].values()) == list(range(424, 472))


def test_a_name_is_known_when_any_architecture_has_it() -> None:
    assert is_known("iopl") and is_known("read")
    assert not is_known("reed") and not is_known("") and not is_known("READ")


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_calls_that_there_are(group: str) -> None:
    """And one that this table does not know would be denied to nobody."""
    assert all(map(is_known, GROUPS[group]))
    assert build_policy("strict", [f"syscall:deny:{group}"]).deny_syscalls == set(GROUPS[group])


def test_an_unknown_group_is_refused_with_those_there_are() -> None:
    with pytest.raises(CapabilitySyntaxError, match="@chmod, @chown"):
        parse_capability("syscall:deny:@chmodd")
