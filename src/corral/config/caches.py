"""Kept package caches: one directory for each workspace, which its commands share among themselves alone.

TRUST: a cache is code for later. What a command puts into the user's own cache would be run by the user,
and what it puts into another project's would be run there. So neither is ever granted for this.
"""

from __future__ import annotations

import os

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

    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    digest = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    name = os.path.basename(workspace) or "root"
    return os.path.join(os.path.realpath(base), "corral", "workspaces", f"{name}-{digest}")


def cache_variables(directory: str) -> Iterator[tuple[str, str]]:
    """What the commands' environment says about it."""
    for name, below in _VARIABLES.items():
        yield name, os.path.join(directory, below) if below else directory
