"""What README and docs/wasm.md show of modules runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.probed import require

ROOT = Path(__file__).resolve().parents[3]


def _block(document: str, needle: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8")
    (found,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if needle in block]
    return found


def test_the_modules_of_the_readme_run_as_printed(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    require(request, "wasm")

    exec(compile(_block("README.md", "ModuleSandbox("), "README.md", "exec"), {})

    assert capsys.readouterr().out == "['filesystem:write:/srv']\n21\n42\n"


def test_the_document_shows_what_the_command_line_prints(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from corral.cli.module.show import Parent, call_module, inspect_module

    require(request, "wasm")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adder.wat").write_text(
        '(module (@custom "corral.capabilities" "filesystem:read:/etc") (func (export "add") (param i32 i32)'
        " (result i32) (i32.add (local.get 0) (local.get 1))))"
    )
    text = (ROOT / "docs/wasm.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```console\n\$ corral module inspect adder.wat\n(.*?)```", text, re.DOTALL)
    parent = Parent("strict", (), None)

    inspect_module("adder.wat", parent, as_json=False)
    printed = capsys.readouterr().out + "$ corral module call adder.wat add 2 40\n"
    call_module("adder.wat", "add", ("2", "40"), parent, as_json=False)
    printed += capsys.readouterr().out

    assert re.fullmatch(re.escape(shown).replace(r"\.\.\.", ".*"), printed)
