"""The tables of numbers agree with what is known of them from elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from corral.linux.syscalls import Arch, is_known, number, numbers
from corral.model.errors import CapabilitySyntaxError
from corral.model.rules.capability import parse_capability
from corral.model.rules.syscall_groups import GROUPS
from corral.policy.compose import build_policy


@pytest.mark.parametrize(
    ("name", "x86_64", "aarch64", "riscv64"),
    [
        ("read", 0, 63, 63),
        ("execve", 59, 221, 221),
        ("ptrace", 101, 117, 117),
        ("openat", 257, 56, 56),
        ("bpf", 321, 280, 280),
        ("kexec_file_load", 320, 294, 294),
        ("clone3", 435, 435, 435),
        ("landlock_create_ruleset", 444, 444, 444),
        ("open_tree_attr", 467, 467, 467),
        ("rseq_slice_yield", 471, 471, 471),
        ("open", 2, None, None),
        ("iopl", 172, None, None),
        ("renameat", 264, 38, None),
        ("umount2", 166, 39, 39),
        ("riscv_flush_icache", None, None, 259),
    ],
)
def test_numbers_are_those_of_the_kernel(
    name: str, x86_64: int | None, aarch64: int | None, riscv64: int | None
) -> None:
    assert number(Arch.X86_64, name) == x86_64
    assert number(Arch.AARCH64, name) == aarch64
    assert number(Arch.RISCV64, name) == riscv64


@pytest.mark.parametrize("arch", Arch)
def test_they_are_those_of_a_compilers_headers(arch: Arch) -> None:
    """As far as its kernel goes; what came later is in no header that Debian has."""
    compiler = shutil.which(f"{arch.value}-linux-gnu-gcc")
    if compiler is None:
        pytest.skip(f"needs gcc-{arch.value.replace('_', '-')}-linux-gnu")
    headers = Path(f"/usr/{arch.value}-linux-gnu/include/asm/unistd.h")
    if arch is not Arch(os.uname().machine) and not headers.exists():
        pytest.skip(f"needs libc6-dev-{arch.value}-cross")
    listed = [f"corral {name} __NR_{name}" for name in numbers(arch)]
    done = subprocess.run(
        [compiler, "-E", "-P", "-include", "asm/unistd.h", "-"],
        input="\n".join(listed),
        capture_output=True,
        text=True,
        check=True,
    )
    said = dict(
        line.removeprefix("corral ").split(" ", 1)
        for line in done.stdout.splitlines()
        if line.startswith("corral ")
    )
    known = {name: text for name, text in said.items() if not text.startswith("__NR_")}

    assert len(known) > 250
    assert {name: _value(text) for name, text in known.items()} == {
        name: number(arch, name) for name in known
    }


def _value(text: str) -> int:
    """`(244 + 15)`, as some headers have it."""
    return sum(map(int, text.strip("()").split("+")))


@pytest.mark.parametrize("arch", Arch)
def test_no_number_has_two_names(arch: Arch) -> None:
    table = numbers(arch)

    assert len(set(table.values())) == len(table)


def test_all_architectures_number_the_newer_calls_alike() -> None:
    newer = {arch: {name: nr for name, nr in numbers(arch).items() if nr >= 424} for arch in Arch}

    assert newer[Arch.X86_64] == newer[Arch.AARCH64] == newer[Arch.RISCV64]
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
