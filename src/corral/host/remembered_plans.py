"""What planning found in a workspace of many repositories, kept from one run to the next.

It takes longer to find than to check: what is kept is believed only if the host gives the same answers to the
same questions now (`planning/answer_cache.py`), for the same policy, by the same corral. It lies in corral's
state directory, which no command can write. A host where it cannot be kept plans anew each time.
"""

from __future__ import annotations

import contextlib
import marshal
import os
from collections.abc import Mapping
from enum import Enum

from corral import __version__
from corral.git_check.remembered import forget_oldest
from corral.host.real import state_directory
from corral.host.state import read_state, write_state
from corral.model.plan import ConfigCopy, FileStamp, PathKind, ResolvedPath, Shield, WatchedName
from corral.model.probe import Stat
from corral.model.record import Record
from corral.planning.build import Held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.host.real import RealHost

    Answers = dict[tuple[Any, ...], Any]
    Stamps = dict[str, tuple[int, ...]]

_DIRECTORY = "plans"
_MOST_BYTES = 1 << 27
_MOST_FILES = 64
_FORMAT = 2
#: What may be stored: plans with anything else in them (patterns, for one) are made anew.
_STORED = {
    each.__name__: each
    for each in (ConfigCopy, FileStamp, Held, PathKind, ResolvedPath, Shield, Stat, WatchedName)
}
_PLAIN = frozenset({str, int, bool, type(None)})


class RememberedPlan:
    """Of one workspace under one policy. `inputs` is all that it follows from besides the host's answers."""

    def __init__(self, host: RealHost, workspace: str, *inputs: object) -> None:
        self._host, self._inputs = host, inputs
        self._name = f"{_DIRECTORY}/{_digest(workspace)[:16]}"
        self._identity = ""

    def load(self) -> tuple[Answers, Stamps, Held] | None:
        """What was kept last, if it was made of the same."""
        try:
            self._identity = self._identify()
            data = read_state(self._name, _MOST_BYTES)
            identity, answers, stamps, found = marshal.loads(data)  # noqa: S302 - corral's own file
            if identity != self._identity:
                return None
            known = {question: _from_plain(answer) for question, answer in answers}
            return known, stamps, _from_plain(found)
        except (OSError, ValueError, EOFError, TypeError, KeyError):
            return None

    def save(self, answers: Answers, found: Held) -> None:
        """Replace it as a whole."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            stamps, pairs = {}, []
            for question, answer in answers.items():
                stamp = self._host.numbers(question[1]) if question[0] == "lstat" else None
                # INVARIANT: what a stamp stands for is the very answer that the plan was made of.
                if self._host.is_answer(stamp, answer):
                    stamps[question[1]] = stamp
                else:
                    pairs.append((question, _to_plain(answer)))
            data = marshal.dumps((self._identity or self._identify(), pairs, stamps, _to_plain(found)))
            write_state(self._name, data)
            forget_oldest(os.path.join(state_directory(), _DIRECTORY), _MOST_FILES)

    def is_the_same(self, stamps: Stamps) -> bool:
        """Whether all paths have these stamps: numbers, of which nothing is made to compare them."""
        numbers = self._host.numbers
        return all(numbers(path) == known for path, known in stamps.items())

    def _identify(self) -> str:
        """Raises OSError where there is no launcher."""
        host = self._host
        status = os.stat(host.launcher()[0])
        made_by = (_FORMAT, __version__, status.st_ino, status.st_mtime_ns, status.st_size)
        caller = (host.uid, host.gid, host.home, host.machine)
        return _digest(_describe((made_by, caller, self._inputs)))


def _digest(text: str) -> str:
    import hashlib  # a plain run keeps no plan

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _describe(value: Any) -> str:
    """A text that is the same for equal values only, in this process and in the next: sets are sorted."""
    if isinstance(value, Record):
        return f"{type(value).__name__}({', '.join(map(_describe, value._values()))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_describe, value)))}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_describe, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{key!r}: {_describe(each)}' for key, each in value.items()))}}}"
    return repr(value)


def _to_plain(value: Any) -> Any:
    """What marshal can store: a record is a tuple that begins with its name, a tuple is a list."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return [_to_plain(each) for each in value]
    if kind.__name__ not in _STORED:
        raise TypeError(kind.__name__)
    values = (value.value,) if isinstance(value, Enum) else value._values()
    return (kind.__name__, *map(_to_plain, values))


def _from_plain(value: Any) -> Any:
    kind = type(value)
    if kind is tuple:
        return _STORED[value[0]](*[one if type(one) in _PLAIN else _from_plain(one) for one in value[1:]])
    if kind is list:
        return tuple([_from_plain(each) for each in value])
    return value
