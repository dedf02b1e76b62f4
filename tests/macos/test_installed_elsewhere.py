"""Installed where there is no Linux: no compiler is asked for, and Windows is told where corral works."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
_WINDOWS = """
import os, runpy, sys
for name in ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "_posixsubprocess"):
    sys.modules[name] = None
for name in ("geteuid", "getuid", "uname", "fork", "posix_spawn", "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC"):
    delattr(os, name)
sys.platform = "win32"
sys.argv = ["corral", *sys.argv[1:]]
runpy.run_module("corral", run_name="__main__")
"""


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_the_build_compiles_nothing_where_the_launcher_cannot_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str
) -> None:
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("hatch_build_elsewhere", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.CorralBuildHook()
    hook.target_name, hook.root = "wheel", str(tmp_path)
    monkeypatch.setattr(module, "find_compilers", lambda: pytest.fail("a compiler was looked for"))
    monkeypatch.setattr(sys, "platform", platform)
    data: dict[str, dict[str, str]] = {"shared_scripts": {}}
    hook.initialize("standard", data)

    assert data == {"shared_scripts": {str(tmp_path / "scripts/corral"): "corral"}}  # for every platform
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("--version",), 0, "corral, version "),
        (("doctor",), 1, "WSL2"),
        (("run", "--", "touch", "made"), 3, "WSL2"),
        (("explain", "--", "true"), 3, "docker: its containers are in a virtual machine"),
    ],
)
def test_windows_is_told_where_corral_works(
    tmp_path: Path, words: tuple[str, ...], status: int, told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WINDOWS, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, told in done.stdout + done.stderr) == (status, True), done.stderr
    assert list(tmp_path.iterdir()) == []
