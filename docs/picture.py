"""Make docs/top.svg anew: `corral top` on real sessions and runs, in a home of its own.

.venv/bin/python docs/picture.py
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET = Path(__file__).resolve().parent / "top.svg"
_SIZE = (80, 24)
#: Until this is on the screen, what it is a picture of has not happened yet.
_AWAITED = ("evil.example", "registry.example", ".mcp.json", "%", "1&#160;failed")
_SECONDS = 60.0
_COMMANDS = (
    ("session", "exec", "api", "-c", "getent hosts api.example.org; getent hosts evil.example; sleep 60"),
    ("run", "-p", "strict", "-c", "getent hosts registry.example; while :; do :; done"),
    ("run", "-c", "echo {} > .mcp.json; sleep 60"),
    ("run", "-c", "sleep 4; exit 2"),
)


def _corral(*words: str) -> list[str]:
    return [sys.executable, "-m", "corral", *words]


async def _draw() -> str:
    """The screen once everything is on it, as SVG."""
    from corral.cli.top.view import TopView

    view = TopView()
    deadline = time.monotonic() + _SECONDS
    async with view.run_test(size=_SIZE) as pilot:
        while True:
            await pilot.pause(0.5)
            picture = view.export_screenshot(title="corral top")
            if all(text in picture for text in _AWAITED):
                return picture
            if time.monotonic() > deadline:
                raise SystemExit("not everything came to the screen")


def main() -> int:
    """Start what is to be seen, draw it, and end it."""
    with tempfile.TemporaryDirectory(prefix="demo-") as home:
        workspace = Path(home) / "shop"
        workspace.mkdir()
        os.environ.update(HOME=home)
        for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
            os.environ.pop(name, None)
        os.chdir(workspace)
        subprocess.run(["git", "init", "-q"], check=True)
        subprocess.run(_corral("session", "start", "api", "--allow", "api.example.org"), check=True)
        subprocess.run(_corral("session", "start", "build", "-p", "permissive"), check=True)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = [subprocess.Popen(_corral(*words), **quiet) for words in _COMMANDS]  # type: ignore[call-overload]
        try:
            picture = asyncio.run(_draw())
        finally:
            for process in started:
                process.kill()
                process.wait()
            for name in ("api", "build"):
                subprocess.run(_corral("session", "stop", name), check=True, stdout=subprocess.DEVNULL)
    # A picture fetches nothing: its fonts are those of whoever looks at it.
    TARGET.write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
