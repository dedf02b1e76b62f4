"""Judges: what an attack achieved, seen from the host. The guest's own words count for secrets only."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Judge
    from corral.selftest.stage import Stage

#: In the workspace: what only a system call that succeeded yields (a name that the kernel gave a descriptor).
PROOF = "ws/proof"
_GROWING_SECONDS = 0.6


def written(*names: str) -> Judge:
    """One of the files holds the token."""

    def judge(stage: Stage, _output: str) -> str:
        found = [name for name in names if stage.token in stage.read(name)]
        return f"{found[0]} was written" if found else ""

    return judge


def appeared(*names: str) -> Judge:
    """One of the names exists."""

    def judge(stage: Stage, _output: str) -> str:
        found = [name for name in names if os.path.lexists(stage.at(name))]
        return f"{found[0]} was made" if found else ""

    return judge


def vanished(name: str) -> Judge:
    """The name does not exist any more."""

    def judge(stage: Stage, _output: str) -> str:
        return "" if os.path.lexists(stage.at(name)) else f"{name} was removed"

    return judge


def emptied(name: str) -> Judge:
    """The file has lost its content."""

    def judge(stage: Stage, _output: str) -> str:
        return "" if stage.read(name) else f"{name} was emptied"

    return judge


def leaked() -> Judge:
    """The secret that the attack was never given came out of it."""

    def judge(stage: Stage, output: str) -> str:
        return "the secret was printed" if stage.secret in output else ""

    return judge


def received(name: str) -> Judge:
    """A listener of the host was reached."""

    def judge(stage: Stage, _output: str) -> str:
        return f"the host's {name} listener was reached" if stage.has_received(name) else ""

    return judge


def proved(what: str) -> Judge:
    """The attack left a proof that a system call succeeded."""

    def judge(stage: Stage, _output: str) -> str:
        proof = " ".join(stage.read(PROOF).replace("\0", " ").split())[:80]
        return f"{what}: {proof}" if proof else ""

    return judge


def altered(what: str) -> Judge:
    """A status that the setup remembered is another one now. See `remember`."""

    def judge(stage: Stage, _output: str) -> str:
        path = str(stage.remembered[f"path of {what}"])
        return "" if status(path) == stage.remembered[what] else f"the {what} was changed"

    return judge


def remember(stage: Stage, what: str, path: str) -> None:
    """Note what a file looks like before the attack."""
    stage.remembered[f"path of {what}"] = path
    stage.remembered[what] = status(path)


def status(path: str) -> tuple[object, ...]:
    """Mode, owner, times and extended attributes."""
    seen = os.lstat(path)
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        names = []
    return (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_mtime_ns, tuple(sorted(names)))


def grows(name: str) -> Judge:
    """Somebody still writes to the file, although the run is over."""

    def judge(stage: Stage, _output: str) -> str:
        path = stage.at(name)
        before, deadline = _size(path), time.monotonic() + _GROWING_SECONDS
        while time.monotonic() < deadline:
            if _size(path) > before:
                return f"{name} is still being written after the run"
            time.sleep(0.02)
        return ""

    return judge


def either(*judges: Judge) -> Judge:
    """The first effect of several."""

    def judge(stage: Stage, output: str) -> str:
        return next(filter(None, (one(stage, output) for one in judges)), "")

    return judge


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
