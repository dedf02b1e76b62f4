"""How `corral session exec` reads its words."""

from __future__ import annotations

import click.testing
import pytest

from corral.cli.commands import cli
from corral.cli.session.options import parse_exec


@pytest.mark.parametrize(
    ("words", "name", "command"),
    [
        (["s", "--", "ls", "-l"], "s", ("ls", "-l")),
        (["s", "ls", "-l"], "s", ("ls", "-l")),
        (["--", "ls"], None, ("ls",)),
        (["--", "s", "--", "ls"], None, ("s", "--", "ls")),
        (["-c", "a b"], None, ()),
        (["s", "-c", "a b"], "s", ()),
        (["--env", "A=1", "s", "--env=B", "--", "-x"], "s", ("-x",)),
        ([], None, ()),
    ],
)
def test_what_comes_before_the_dashes_is_the_name(
    words: list[str], name: str | None, command: tuple[str, ...]
) -> None:
    line = parse_exec(words)

    assert line is not None
    assert (line.name, line.words) == (name, command)


def test_options_are_taken_before_and_after_the_name() -> None:
    line = parse_exec(["-t", "s", "--env", "A", "--timeout=3s", "-c", "x"])

    assert line is not None
    assert (line.options["terminal"], line.options["env"], line.options["timeout"]) == (True, ("A",), "3s")
    assert (line.options["line"], line.options["detach"]) == ("x", False)


@pytest.mark.parametrize("words", [["--nonsense"], ["s", "-x"], ["--tty=1", "s"], ["s", "--timeout"]])
def test_what_is_not_understood_is_left_to_click(words: list[str]) -> None:
    assert parse_exec(words) is None

    done = click.testing.CliRunner().invoke(cli, ["session", "exec", *words])

    assert done.exit_code == 2
    assert "Error" in done.output


def test_help_has_every_option() -> None:
    done = click.testing.CliRunner().invoke(cli, ["session", "exec", "--help"])

    assert done.exit_code == 0
    assert all(flag in done.output for flag in ("--stateful", "--detach", "-c LINE", "--timeout"))
