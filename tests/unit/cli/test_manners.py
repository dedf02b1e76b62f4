"""Help that fits a screen, completion, JSON everywhere, colours and the line about progress."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from corral.cli import progress_line
from corral.cli.colour import is_coloured
from corral.cli.commands import cli
from corral.cli.completion import SHELLS, VARIABLE, script_for, teach
from corral.cli.progress_line import ProgressLine
from corral.cli.usage import call_commands

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Why a command has no --json.
WITHOUT_JSON = {
    "mcp serve": "it speaks MCP",
    "mcp wrap": "the server inside speaks MCP",
    "shell": "is a terminal",
    "session shell": "is a terminal",
    "sandbox shell": "is a terminal",
    "wrap": "is an agent's terminal",
    "demo": "is to be watched; `selftest --json` has the same as data",
    "learn": "prints a configuration file",
    "diff": "prints a patch; `changes --json` has the same as data",
    "completion": "prints a shell's script",
    "policy schema": "prints JSON",
    "audit export": "prints a line of JSON for each record",
    "guest": "speaks a protocol of its own",
}


def _leaves(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _leaves(inner, f"{path} {name}".strip())
    else:
        yield path, command


def test_every_help_fits_a_terminal_of_80_by_24() -> None:
    for words, command in (("", cli), *cli.commands.items(), *_leaves(cli)):
        context = click.Context(command, info_name=f"corral {words}", terminal_width=80, max_content_width=80)
        lines = command.get_help(context).splitlines()

        assert len(lines) <= 23, (words, len(lines))
        assert max(map(len, lines)) <= 80, words


def test_every_command_has_json_or_a_reason() -> None:
    flags = {
        path: any("--json" in parameter.opts for parameter in command.params)
        for path, command in _leaves(cli)
        if not path.startswith("hook ")  # speaks the protocols of agents
    }
    lacking = {path for path, has in flags.items() if not has}

    assert lacking - set(WITHOUT_JSON) == set()
    assert set(WITHOUT_JSON) & {path for path, has in flags.items() if has} == set()


def _completed(words: list[str], incomplete: str) -> list[str]:
    teach(cli)
    engine = ShellComplete(cli, {}, "corral", VARIABLE)
    return [
        f"<{item.type}>" if item.type != "plain" else item.value
        for item in engine.get_completions(words, incomplete)
    ]


@pytest.mark.parametrize(
    ("words", "incomplete", "among"),
    [
        ([], "sel", ["selftest"]),
        (["session"], "st", ["start", "status", "stop"]),
        (["run"], "--out", ["--output-limit"]),
        (["run", "-p"], "str", ["strict"]),
        (["run", "--backend"], "nat", ["native"]),
        (["run", "--net"], "", ["none", "limited", "full"]),
        (["run", "--waive"], "fs.read,net.n", ["fs.read,net.none"]),
        (["run", "--allow"], "@p", ["@pip"]),
        (["run", "--cwd"], "", ["<dir>"]),
        (["run", "--read"], "/e", ["<file>"]),
        (["run", "cat"], "x", ["<file>"]),
        (["why"], "co", ["connect"]),
        (["image", "build"], "py", ["python"]),
    ],
)
def test_words_are_completed(words: list[str], incomplete: str, among: list[str]) -> None:
    assert _completed(words, incomplete) == among


def test_programs_on_the_path_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zz-program").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/nonexistent")

    assert _completed(["run", "--"], "zz") == ["zz-program"]
    assert _completed(["run", "--", "zz-program"], "zz") == ["<file>"]


@pytest.mark.parametrize(
    "words", [["session", "stop"], ["session", "exec"], ["status"], ["session", "allow", "host"]]
)
def test_session_names_are_completed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corral.sessions.named.record import STOPPED, SessionRecord, write_entry
    from corral.sessions.named.session_directory import make_session_directory

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert _completed(words, "") == []
    write_entry(make_session_directory(), SessionRecord("mine", STOPPED))

    assert _completed(words, "mi") == ["mine"]


def test_nothing_is_started_to_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    for name in ("os.posix_spawn", "os.fork", "subprocess.Popen"):
        monkeypatch.setattr(name, refuse)
    for words in ([], ["run"], ["run", "--backend"], ["session", "exec"], ["discard"], ["image", "inspect"]):
        _completed(words, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str) -> None:
    assert VARIABLE in script_for(shell)


def test_a_usage_error_is_json_where_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_commands(["session", "stop", "a", "b", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["error"]["code"] == "usage"
    assert told["exit_status"] == 2
    assert "unexpected extra argument" in told["error"]["why"]

    assert call_commands(["session", "stop", "a", "b"]) == 2
    assert "Usage: corral session stop" in capsys.readouterr().err
    assert call_commands(["session", "stop", "a", "b", "--", "--json"]) == 2  # is an argument there
    assert capsys.readouterr().out == ""


class _Screen(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def fileno(self) -> int:
        raise OSError


@pytest.mark.parametrize(
    ("is_terminal", "variables", "expected"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": ""}, True),  # as https://no-color.org has it
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    is_terminal: bool, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert is_coloured(_Screen(is_terminal=is_terminal)) is expected


def _draws(screen: _Screen, monkeypatch: pytest.MonkeyPatch, *, patience: float) -> str:
    drawn = threading.Event()
    write = screen.write

    def note(text: str) -> int:
        drawn.set()
        return write(text)

    monkeypatch.setattr(screen, "write", note)
    monkeypatch.setattr(progress_line.sys, "stderr", screen)
    with ProgressLine("counting \x1b[31msheep", patience=patience):
        if screen.isatty() and not patience:
            assert drawn.wait(20)
    return screen.getvalue()


def test_slow_work_says_so_in_a_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    text = _draws(_Screen(is_terminal=True), monkeypatch, patience=0)

    assert "corral: counting \\x1b[31msheep (0 s)" in text
    assert text.endswith("\r\x1b[K")


def test_quick_work_and_pipes_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _draws(_Screen(is_terminal=True), monkeypatch, patience=600) == ""
    assert _draws(_Screen(is_terminal=False), monkeypatch, patience=0) == ""
