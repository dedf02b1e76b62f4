"""The watcher of git commands sees what it must, and nothing else: here git runs a line of shell for us."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from support.git_calls import Reading
from support.git_trap import Trap
from support.git_watch import RUNS, WAITS, WRITES, sit, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from support.git_stage import Stage

    MakeStage = Callable[..., Stage]

TRAP = Trap("t", "", ())
OUT = "../out/t"
WROTE = {
    "a file": f"echo x > {OUT}/new",
    "the end of a file": f"echo x >> {OUT}/startup",
    "through a link": f"ln -s {OUT}/startup l; echo x > l",
    "through a link that is gone": f"ln -s {OUT}/startup l; echo x > l; rm l",
    "behind a directory's link": f"ln -s {OUT}/empty d; mkdir d/x; rmdir d/x; rm d",
    "behind a link that git knew": "mkdir known/x; rm known; mkdir known",
    "from another directory": f"cd src; mkdir ../{OUT}/x",
    "in a subshell's directory": f"(cd {OUT}; (mkdir x)); true",
    "a removal": f"rm {OUT}/startup",
    "a renaming": f"mv {OUT}/startup {OUT}/other",
    "a renaming from here": f"mv README {OUT}/README",
    "a hard link": f"ln README {OUT}/README",
    "a link": f"ln -s x {OUT}/link",
    "an emptied file": f"truncate -s 0 {OUT}/startup",
    "rights": f"chmod 777 {OUT}/startup",
    "times": f"ln -s {OUT}/startup l; touch l",
    "in the background": f"(echo x > {OUT}/new) & true",
    "a hook": "echo x > .git/hooks/post-commit",
    "the configuration": "echo x >> .git/config",
    "the configuration by a link": "ln -s .git/config l; echo x >> l",
}
RAN = {
    "a program outside": f"{OUT}/evil-t",
    "a program of the workspace": "cp /bin/true ./own; ./own",
    "a program that is not there": f"{OUT}/evil-none; true",
    "by way of a shell": f"sh -c 'exec {OUT}/evil-t'",
    "by way of a system's program": f"env {OUT}/evil-t",
    "words of a shell": "sh -c 'true evil-t'",
}
FINE = {
    "the workspace": "echo x > new; mkdir d; mv new d/new; rm -r d; ln -s /etc/passwd l; rm l",
    "a link to here": "ln -s README l; echo x > l",
    "a place that a link only has now": f"mkdir d; touch d/x; rm -r d; ln -s {OUT}/dir d",
    "reading outside": f"cat {OUT}/startup",
    "devices": "echo x > /dev/null",
    "the remote repository": "touch ../remote.git/x",
    "a new configuration": "cp .git/config .git/config.lock; mv .git/config.lock .git/config",
    "the user's hook": ".git/hooks/pre-commit",
    "programs of the system": "env true; sh -c true",
}


def _shell(stage: Stage, line: str) -> str:
    """The line as a command that `git` runs. It lies where nobody looks, so that quoting is no matter."""
    script = stage.root / "tmp" / "line"
    script.write_text(line + "\n")
    return f"-c alias.line='!sh {script}' line"


@pytest.mark.parametrize("user", ["own", "ordinary"])
@pytest.mark.parametrize("line", WROTE.values(), ids=WROTE)
def test_writing_outside_is_seen(stage: MakeStage, line: str, user: str) -> None:
    made = stage((TRAP,), user)
    (made.ws / "known").symlink_to(f"{OUT}/empty")

    found = watch(made, _shell(made, line)).findings

    assert {finding.kind for finding in found} == {WRITES}


@pytest.mark.parametrize("line", RAN.values(), ids=RAN)
def test_running_what_is_not_the_systems_is_seen(stage: MakeStage, line: str) -> None:
    made = stage((TRAP,))

    assert RUNS in {finding.kind for finding in watch(made, _shell(made, line)).findings}


@pytest.mark.parametrize("line", FINE.values(), ids=FINE)
def test_what_git_may_do_is_no_finding(stage: MakeStage, line: str) -> None:
    made = stage((TRAP,))

    watched = watch(made, _shell(made, line))

    assert watched.findings == () and watched.status == 0, watched.output


def test_what_a_finding_is_about_is_named(stage: MakeStage) -> None:
    made = stage((TRAP,))

    found = sit(made, [_shell(made, f"{OUT}/evil-t; echo x > {OUT}/startup")])

    assert {finding.trap for finding in found} == {"t"}
    assert f"{made.out}/t/startup" in {finding.what for finding in found}


def test_what_changed_unseen_is_found_all_the_same(stage: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    made = stage((TRAP,))
    monkeypatch.setattr(Reading, "read", lambda *_: iter(()))

    (found,) = sit(made, [_shell(made, f"echo x > {OUT}/startup")])

    assert (found.kind, found.what) == ("changed", f"{made.out}/t/startup")


def test_a_command_that_waits_in_vain_is_ended_with_all_that_it_started(
    stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stage((TRAP,))
    os.mkfifo(made.ws / "pipe")
    monkeypatch.setattr("support.git_watch.LOOKS_ASLEEP", 5)

    watched = watch(made, _shell(made, "cat pipe & cat pipe"))

    assert watched.status is None
    assert [finding.kind for finding in watched.findings] == [WAITS]
    assert _alive(made) == []


def _alive(stage: Stage) -> list[str]:
    """What was traced and has not ended; that nobody has asked yet how it ended does not count."""
    found = []
    for log in stage.logs.iterdir():
        with contextlib.suppress(OSError):  # it is gone
            state = Path("/proc", log.suffix[1:], "stat").read_text().rpartition(")")[2].split()[0]
            found += [log.suffix] if state not in "ZX" else []
    return found
