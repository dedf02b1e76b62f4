"""A phase that fails stops the launch: the command does not run and nothing is left behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from launching import ORDINARY, MountFlag, bare, bind, confined, launch, shell

PHASES = [
    *(
        "group",
        "cgroup",
        "identity",
        "namespaces",
        "helper",
        "hostname",
        "mounts",
        "net",
        "lock",
        "session",
        "limits",
    ),
    *("no_new_privs", "caps", "surroundings", "landlock", "seccomp", "exec"),
]
#: In namespaces alone.
OF_INIT = ("helper", "hostname", "mounts", "net")


@pytest.mark.parametrize("phase", PHASES)
def test_a_fault_is_told_and_the_command_does_not_run(
    checked: Path, user: int, phase: str, open_directory: Path
) -> None:
    mounts = (bind(str(open_directory), MountFlag(0), target="/mnt"),)

    done = launch(checked, confined(*shell("touch /mnt/ran"), user=user, mounts=mounts, fault=phase))

    assert done.lines == [f"failed {phase} {errno.EIO} injected fault"]
    assert (done.exit_code, done.output) == (125, b"")
    assert list(open_directory.iterdir()) == []


@pytest.mark.parametrize("phase", [p for p in PHASES if p not in OF_INIT])
def test_a_fault_without_namespaces(checked: Path, user: int, phase: str, open_directory: Path) -> None:
    done = launch(checked, bare(*shell(f"touch {open_directory}/ran"), fault=phase), user=user)

    assert done.lines == [f"failed {phase} {errno.EIO} injected fault"]
    assert done.exit_code == 125
    assert list(open_directory.iterdir()) == []


def test_no_command_is_there_before_the_supervisor_has_shed_its_privileges(
    checked: Path, user: int, open_directory: Path
) -> None:
    """It takes half a second for it, and then cannot: by then a command that nobody held back has run."""
    mounts = (bind(str(open_directory), MountFlag(0), target="/mnt"),)

    done = launch(checked, confined(*shell("touch /mnt/ran"), user=user, mounts=mounts, fault="shed"))

    assert done.lines == [f"failed namespaces {errno.EIO} injected fault"]
    assert list(open_directory.iterdir()) == []


def test_what_init_says_counts_also_when_the_supervisor_comes_late(checked: Path, user: int) -> None:
    """Init has gone before the supervisor tells it to go on, and its own words are the ones to be read."""
    done = launch(checked, confined("true", user=user, fault="hostname@shed"))

    assert done.lines == [f"failed hostname {errno.EIO} injected fault"]


def test_the_shipped_launcher_knows_no_faults(plain: Path) -> None:
    assert launch(plain, bare("true", fault="exec")).lines == [
        f"failed spec {errno.EINVAL} unknown record type"
    ]


def test_no_fault_no_failure(checked: Path, user: int) -> None:
    """The control: the same spec runs."""
    assert launch(checked, confined("true", user=user)).lines == ["started", "exited 0"]
    assert launch(checked, bare("true"), user=user).lines == ["started", "exited 0"]


def test_an_id_map_of_others_is_refused(plain: Path) -> None:
    user = os.getuid() or ORDINARY
    spec = confined("true", user=user, uid_map=f"{user} 0 1\n")

    done = launch(plain, spec)

    assert done.lines == [f"failed namespaces {errno.EPERM} write uid_map"]


def test_namespaces_need_an_init(plain: Path) -> None:
    done = launch(plain, bare("true", namespaces=0x40000000))

    assert done.lines[0].startswith(f"failed namespaces {errno.EINVAL} ")


def test_an_id_map_needs_a_user_namespace(plain: Path) -> None:
    done = launch(plain, bare("true", namespaces=0x20000000, uid_map="0 0 1\n"))

    assert done.lines[0].startswith(f"failed namespaces {errno.EINVAL} ")


@pytest.mark.parametrize(
    ("kind", "permitted", "lines"),
    [
        ("net", 0, [f"failed net {errno.ENOSPC} network namespace"]),
        ("net", 9, ["started", "exited 0"]),
        ("user", 1, [f"failed lock {errno.ENOSPC} a second user namespace"]),
        ("user", 2, ["started", "exited 0"]),
    ],
)
def test_a_namespace_that_the_kernel_refuses_is_not_done_without(
    plain: Path, tmp_path: Path, kind: str, permitted: int, lines: list[str]
) -> None:
    """With a higher number it does not refuse it."""
    limited = tmp_path / "limited"
    script = f"echo {permitted} > /proc/sys/user/max_{kind}_namespaces; exec {plain}"
    limited.write_text(f"#!/bin/sh\nexec /usr/bin/unshare -r /bin/sh -c '{script}'\n")
    limited.chmod(0o755)

    done = launch(limited, confined("true", user=os.getuid(), uid_map="0 0 1\n", gid_map="0 0 1\n"))

    assert done.lines == lines
