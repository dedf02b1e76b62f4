"""The mounts of the host, as tests compare them before and afterwards."""

from __future__ import annotations

from pathlib import Path


def host_mounts() -> list[str]:
    """Podman, which other tests use at the same time, mounts its storage for as long as it looks at it."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "/containers/storage/" not in line]
