"""Guess from the words of a command what stood in its way. All of it is `inferred`: it can print anything.

TRUST: whoever reads a guess may be the command's author. So nothing is looked at on the host but what the
command itself could read: a guess must not tell whether a path exists that is not granted.
"""

from __future__ import annotations

import os
import posixpath
import stat

from corral.model.feature import Feature
from corral.model.policy import FsAccess, NetMode
from corral.model.rules.pattern import escape
from corral.model.violation import Evidence, Violation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Grant, Plan

MOST_GUESSES = 5
_LONGEST_LINE = 4096
_BUSY, _READ_ONLY = "device or resource busy", "read-only file system"
_DENIALS = (_READ_ONLY, _BUSY, "permission denied", "operation not permitted")
#: That somebody wanted to change something, where the error itself does not say so.
_WRITING = (
    *("cannot create", "can't create", "cannot touch", "cannot remove", "cannot move", "cannot overwrite"),
    *("for writing", "cannot write", "could not write", "could not lock", "unlink", "mkdir", "rename"),
)
#: That there is nothing of that name yet.
_CREATING = ("cannot create", "can't create", "cannot touch", "mkdir")
#: Programs whose errors are about rights that no command has inside, whatever they name.
_PRIVILEGED = frozenset(
    {
        "mount",
        "umount",
        "chroot",
        "unshare",
        "nsenter",
        "sysctl",
        "insmod",
        "modprobe",
        "swapon",
        "su",
        "sudo",
    }
)
_NO_PRIVILEGES = "no command has such rights inside, and no capability grants them"
_NO_SUDO = ('"no new privileges" flag is set', "sudo: effective uid is not 0")
_NO_PROCESS = ("cannot fork", "can't fork", "fork: operation not permitted", "vfork: operation not permitted")
_NO_TRACING = ("ptrace: operation not permitted", "ptrace(ptrace_traceme, ...): operation not permitted")
_NO_ENGINE = ("cannot connect to the docker daemon", "failed to connect to the docker api")
_NO_BROWSER = ("no usable sandbox!", "running as root without --no-sandbox is not supported")
_NO_NETWORK = (
    "network is unreachable",
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "getaddrinfo eai_again",
)
_QUOTES = (("'", "'"), ('"', '"'), ("\u2018", "\u2019"), ("`", "'"))
#: What everybody's programs depend on: nobody is told to let a command write there.
_CORE = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys"),
    *("/usr", "/nix", "/gnu"),
)
_TOO_WIDE = frozenset({"/", "/home", "/Users"})
_SHARED = ("/opt", "/run", "/tmp", "/var")
_SYSTEM_REASON = "it is part of the system, which no command changes; do it outside"
UNGRANTED_REASON = "no rule grants it"
_PROTECTED_REASON = "the host may run or trust it later, so commands cannot change it"
_SIGNS = tuple(
    sign.encode()
    for sign in (
        *(*_DENIALS, *_NO_SUDO, *_NO_PROCESS, *_NO_TRACING),
        *(*_NO_ENGINE, *_NO_BROWSER, *_NO_NETWORK),
    )
)
#: What whoever gives a protection up should know.
PROTECTION_RISK = "the host runs or trusts this file: the command could take over the host"


def is_suspicious(text: bytes) -> bool:
    """Whether any of the words is in it that are looked for: most of what commands print has none of them."""
    lowered = text.lower()
    return any(sign in lowered for sign in _SIGNS)


def infer(plan: Plan, text: str) -> Iterator[Violation]:
    """What the last words of a command say, each subject once."""
    seen: set[str] = set()
    lacking = list(_lacking(plan))
    for line in text.splitlines():
        if len(seen) >= MOST_GUESSES:
            return
        found = _read(plan, line[:_LONGEST_LINE], lacking)
        if found is not None and found.subject not in seen:
            seen.add(found.subject)
            yield found


def _read(plan: Plan, line: str, lacking: list[tuple[tuple[str, ...], Violation]]) -> Violation | None:
    lowered = line.lower()
    for signs, violation in lacking:
        if any(sign in lowered for sign in signs):
            return violation
    words = next((words for words in _DENIALS if words in lowered), "")
    if not words:
        return None
    program = posixpath.basename(line.partition(":")[0].strip())
    if program in _PRIVILEGED:
        return _guess(Feature.PRIVILEGES, program, _NO_PRIVILEGES)
    writes = words in {_BUSY, _READ_ONLY} or any(word in lowered for word in _WRITING)
    creates = any(word in lowered for word in _CREATING)
    for name in candidates(line, lowered.index(words)):
        path = posixpath.normpath(posixpath.join(plan.command.cwd, name))
        if not name.startswith("/") and _grant_at(plan, path) is None:
            continue  # any word could be a name
        must_write = writes or _is_open_to_all(_grant_at(plan, path), path)
        found = explain_path(plan, path, writes=must_write, creates=creates)
        if found is not None:
            return found
    return None


def _is_open_to_all(grant: Grant | None, path: str) -> bool:
    """Whether everybody may read a file of the system that is granted: who was refused wanted to write it."""
    if grant is None or not grant.is_system or grant.access is not FsAccess.READ:
        return False
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and bool(found.st_mode & stat.S_IROTH)


