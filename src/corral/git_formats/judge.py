"""Decide which changes that a command made to a copy of a git configuration are taken over into the file.

A name is taken over with all of its values, or it stays as it was. Taken over is what is harmless before and
after, and leads nobody elsewhere:

  - an address is taken over only with a remote or submodule that was not there before. A changed one would
    lead the user's next push somewhere new, and so would one that is removed now and made anew later;
  - a branch follows a remote that was there before, and where pushes go is the user's choice, unless the
    repository had no remote at all;
  - no new remote is called `origin`, which git uses where nothing else is said, if there are others; nor is
    it called like an address or a path, `.` for one, which git would then take for the remote; and no
    branch that follows a remote is made to follow `.`;
  - what keeps git from doing something is not removed.
"""

from __future__ import annotations

from corral.git_formats.config import read_config
from corral.git_formats.keys import (
    chooses_where_to_push,
    harmless_remotes,
    is_address,
    is_harmless,
    is_path,
    protects,
)
from corral.git_formats.rewrite import key_of, rewrite
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from corral.git_formats.config import ConfigEntry

    Entries = tuple[ConfigEntry, ...]

NOT_HARMLESS = "git could run a program, read a file or go elsewhere because of it"
NOT_THE_COMMANDS = "what it says is not a command's to change"
PROTECTS = "it keeps git from something"
EXISTING_ADDRESS = "it would lead the next fetch or push elsewhere"
ODD_NAME = "a new remote must not stand for an address, or for the others"
WHERE_TO_PUSH = "it would lead the next push to another remote"
OF_A_REMOTE = "its remote stays as it is"
OF_THE_FORMAT = "it says how git reads this repository"


class Unproved(ValueError):
    """What was written does not read as it was meant; it is not to be used."""


class Judgement(Record):
    data: bytes  # the file as it is to be
    taken: tuple[str, ...]  # names
    refused: tuple[tuple[str, str], ...]  # name and reason


def judge(before: bytes, after: bytes) -> Judgement:
    """What becomes of a file if a command made `after` of a copy of it.

    Raises MalformedConfig if git would refuse one of the two, Unproved if the outcome cannot be written.
    """
    old, new = _by_name(read_config(before)), _by_name(read_config(after))
    changed = [name for name in {**old, **new} if _values(old.get(name)) != _values(new.get(name))]
    refused = _refuse(changed, old, new)
    taken = tuple(name for name in changed if name not in refused)
    changes = {
        name: tuple((key_of(after, entry), entry.value) for entry in new.get(name, ())) for name in taken
    }
    data = rewrite(before, changes) if taken else before
    _prove(data, old, {name: new.get(name, ()) for name in taken}, before)
    return Judgement(data, taken, tuple(refused.items()))


def _by_name(entries: Iterable[ConfigEntry]) -> dict[str, Entries]:
    found: dict[str, list[ConfigEntry]] = {}
    for entry in entries:
        found.setdefault(entry.name, []).append(entry)
    return {name: tuple(group) for name, group in found.items()}


def _values(entries: Entries | None) -> tuple[tuple[str | None, str | None], ...]:
    return tuple((entry.value, entry.older_value) for entry in entries or ())


def _refuse(changed: list[str], old: Mapping[str, Entries], new: Mapping[str, Entries]) -> dict[str, str]:
    """The names that stay as they were, and why.

    TRUST: each round judges the whole file that would come out of it: without a remote that was refused, the
    name of it is a directory.
    """
    refused: dict[str, str] = {}
    before = _Remotes(old)
    while True:
        outcome = dict(old)
        for name in changed:
            if name not in refused:
                outcome[name] = new.get(name, ())
        remotes = harmless_remotes(entry for entries in outcome.values() for entry in entries)
        more = {
            name: why
            for name in changed
            if name not in refused
            and (why := _objection(old.get(name, ()), new.get(name, ()), before, remotes, refused))
        }
        if not more:
            return refused
        refused |= more


class _Remotes:
    """The remotes of a file, harmless or not."""

    def __init__(self, entries: Mapping[str, Entries]) -> None:
        every = [entry for group in entries.values() for entry in group]
        self.names = {entry.subsection for entry in every if entry.section == "remote"} - {None}
        self.harmless = harmless_remotes(every)


def _objection(
    old: Entries, new: Entries, before: _Remotes, remotes: Collection[str], refused: Mapping[str, str]
) -> str:
    """Why a name stays as it was; empty if nothing speaks against it."""
    first = (new or old)[0]
    if first.section == "remote" and first.subsection not in before.names and is_path(first.subsection or ""):
        return ODD_NAME
    if not all(is_harmless(entry, remotes) for entry in new):
        return NOT_HARMLESS
    if not all(is_harmless(entry, before.harmless) for entry in old):
        return NOT_THE_COMMANDS
    if any(map(protects, old)) and not new:
        return PROTECTS
    if first.section == "extensions" or first.name == "core.repositoryformatversion":
        return OF_THE_FORMAT
    if first.section == "remote" and f"remote.{first.subsection}.url" in refused:
        return OF_A_REMOTE
    if first.section == "submodule" and first.key == "url":
        return EXISTING_ADDRESS  # the name may be one of .gitmodules
    if is_address(first):
        return _address_objection(first, old, before)
    if first.section == "remote" and first.subsection in before.names:
        return OF_A_REMOTE
    if chooses_where_to_push(first):
        return WHERE_TO_PUSH if before.names else ""
    if first.section == "branch" and first.key == "remote":
        here = all(entry.value == "." for entry in old)  # `.` is this repository
        known = all((here and entry.value == ".") or entry.value in before.names for entry in new)
        return "" if known or not before.names else WHERE_TO_PUSH
    return ""


def _address_objection(entry: ConfigEntry, old: Entries, before: _Remotes) -> str:
    name = entry.subsection
    if old or (name is None and before.names):  # without a name it is for every remote
        return EXISTING_ADDRESS
    if entry.section != "remote" or name is None:
        return ""
    if name in before.names:
        return EXISTING_ADDRESS
    return ODD_NAME if ":" in name or (name == "origin" and before.names) else ""


def _prove(data: bytes, old: Mapping[str, Entries], taken: Mapping[str, Entries], before: bytes) -> None:
    """INVARIANT: the file reads as it was meant: what was taken over, and the rest as before, in order."""
    found = read_config(data)
    by_name = _by_name(found)
    wanted = {**old, **taken}
    rest = [_identity(entry) for entry in found if entry.name not in taken]
    is_right = (
        rest == [_identity(entry) for entry in read_config(before) if entry.name not in taken]
        and all(
            [entry.value for entry in by_name.get(name, ())] == [entry.value for entry in wanted[name]]
            for name in taken
        )
        and all(entry.value == entry.older_value for name in taken for entry in by_name.get(name, ()))
    )
    if not is_right:
        raise Unproved("the settings could not be written in a way that git reads as intended")


def _identity(entry: ConfigEntry) -> tuple[str, str | None, str | None]:
    return entry.name, entry.value, entry.older_value
