"""Decode the records of the guard over protected names."""

from __future__ import annotations

from corral.linux.reader import MalformedSpec, is_plain_path
from corral.linux.spec import GUARDED, U32, Guarded, NameFlag, ProtectedName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.linux.decode import Draft
    from corral.linux.reader import Reader


def read_guard(draft: Draft, reader: Reader) -> None:
    draft.quarantine = reader.string()
    if draft.quarantine and not is_plain_path(draft.quarantine):
        raise MalformedSpec("the quarantine is not plain")


def read_guarded(draft: Draft, reader: Reader) -> None:
    device, inode = reader.fixed(GUARDED)
    draft.guarded.append(Guarded(reader.string(), device, inode))
    if not is_plain_path(draft.guarded[-1].path):
        raise MalformedSpec("a guarded directory is not plain")


def read_searched(draft: Draft, reader: Reader) -> None:
    device, inode = reader.fixed(GUARDED)
    draft.searched.append(Guarded(reader.string(), device, inode))
    if not is_plain_path(draft.searched[-1].path):
        raise MalformedSpec("a searched directory is not plain")


def read_name(draft: Draft, reader: Reader) -> None:
    (flags,) = reader.fixed(U32)
    name = ProtectedName(reader.string(), NameFlag(flags & 1), reader.string(), reader.string())
    if not draft.guarded or flags & ~1 or name.name in {"", ".", ".."} or "/" in name.name:
        raise MalformedSpec("a protected name is in no directory, of an unknown kind, or no name")
    last = draft.guarded.pop()
    draft.guarded.append(last.replace(names=(*last.names, name)))
