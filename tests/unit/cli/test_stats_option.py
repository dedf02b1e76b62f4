"""`--stats` belongs to what runs a command: both parsers know it there, and nobody knows it elsewhere."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from corral.cli import commands
from corral.cli.options import defaults, parse_quickly


@pytest.mark.parametrize(
    ("arguments", "stats"),
    [
        (["--", "true"], False),
        (["--stats", "--", "true"], True),
        (["--json", "--stats", "--pids", "3", "--", "true"], True),
        (["--stats", "true", "--stats"], True),
        (["true", "--stats"], False),
        (["--", "--stats"], False),
    ],
)
def test_both_parsers_find_it_before_the_command(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], stats: bool
) -> None:
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(commands.run, "callback", lambda **found: seen.append(found))
    CliRunner().invoke(commands.cli, ["run", *arguments], catch_exceptions=False)
    quick = parse_quickly(arguments)

    assert quick is not None
    assert (quick[0]["stats"], seen[0]["stats"]) == (stats, stats)
    assert quick[1] == seen[0]["command"]


def test_it_is_a_switch_and_takes_no_value() -> None:
    assert parse_quickly(["--stats=1", "--", "true"]) is None
    assert CliRunner().invoke(commands.cli, ["run", "--stats=1", "--", "true"]).exit_code == 2
    assert defaults()["stats"] is False


def test_a_shell_has_it_too() -> None:
    assert "stats" in {option.name for option in commands.cli.commands["shell"].params}


@pytest.mark.parametrize("words", [("explain",), ("why",), ("policy", "show"), ("policy", "check")])
def test_what_runs_nothing_has_no_costs(words: tuple[str, ...]) -> None:
    command = commands.cli
    for word in words:
        command = command.commands[word]  # type: ignore[assignment]

    assert "stats" not in {option.name for option in command.params}
