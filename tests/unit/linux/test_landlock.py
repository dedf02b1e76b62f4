"""Landlock rights fit the ABI they are for, the kind of target, and the running kernel."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

import pytest

from corral.linux import landlock
from corral.linux.landlock import FILE_RIGHTS, NEWEST_ABI, FsRight, LandlockScope, NetRight
from corral.linux.syscalls import Arch, number

ABIS = range(1, NEWEST_ABI + 1)


def test_each_abi_handles_all_that_the_one_before_did() -> None:
    for handled in (landlock.handled_fs, landlock.handled_net, landlock.scoped):
        for abi in ABIS:
            assert handled(abi) & handled(abi + 1) == handled(abi)


@pytest.mark.parametrize(
    ("abi", "fs", "net", "scopes"),
    [
        (1, 0x1FFF, 0, 0),
        (2, 0x3FFF, 0, 0),
        (3, 0x7FFF, 0, 0),
        (4, 0x7FFF, 0x3, 0),
        (5, 0xFFFF, 0x3, 0),
        (6, 0xFFFF, 0x3, 0x3),
        (7, 0xFFFF, 0x3, 0x3),
        (8, 0xFFFF, 0x3, 0x3),
        (9, 0x1FFFF, 0x3, 0x3),
        (10, 0x1FFFF, 0xF, 0x3),
        (99, 0x1FFFF, 0xF, 0x3),
    ],
)
def test_what_an_abi_handles_is_what_its_kernel_knows(abi: int, fs: int, net: int, scopes: int) -> None:
    assert (landlock.handled_fs(abi), landlock.handled_net(abi), landlock.scoped(abi)) == (fs, net, scopes)


@pytest.mark.parametrize("abi", [0, -1])
def test_a_kernel_without_landlock_is_an_error_and_not_an_empty_set(abi: int) -> None:
    for function in (landlock.handled_fs, landlock.handled_net, landlock.scoped, landlock.device_rights):
        with pytest.raises(ValueError, match="no Landlock"):
            function(abi)


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("is_directory", [True, False])
def test_a_grant_carries_only_rights_that_are_handled_and_fit_the_target(
    abi: int, is_directory: bool
) -> None:
    grants = [
        landlock.read_rights(abi, is_directory=is_directory),
        landlock.write_rights(abi, is_directory=is_directory),
        landlock.device_rights(abi),
    ]

    for rights in grants:
        assert rights & ~landlock.handled_fs(abi) == 0
        assert is_directory or rights & ~FILE_RIGHTS == 0


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("is_directory", [True, False])
def test_reading_never_writes_and_writing_includes_reading(abi: int, is_directory: bool) -> None:
    read = landlock.read_rights(abi, is_directory=is_directory)
    write = landlock.write_rights(abi, is_directory=is_directory)

    assert read & ~(FsRight.READ_FILE | FsRight.READ_DIR | FsRight.EXECUTE) == 0
    assert write & read == read
    assert write & FsRight.WRITE_FILE


@pytest.mark.parametrize("abi", ABIS)
def test_no_grant_makes_devices_and_only_some_leave_the_sandbox(abi: int) -> None:
    write = landlock.write_rights(abi, is_directory=True)

    assert write & (FsRight.MAKE_CHAR | FsRight.MAKE_BLOCK | FsRight.IOCTL_DEV | FsRight.RESOLVE_UNIX) == 0
    assert bool(landlock.device_rights(abi) & FsRight.IOCTL_DEV) == (abi >= 5)


def test_reading_can_do_without_executing() -> None:
    assert landlock.read_rights(7, is_directory=False, execute=False) == FsRight.READ_FILE


def test_the_newest_abi_has_no_gaps_and_the_first_has_all() -> None:
    assert landlock.gaps(NEWEST_ABI) == ()
    assert len(landlock.gaps(1)) == 7
    assert "TCP connections are not restricted" in landlock.gaps(3)
    assert landlock.describe(7) == "landlock abi 7"


def _create_ruleset(pointer: bytes | None, size: int, flags: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    arch = Arch(os.uname().machine)
    found = libc.syscall(ctypes.c_long(number(arch, "landlock_create_ruleset") or -1), pointer, size, flags)
    return int(found) if found >= 0 else -ctypes.get_errno()


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")
def test_this_kernel_accepts_what_its_abi_is_said_to_handle() -> None:
    abi = _create_ruleset(None, 0, 1)
    if abi < 1:
        pytest.skip(f"this kernel has no Landlock: {os.strerror(-abi)}")
    fields = (landlock.handled_fs(abi), landlock.handled_net(abi), landlock.scoped(abi))
    size = 8 if abi < 4 else 16 if abi < 6 else 24

    ruleset = _create_ruleset(struct.pack("<3Q", *fields)[:size], size, 0)

    assert ruleset >= 0
    os.close(ruleset)
    if abi < NEWEST_ABI:
        following = (landlock.handled_fs(NEWEST_ABI), NetRight.BIND_TCP, LandlockScope.SIGNAL)
        if following[0] != fields[0]:
            assert _create_ruleset(struct.pack("<3Q", *following)[:size], size, 0) < 0
