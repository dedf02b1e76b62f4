"""What a traced call that failed is told as: by whose rule, and what would permit it."""

from __future__ import annotations

import errno
import os

import pytest

from corral.linux.syscalls import Arch, number
from corral.model.feature import Feature
from corral.model.violation import Evidence
from corral.runtime.launcher.refused_calls import explain_call
from corral.runtime.launcher.traced_calls import explain_traced
from corral.runtime.status import RefusedCall
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan

ARCH = Arch(os.uname().machine)
O_WRONLY = 1


@pytest.fixture
def plan() -> Plan:
    return Sandbox("moderate", host=FakeHost()).explain("true").plan


def _call(name: str, error: int, *claims: str, flags: int = 0) -> RefusedCall:
    nr = number(ARCH, name)
    assert nr is not None
    return RefusedCall(nr, error, (0, 0, flags, 0, 0, 0), claims)


def test_a_file_that_is_only_read_is_of_the_system(plan: Plan) -> None:
    found = explain_traced(plan, _call("openat", errno.EROFS, "/usr", "made", flags=O_WRONLY))

    assert found is not None
    assert (found.feature, found.subject, found.hint) == (Feature.FS_WRITE, "/usr/made", "")
    assert found.evidence is Evidence.OBSERVED and "Read-only file system" in found.detail


def test_a_name_that_is_not_there_is_told_only_where_a_grant_would_help(plan: Plan) -> None:
    """And whether it is there on the host makes no difference."""
    assert explain_traced(plan, _call("openat", errno.ENOENT, "/", "/etc/ld.so.preload")) is None
    assert explain_traced(plan, _call("openat", errno.ENOENT, plan.command.cwd, "missing")) is None
    found = explain_traced(plan, _call("openat", errno.ENOENT, "/", "/srv/data"))
    assert found is not None and found.hint == "filesystem:read:/srv/data"


def test_what_no_rule_forbids_is_said_to_be_so(plan: Plan) -> None:
    found = explain_traced(plan, _call("openat", errno.EACCES, plan.command.cwd, "closed"))

    assert found is not None and found.hint == "" and "no rule of corral's" in found.detail


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("clone", (0x10000000, 0, 0, 0, 0, 0), "a new namespace"),
        ("chroot", (0, 0, 0, 0, 0, 0), "undoes read-only"),
        ("ptrace", (0, 0, 0, 0, 0, 0), "another process"),
        ("ioctl", (0, 0x5412, 0, 0, 0, 0), "types into the terminal"),
    ],
)
def test_a_refused_call_has_the_reason_of_the_rule_it_met(
    plan: Plan, name: str, arguments: tuple[int, ...], words: str
) -> None:
    nr = number(ARCH, name)
    assert nr is not None

    found = explain_call(plan, RefusedCall(nr, 1, arguments, ()))

    assert (found.feature, found.subject) == (Feature.SYSCALLS, name)
    assert words in found.detail
    assert found.hint == ("process:debug" if name == "ptrace" else "")
