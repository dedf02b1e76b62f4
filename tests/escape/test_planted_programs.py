"""A program that a command has planted on the PATH is not taken for one that makes sandboxes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.stories import corral, home, plant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.stories import Run

__all__ = ["corral", "home"]  # fixtures

OUTER = ("bubblewrap", "firejail", "docker", "podman")
NAMES = ("bwrap", "firejail", "docker", "podman", "limactl", "mmdebstrap")


@pytest.fixture
def planted(corral: Run, home: Path) -> dict[str, str]:
    """Programs in the workspace's own environment, which is active; each would leave a mark on the host."""
    script = f"#!/bin/sh\\ntouch {home / 'mark'}\\n"
    each = f'printf "{script}" > .venv/bin/$name; chmod +x .venv/bin/$name'
    loop = f"for name in {' '.join(NAMES)}; do {each}; done"
    plant(corral, f"mkdir -p .venv/bin; touch .venv/pyvenv.cfg\n{loop}")
    return {"PATH": f"{home}/ws/.venv/bin:{os.environ['PATH']}"}


def test_the_control_leaves_a_mark(home: Path, planted: dict[str, str]) -> None:
    os.system(f"{home}/ws/.venv/bin/bwrap")

    assert (home / "mark").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("doctor",),
        ("explain", "--", "true"),
        ("policy", "check"),
        ("image", "list"),
        ("image", "build", "minimal", "--output", "/dev/full/x"),
        *(
            ("run", "--backend", name, "--", "true")
            for name in ("bubblewrap", "firejail", "docker", "podman")
        ),
    ],
    ids=" ".join,
)
def test_nothing_planted_runs_on_the_host(
    corral: Run, home: Path, planted: dict[str, str], words: tuple[str, ...]
) -> None:
    corral(*words, **planted)

    assert not (home / "mark").exists()


def test_nothing_planted_runs_from_a_directory_above(
    corral: Run, home: Path, planted: dict[str, str]
) -> None:
    corral("run", "--backend", "bubblewrap", "--cwd", f"{home}/ws", "--", "true", cwd=".", **planted)

    assert not (home / "mark").exists()
