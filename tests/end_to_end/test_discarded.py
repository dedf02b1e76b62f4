"""What a command wrote where it does not stay is told, with what would have kept it."""

from __future__ import annotations

import os
import subprocess

import pytest

from corral.model.event import EventKind
from corral.model.feature import Feature
from corral.model.violation import Evidence
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Corral
    from corral.model.event import Event
    from corral.model.result import Result


def _run(project: Path, script: str, *capabilities: str) -> Result:
    return Sandbox(build_policy("moderate", capabilities), backend="native", workspace=project).run(script)


def _discarded(result: Result) -> list[Event]:
    return [event for event in result.events if event.kind is EventKind.DISCARDED]


def test_a_file_beside_the_workspace_is_told_at_the_command_line(corral: Corral, project: Path) -> None:
    done = corral("run", "-c", "echo important > ../result.txt")
    place = project.parent

    assert done.returncode == 0 and not (place / "result.txt").exists()
    assert f"fs.private: {place}/result.txt: it was written to a private area" in done.stderr.decode()
    # The home lies there too, in this test: that is more than anybody is told to grant.
    assert done.stderr.decode().endswith("write into the workspace instead\n")


def test_a_worktree_beside_the_workspace_is_told_and_stays_with_the_hint(project: Path) -> None:
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "first"], cwd=project, check=True)
    place = project.parent / "code"
    place.mkdir()
    project = project.rename(place / "project")
    (event,) = _discarded(_run(project, "git worktree add -q ../tree"))
    subprocess.run(["git", "branch", "-q", "-D", "tree"], cwd=project, check=True)
    again = _run(project, "git worktree add -q ../tree", event.hint)
    listed = subprocess.run(["git", "worktree", "list"], cwd=project, check=True, capture_output=True).stdout

    assert (event.subject, event.evidence) == (str(place / "tree" / ".git"), Evidence.OBSERVED)
    assert (event.hint, event.risk) == (f"filesystem:write:{place}", "everything there can be changed")
    assert again.ok and again.events == () and os.fsencode(place / "tree") in listed


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("mkdir ../other; echo x > ../other/.envrc", "make it outside"),  # it would be removed there
        (
            "git init -q ../other && rm -r ../other/.git && touch ../other/.git",
            "inside the workspace stays",
        ),
    ],
)
def test_no_hint_that_would_not_keep_it(project: Path, script: str, reason: str) -> None:
    """The home lies beside the project in this test: the directory above is nobody's to grant."""
    (event,) = _discarded(_run(project, script))

    assert event.hint == "" and event.reason.endswith(reason)


def test_a_granted_file_in_a_private_area_is_not_told(project: Path) -> None:
    """The launcher makes an empty file there to mount it on: nobody wrote it."""
    granted = project.parent / "beside" / "settings"
    granted.parent.mkdir()
    granted.write_text("kept\n")
    result = _run(project, f"cat {granted}", f"filesystem:read:{granted}")

    assert result.ok and result.stdout == "kept\n" and _discarded(result) == []


def test_with_the_hint_it_stays(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    script = f"mkdir -p {other}; echo important > {other}/result.txt"
    (event,) = _discarded(_run(project, script))
    again = _run(project, script, event.hint)

    assert event.hint == f"filesystem:write:{other}"
    assert again.events == () and (other / "result.txt").read_text() == "important\n"


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ("echo a > ~/a; mkdir ~/b; echo b > ~/b/b; ln -s / ~/b/link", 3),
        ("git config --global user.name other", 1),
        ("mkdir -p ~/.cache/pip; echo > ~/.cache/pip/x; echo > ~/.python_history", 0),
        ("echo x > /tmp/x; mkdir /tmp/d; echo > /tmp/d/y; echo > /dev/shm/z", 0),
        ("true", 0),
        ("mkdir ~/closed; echo > ~/closed/x; chmod 0 ~/closed; echo > ~/open", None),
        ("mkfifo ~/fifo; touch ~/$(printf 'a\\nb')", 2),
    ],
)
def test_the_home_is_told_and_caches_are_not(
    project: Path, home: Path, script: str, count: int | None
) -> None:
    result = _run(project, script)
    found = _discarded(result)

    assert result.ok and {*os.listdir(home)} - {".local"} == {".gitconfig", ".ssh"}
    assert len(found) == (count != 0)
    for event in found:
        assert event.feature is Feature.FS_PRIVATE and event.subject.startswith(str(home))
        assert event.describe().isprintable()
        more = "" if count == 1 else f"{count - 1} more file" if count else "deleted"
        assert more in event.reason and not event.hint.endswith(str(home))


def test_what_is_told_does_not_depend_on_what_the_host_has(project: Path, home: Path) -> None:
    (home / "secret").mkdir()
    first, second = (
        _discarded(_run(project, f"mkdir ~/{name}; echo x > ~/{name}/file"))[0]
        for name in ("secret", "nothin")
    )

    assert second.describe() == first.describe().replace("secret", "nothin")


def test_very_many_and_very_deep_files_are_bounded(project: Path) -> None:
    script = """
import os
os.chdir(os.environ["HOME"])
for number in range(11000):
    open(f"f{number}", "w").close()
for _ in range(200):
    os.mkdir("d")
    os.chdir("d")
open("deep", "w").close()
"""
    (event,) = _discarded(_run(project, f"python3 -c '{script}'"))

    assert "more files" in event.reason
