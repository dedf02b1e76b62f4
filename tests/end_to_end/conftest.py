"""Fixtures: a project directory, and the `corral` command as a person would type it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.probed import require, silence_engines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from support.warm_corral import WarmCorral

    Corral = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(autouse=True)
def _default_backend(request: pytest.FixtureRequest) -> None:
    """Most of what is tried here is `corral run` with its defaults, which need the native backend."""
    require(request)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of the test's own, with a secret in it."""
    directory = tmp_path / "home"
    (directory / ".ssh").mkdir(parents=True)
    (directory / ".ssh" / "id_ed25519").write_text("SECRET KEY")
    monkeypatch.setenv("HOME", str(directory))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CORRAL_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    monkeypatch.setenv("PATH", f"{silence_engines(tmp_path / 'engines')}:{usual}")
    return directory


@pytest.fixture(scope="session")
def empty_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be copied: git takes longer to make one."""
    directory = tmp_path_factory.mktemp("repository") / "empty"  # with the modes of any directory
    subprocess.run(["git", "init", "-q", directory], check=True)
    return directory


@pytest.fixture
def project(tmp_path: Path, home: Path, empty_repository: Path) -> Path:
    """A small git project, with a name and an address known to git."""
    (home / ".gitconfig").write_text("[user]\n\tname = A Person\n\temail = person@localhost\n")
    return Path(shutil.copytree(empty_repository, tmp_path / "project", symlinks=True))


@pytest.fixture
def user_file(home: Path) -> Path:
    """Where the user's own file is; it is not there yet."""
    directory = home / ".config" / "corral"
    directory.mkdir(parents=True)
    return directory / "corral.json"


@pytest.fixture
def corral(project: Path, warm_corral: WarmCorral) -> Corral:
    """Runs `corral ARGUMENTS` in the project and returns what it printed."""

    def run(
        *arguments: str, stdin: bytes = b"", cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        return warm_corral.run(arguments, stdin, cwd or project, {**os.environ, **env}, timeout=60)

    return run
