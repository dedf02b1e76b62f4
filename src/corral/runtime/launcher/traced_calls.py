"""Say why a traced call on a file failed. The failure is observed; the path is what the command claims."""

from __future__ import annotations

import errno as errno_names
import os
import posixpath

from corral.linux.syscalls import Arch, numbers
from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation
from corral.runtime.inference import UNGRANTED_REASON, explain_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan
    from corral.runtime.status import RefusedCall

_READING = frozenset({"execve", "execveat", "chdir"})
#: Where the flags of an open are, among its arguments.
_FLAGS = {"open": 1, "openat": 2}
_CREATING = frozenset(
    {"mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat", "link", "linkat", "creat"}
)
_O_ACCMODE, _O_CREAT, _O_TRUNC = 0o3, 0o100, 0o1000
_OTHERS_DOING = "by no rule of corral's: modes or owner of the file, or the kernel itself"


def explain_traced(plan: Plan, call: RefusedCall) -> Violation | None:
    """What failed and why; None for what nobody need know, such as a name that is simply not there."""
    names = {nr: name for name, nr in numbers(Arch(os.uname().machine)).items()}
    name = names.get(call.number, f"call {call.number}")
    flags = call.arguments[_FLAGS[name]] if name in _FLAGS else 0
    creates = name in _CREATING or bool(flags & _O_CREAT)
    is_open = name in _FLAGS or name == "openat2"
    writes = bool(flags & (_O_ACCMODE | _O_CREAT | _O_TRUNC)) if is_open else name not in _READING
    writes |= call.errno in {errno_names.EROFS, errno_names.EBUSY}
    failed = f"{name} failed: {os.strerror(call.errno)}"
    paths = [_whole(*pair) for pair in zip(call.claims[::2], call.claims[1::2], strict=False)]
    for path in paths:
        found = explain_path(plan, path, writes=writes, creates=creates)
        if call.errno == errno_names.ENOENT and (found is None or not _is_telling(found)):
            continue
        if found is not None:
            return found.replace(evidence=Evidence.OBSERVED, detail=f"{failed}: {found.detail}")
    if call.errno == errno_names.ENOENT or not paths:
        return None
    feature = Feature.FS_WRITE if writes else Feature.FS_READ
    return Violation(feature, paths[0], Evidence.OBSERVED, f"{failed}: {_OTHERS_DOING}")


def _is_telling(found: Violation) -> bool:
    """Of what is not there inside: programs try many names of the system in passing.

    A name with bytes that cannot be typed has no hint, and nobody tries such a one in passing.
    """
    is_odd = not found.subject.isprintable() and found.detail == UNGRANTED_REASON
    return bool(found.hint) or is_odd or found.feature is Feature.FS_DENY


def _whole(directory: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(directory, path))