def candidates(line: str, place: int) -> Iterator[str]:
    """Names that a message could be about, the likeliest first; `place` is where it says what went wrong."""
    found = [name for opening, closing in _QUOTES for name in _between(line, opening, closing)]
    if found:
        yield from found
        return
    parts = [part.strip() for part in line[:place].rstrip(" :,(").split(": ")]
    if len(parts) > 1 or " " in parts[0]:  # a single word is who says it
        for words in _WRITING:  # a shell's `cannot create NAME` has no quotes
            if parts[-1].startswith(f"{words} "):
                yield parts[-1].removeprefix(f"{words} ")
                return
        yield parts[-1]
        if " " in parts[-1]:
            yield parts[-1].split()[-1]
    after = line[place:].partition(": ")[2].strip()
    if after.startswith("/"):
        yield after


def _between(line: str, opening: str, closing: str) -> Iterator[str]:
    rest = line
    while True:
        _, is_open, rest = rest.partition(opening)
        name, is_closed, rest = rest.partition(closing)
        if not is_open or not is_closed:
            return
        if name and "\0" not in name:
            yield name


def explain_path(plan: Plan, path: str, *, writes: bool, creates: bool = False) -> Violation | None:
    """Why a plan does not let a command at a path, as far as it is the plan's doing."""
    if writes and (name := _protected(plan, path)):
        if _is_in(path, name):
            return _guess(Feature.FS_PROTECT, name, _PROTECTED_REASON, "waive:fs.protect", PROTECTION_RISK)
        reason = f"it stays where it is: {posixpath.relpath(name, path)} in it is protected"
        return _guess(Feature.FS_PROTECT, path, reason, "waive:fs.protect", PROTECTION_RISK)
    for denial in plan.resolved.denied:
        if _is_in(path, denial.path):
            return _guess(Feature.FS_DENY, path, "it is denied, or hidden as a secret")
    grant = _grant_at(plan, path)
    area = max((area for area in plan.resolved.private if _is_in(path, area)), key=len, default="")
    if area and (grant is None or len(area) > len(grant.target.path)):
        return None  # the sandbox's own: what fails there is the file's own doing
    if grant is not None and (grant.access is FsAccess.WRITE or not writes):
        return None  # file modes, or the like
    if _is_system(path, grant):
        if not writes:
            return _guess(Feature.FS_READ, path, "it is a system file that commands do not need")
        return _guess(Feature.FS_WRITE, path, _SYSTEM_REASON)
    if not writes:
        return _guess(Feature.FS_READ, path, UNGRANTED_REASON, _hint(plan, "read", path))
    if grant is None:
        place = posixpath.dirname(path) if creates else path
        return _guess(Feature.FS_WRITE, path, UNGRANTED_REASON, _hint(plan, "write", place))
    place = path if os.path.lexists(path) else posixpath.dirname(path)
    return _guess(Feature.FS_WRITE, path, "it is granted for reading only", _hint(plan, "write", place))


def _is_system(path: str, grant: Grant | None) -> bool:
    """Whether it belongs to the system or to the caller's tools; what was granted by its name is less so."""
    if grant is not None and not grant.is_system:
        return any(_is_in(path, top) for top in _CORE)
    return grant is not None or any(_is_in(path, top) for top in (*_CORE, *_SHARED))


def _hint(plan: Plan, verb: str, path: str) -> str:
    """The capability for a path, unless nobody should be told to grant that."""
    home = plan.resolved.home
    if path in _TOO_WIDE or _is_in(home, path) or _is_secret(path, home):
        return ""
    return f"filesystem:{verb}:{escape(path)}" if path.isprintable() else ""


def _is_secret(path: str, home: str) -> bool:
    """Whether it is one of those that homes hide: nobody is told to grant a key."""
    from corral.policy.preset import hidden_in_homes

    return any(_is_in(path, home + name[1:]) or f"{name[1:]}/" in f"{path}/" for name in hidden_in_homes())


def _protected(plan: Plan, path: str) -> str:
    """A protected name at or above a path, or beneath it; or what is held in place for one."""
    names = [shield.target.path for shield in plan.shields]
    names += [posixpath.join(watch.directory, watch.name) for watch in plan.watches]
    beneath = (name for name in names if _is_in(name, path) and any(pin.path == path for pin in plan.pins))
    return next((name for name in names if _is_in(path, name)), "") or next(beneath, "")


def _grant_at(plan: Plan, path: str) -> Grant | None:
    above = [grant for grant in plan.resolved.grants if _is_in(path, grant.target.path)]
    return max(above, key=lambda grant: len(grant.target.path), default=None)


def _is_in(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _guess(feature: Feature, subject: str, reason: str, hint: str = "", risk: str = "") -> Violation:
    return Violation(feature, subject, Evidence.INFERRED, reason, hint, risk)


def _lacking(plan: Plan) -> Iterator[tuple[tuple[str, ...], Violation]]:
    """Words that tell of something which the plan does not grant at all."""
    resolved = plan.resolved
    if resolved.net.mode is NetMode.NONE:
        reason = "this policy has no network; --allow HOST permits a host"
        yield _NO_NETWORK, _guess(Feature.NET_NONE, "network", reason)
    if not resolved.spawn:
        reason = "the command may not start further processes"
        yield _NO_PROCESS, _guess(Feature.PROC_SINGLE, "process", reason, "process:spawn")
    reason = "the engine's socket is hidden, because it controls the whole host"
    yield _NO_ENGINE, _guess(Feature.FS_READ, "docker", reason)
    reason = "it cannot be made inside corral's; pass --no-sandbox to the browser"
    yield _NO_BROWSER, _guess(Feature.PRIVILEGES, "the browser's own sandbox", reason)
    yield _NO_SUDO, _guess(Feature.PRIVILEGES, "sudo", _NO_PRIVILEGES)
    if not resolved.debug:
        reason = "the command may not trace processes"
        yield _NO_TRACING, _guess(Feature.SYSCALLS, "ptrace", reason, "process:debug")
