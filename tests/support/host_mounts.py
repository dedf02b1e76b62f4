"""The mounts of the host, as tests compare them before and afterwards."""

from __future__ import annotations

from pathlib import Path

#: Podman mounts its storage for as long as it looks at it, firejail its own directory the first time it is
#: used on a machine, and engines of tests what they need: all while other tests look.
_OF_OTHERS = ("/containers/storage/", "/run/firejail/", "/corral-engine-")


def host_mounts() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not any(place in line for place in _OF_OTHERS)]
