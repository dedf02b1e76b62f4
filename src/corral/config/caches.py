"""Kept package caches: one directory for each workspace, which its commands share among themselves alone.

TRUST: a cache is code for later. What a command puts into the user's own cache would be run by the user,
and what it puts into another project's would be run there. So neither is ever granted for this. The
directory is in corral's state directory, where no command can put a link in its place.
"""

from __future__ import annotations

import os

from corral.host.directory import no_directory, not_writable
from corral.host.real import state_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where the package managers are told to keep theirs, below the directory.
_VARIABLES = {
    "XDG_CACHE_HOME": "",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "GOCACHE": "go-build",
    "GOMODCACHE": "go-mod",
    "CCACHE_DIR": "ccache",
    "PRE_COMMIT_HOME": "pre-commit",
}


def cache_directory(workspace: str) -> str:
    """The directory of a workspace; it is not made here."""
    import hashlib

    state = state_directory()
    if not state:
        fix = "set XDG_STATE_HOME, or mounts.persist_caches = false"
        raise no_directory("a directory for package caches", "you have no home directory", fix)
    digest = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    name = "".join(c for c in os.path.basename(workspace)[:40] if c.isascii() and (c.isalnum() or c in "-_."))
    return os.path.join(os.path.realpath(state), "caches", f"{name}-{digest}")


def make_cache_directory(directory: str) -> None:
    """Make it, for the first run in a workspace."""
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as problem:
        fix = "make the state directory writable, or set mounts.persist_caches = false"
        raise not_writable(directory, problem, fix) from problem


def cache_variables(directory: str) -> Iterator[tuple[str, str]]:
    """What the commands' environment says about it."""
    for name, below in _VARIABLES.items():
        yield name, os.path.join(directory, below) if below else directory
