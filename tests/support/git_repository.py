"""Repositories made of a few files, for a check that does not run git."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
EVIL = "\tfsmonitor = ./evil\n"


def make_repository(path: Path, config: str = CONFIG) -> Path:
    for name in ("objects", "refs/heads", "hooks", "info", "logs"):
        (path / name).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    (path / "config").write_text(config)
    (path / "hooks/pre-commit.sample").touch()
    return path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
