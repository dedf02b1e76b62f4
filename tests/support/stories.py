"""Stories of two runs: an earlier command plants something, a later one must not gain by it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.probed import require, silence_engines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from support.warm_corral import WarmCorral

    Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A home with a key in it and a workspace `ws`, a repository."""
    require(request)
    directory = tmp_path / "home"
    (directory / ".ssh").mkdir(parents=True)
    (directory / ".ssh" / "key").write_text("SECRET KEY")
    (directory / ".ssh" / "key").chmod(0o600)
    monkeypatch.setenv("HOME", str(directory))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CORRAL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{silence_engines(tmp_path / 'engines')}:/usr/local/bin:/usr/bin:/bin")
    subprocess.run(["git", "init", "-q", str(directory / "ws")], check=True)
    return directory


@pytest.fixture
def corral(home: Path, warm_corral: WarmCorral) -> Run:
    def run(*arguments: str, cwd: str = "ws", **env: str) -> subprocess.CompletedProcess[bytes]:
        return warm_corral.run(arguments, b"", home / cwd, {**os.environ, **env}, timeout=60)

    return run


def user_file(home: Path, **sandbox: object) -> None:
    file = home / ".config" / "corral" / "corral.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    agents = sandbox.pop("agent", {})
    file.write_text(json.dumps({"sandbox": sandbox, "agent": agents}))


def plant(corral: Run, script: str, cwd: str = "ws", **env: str) -> None:
    done = corral("run", "-c", script + "\necho planted", cwd=cwd, **env)
    assert done.stdout.endswith(b"planted\n"), done.stderr
