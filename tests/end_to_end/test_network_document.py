"""What docs/network.md shows is what happens."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path

import pytest

from corral.network import resolve
from support.transcripts import blocks_of, steps_of, told_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/network.md"
#: Tools that need a network: here none of them has one, and some try again for long.
_TOOLS = {
    "pip download --index-url https://packages.example.org/simple six": "curl -sS https://packages.example.org/",
    "npm install": "curl -sS https://npmjs.example/",
}


@pytest.fixture(autouse=True)
def _needs_curl() -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")


def _regular(line: str) -> str:
    """Without what is measured, and however curl words a reset: it depends on when it hears of it."""
    line = re.sub(r"^corral: [\d.]+ s, .*", "corral: seconds", line)
    return re.sub(r"^curl: \((7|55|56)\) .*", "curl: reset", line)


def test_the_transcript_is_what_happens(corral: Corral) -> None:
    ((command, expected),) = steps_of(DOCUMENT)
    words = re.fullmatch(r"corral (.*) -c '(.*)'", command)
    assert words is not None

    done = corral(*words[1].split(), "-c", words[2])

    shown = told_first(done.stderr.decode().splitlines())
    assert [_regular(line) for line in shown] == [_regular(line) for line in told_first(expected)]
    assert done.stdout == b""


def test_the_example_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any network: no name leads anywhere, so everything is asked and nothing is found."""
    asked: list[str] = []

    def ask_host(name: str) -> list[str]:
        asked.append(name)
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    questions: list[str] = []
    monkeypatch.setattr(resolve, "_ask_host", ask_host)
    monkeypatch.chdir(project)
    (example,) = blocks_of(DOCUMENT, "python")
    for tool, stand_in in _TOOLS.items():
        assert tool in example
        example = example.replace(tool, stand_in)

    exec(compile(example, DOCUMENT.name, "exec"), {"input": lambda text: questions.append(text) or "no"})

    assert asked == ["packages.example.org", "api.example.com"]
    assert questions == ["let it connect to npmjs.example:443? "]
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("0 [")
    assert "host='api.example.com'" in second
