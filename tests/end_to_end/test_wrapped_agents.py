"""`corral wrap`: an agent, and what it runs, leaves nothing behind that the agent would run outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral

_SETTINGS = ("settings.json", "settings.local.json", "hooks/h.sh", "commands/c.md", "agents/a.md")


@pytest.fixture
def claude(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An agent that runs a script, with a directory of its own in the home."""
    (home / ".claude").mkdir()
    program = home / "bin/claude"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nshift; eval "$*"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return home / ".claude"


def test_settings_that_are_not_there_are_not_made(corral: Corral, claude: Path) -> None:
    names = " ".join(f"$HOME/.claude/{name}" for name in _SETTINGS)
    script = f"for f in {names}; do mkdir -p $(dirname $f); echo x > $f; done; echo y > $HOME/.claude/log"

    done = corral("wrap", "--no-config", "--", "claude", "-p", script)

    assert (claude / "log").read_text() == "y\n", done.stderr
    assert [name for name in _SETTINGS if (claude / name).exists()] == []
    assert done.stderr.count(b"must not be made by the command") == len(_SETTINGS)


def test_settings_and_programs_that_are_there_stay_as_they_are(corral: Corral, claude: Path) -> None:
    there = [claude / name for name in (*_SETTINGS, "plugins/p.sh", "local/claude")]
    for path in there:
        path.parent.mkdir(exist_ok=True)
        path.write_text("own\n")
    names = " ".join(f"$HOME/.claude/{path.relative_to(claude)}" for path in there)
    script = (
        f"for f in {names}; do cat $f; echo x >> $f; rm -f $f; mv $(dirname $f) $HOME/.claude/moved; done"
    )

    done = corral("wrap", "--no-config", "--", "claude", "-p", script)

    assert done.stdout == b"own\n" * len(there), done.stderr
    assert [path.read_text() for path in there] == ["own\n"] * len(there)


def test_settings_that_are_links_stay_links(corral: Corral, claude: Path, tmp_path: Path) -> None:
    """As those who keep them in another directory have them."""
    own = tmp_path / "dotfiles"
    own.mkdir()
    for name in ("settings.json", "plugins"):
        (own / name).write_text("own\n")
        (claude / name).symlink_to(own / name)
    script = (
        "cd $HOME/.claude; for f in settings.json plugins; do mv $f away-$f; echo x > $f; done; echo y > log"
    )

    done = corral("wrap", "--no-config", "--", "claude", "-p", script)

    assert (claude / "log").read_text() == "y\n", done.stderr
    assert [(claude / name).readlink() for name in ("settings.json", "plugins")] == [
        own / "settings.json",
        own / "plugins",
    ]
    assert (own / "settings.json").read_text() == (own / "plugins").read_text() == "own\n"
