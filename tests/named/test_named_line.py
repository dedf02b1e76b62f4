"""`corral status --line`: one line for prompts, coloured where that can be seen, without anything slow."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from support.named_sessions import Person


def test_the_line_says_how_the_session_of_this_workspace_is(root_person: Person) -> None:
    nothing = root_person.corral("status", "--line")
    root_person.start("any-name")
    running = root_person.corral("status", "--line")
    elsewhere = root_person.corral("status", "--line", cwd=root_person.home)
    root_person.corral("session", "stop", "any-name")
    stopped = root_person.corral("status", "--line", "any-name")

    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, b"", b"")
    assert (running.returncode, running.stdout.decode()) == (0, "⬡ Sandbox (native) running\n")
    assert (elsewhere.returncode, elsewhere.stdout) == (1, b"")
    assert (stopped.returncode, stopped.stdout.decode()) == (1, "⬡ Sandbox (native) stopped\n")


def test_every_state_has_its_colour(root_person: Person) -> None:
    root_person.start()
    record = root_person.sessions / "s.session"
    text = record.read_text()
    colours = {"running": "32", "starting": "33", "failed": "31", "stopped": "31"}

    for state, colour in colours.items():
        record.write_text(text.replace("state=running", f"state={state}"))
        shown = root_person.corral("status", "--line", "--color=always", "s", NO_COLOR="1").stdout.decode()

        assert shown == f"\x1b[{colour}m⬡ Sandbox (native) {state}\x1b[0m\n"
    record.write_text(text)


@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)]
)
def test_there_is_colour_on_a_terminal_unless_somebody_minds(
    root_person: Person, variables: dict[str, str], coloured: bool
) -> None:
    root_person.start()
    ours, theirs = pty.openpty()

    client = subprocess.run(
        root_person.argv("-m", "corral", "status", "--line", "s"),
        stdout=theirs,
        env={**root_person.environment, **variables},
        check=True,
        timeout=60,
    )
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)

    assert client.returncode == 0
    assert (b"\x1b[32m" in shown) is coloured
    assert b"\x1b" not in root_person.corral("status", "--line", "s").stdout


def test_the_line_imports_nothing_that_takes_long(root_person: Person) -> None:
    script = (
        "import sys; before = set(sys.modules); import corral.cli.session.here; "
        "print(*sorted(set(sys.modules) - before))"
    )

    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"sys = __import__('sys'); sys.path.insert(0, {_site()!r}); {script}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    slow = {"click", "json", "re", "socket", "subprocess", "threading", "pathlib", "typing", "dataclasses"}
    assert set(done.stdout.split()) & slow == set()
    assert "corral.sessions.named.record" in done.stdout


def _site() -> str:
    import corral

    return os.path.dirname(os.path.dirname(str(corral.__file__)))
