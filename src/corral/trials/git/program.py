"""Run git for corral: on nothing but corral's own words.

TRUST: no setting, hook, attribute, replacement or remote of a command's has a say. In a directory of
corral's own the configuration is corral's; in the host's repository it is the host's, and only references
are written there.
"""

from __future__ import annotations

import os

from corral.host.programs import find_program, trusted_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECONDS = 600
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.commitGraph": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.bigFileThreshold": "16m",
    "pack.threads": "1",
}
_FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_COMMITTER_NAME": "corral",
    "GIT_COMMITTER_EMAIL": "corral@localhost",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
}


class GitFailed(Exception):
    """Git refused, in its own words."""


class GitProgram:
    def __init__(self, distrusted: Sequence[str]) -> None:
        self.path = find_program("git", distrusted)
        self._environment = {**_FIXED, "PATH": trusted_path(distrusted) or os.defpath}

    def run(
        self,
        git_directory: str,
        arguments: Sequence[str],
        *,
        words: bytes = b"",
        source: int = -1,
        target: int = -1,
        more: Mapping[str, str] | None = None,
        kept: Sequence[int] = (),
    ) -> bytes:
        """Run git; returns what it said. `source` and `target` are files for stdin and stdout.

        Descriptors in `kept` are open in it, by their own numbers. Raises GitFailed.
        """
        import subprocess

        if not self.path:
            raise GitFailed("there is no git on the PATH")
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        environment = {**self._environment, "GIT_DIR": git_directory, **(more or {})}
        try:
            done = subprocess.run(
                [self.path, *settings, *arguments],
                stdin=source if source >= 0 else None,
                input=words if source < 0 else None,
                stdout=target if target >= 0 else subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=environment,
                pass_fds=tuple(kept),
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git {arguments[0]} took longer than {_SECONDS} seconds") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")
            raise GitFailed(f"git {arguments[0]}: {said[-1] or f'status {done.returncode}'}")
        return bytes(done.stdout or b"")
