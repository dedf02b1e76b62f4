"""The tables of numbers agree with what is known of them from elsewhere."""

from __future__ import annotations

import pytest

from corral.linux.syscalls import Arch, is_known, number, numbers


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
