"""WebAssembly modules on the command line."""

from __future__ import annotations

import json

import pytest

from support.module_runs import TOOL
from support.probed import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Corral

ADDER = """(module $adder (@custom "corral.capabilities" "filesystem:read:${workspace}\\nnetwork:full\\n")
  (func $deep unreachable) (func (export "fall") (call $deep))
  (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))"""
EMPTY = b"\0asm\x01\0\0\0"


@pytest.fixture(autouse=True)
def modules(request: pytest.FixtureRequest, project: Path) -> None:
    require(request, "wasm")
    (project / "adder.wat").write_text(ADDER)


def test_a_module_is_inspected_without_being_run(corral: Corral) -> None:
    text = corral("module", "inspect", "adder.wat").stdout.decode()
    found = json.loads(corral("module", "inspect", "--json", "adder.wat").stdout)

    assert "add (i32, i32) -> i32" in text and "network:full: the parent" in text
    assert found["asks"] == ["filesystem:read:${workspace}", "network:full"]
    assert [each["capability"] for each in found["refused"]] == ["network:full"]


def test_a_function_is_called_and_a_trap_shown(corral: Corral) -> None:
    done = corral("module", "call", "adder.wat", "add", "2", "0x28")
    assert done.stdout == b"42\n" and b"refused to adder: network:full" in done.stderr

    done = corral("module", "call", "adder.wat", "fall")
    assert done.returncode == 1 and b"adder!deep" in done.stderr


def test_a_command_runs_with_what_it_asks_for(corral: Corral, project: Path) -> None:
    (project / "tool.wat").write_bytes(TOOL.read_bytes())
    (project / "text").write_text("content")
    assert b"content" not in corral("module", "run", "tool.wat", "r", "text").stdout

    (project / "tool.wat.caps").write_text("filesystem:read:${workspace}\n")
    assert corral("module", "run", "tool.wat", "r", "text").stdout == b"alive\ncontent"
    done = corral("module", "run", "tool.wat", "w", "text", "x")
    assert done.returncode == 69 and b"fs.write" in done.stderr
    assert (project / "text").read_text() == "content"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF", "is not a module"),
        (EMPTY[:5], "is not a module"),
        (EMPTY + b"\x01", "is not a valid module"),
        (b"\0asm\x0d\0\x01\0", "is a component"),
        (b"(module (import", "is not a module"),
        (b'(module (import "env" "fork" (func)) (func (export "_start")))', "env.fork"),
        (b"(module)", "no function _start"),
        (b'(module (memory 70000) (func (export "_start")))', "module"),
        (b'(module (memory 1) (memory 1) (func (export "_start")))', "not a valid module"),
    ],
)
def test_what_is_no_command_is_an_error_and_nothing_runs(
    content: bytes, words: str, corral: Corral, project: Path
) -> None:
    (project / "bad.wasm").write_bytes(content)

    done = corral("run", "--backend", "wasm", "--", "bad.wasm")

    lines = done.stderr.decode().splitlines()
    assert done.returncode == 2 and len(lines) == 3, lines
    assert lines[0].startswith("corral: the command did not run: ") and words in done.stderr.decode()


def test_auto_never_chooses_it(corral: Corral) -> None:
    done = corral("run", "--", "./adder.wat")

    assert done.returncode in {126, 127}
    assert b"module" not in done.stderr


def test_a_gate_that_there_is_not_is_an_error(corral: Corral) -> None:
    done = corral("selftest", "nonsense")

    assert done.returncode == 2 and b"isolation, limits, capabilities, violations" in done.stderr


@pytest.mark.parametrize("words", [("selftest",), ("demo",), ("session", "start")])
def test_what_needs_commands_is_refused_on_wasm(words: tuple[str, ...], corral: Corral) -> None:
    done = corral(*words, "--backend", "wasm")

    assert done.returncode in {2, 3, 125} and b"module" in done.stderr and b"Traceback" not in done.stderr
