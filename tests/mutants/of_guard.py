"""Mutants of the guard over protected names, and of the lookout over those of a kept sandbox."""

from __future__ import annotations

from branches import REFUSED, branch_mutants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mutant import Mutant

_GUARD = "tests/unit/runtime/test_guard_over_names.py"
_LOOKS = "tests/unit/runtime/test_guard_that_looks.py"
_UNIT = "tests/unit/runtime/test_lookout_of_sessions.py"
_SESSIONS = "tests/sessions/test_protected_in_sessions.py::test_what_"
_MADE = f"{_SESSIONS}the_host_makes_meanwhile_makes_a_session_stale[native]"
_REPLACED = f"{_SESSIONS}the_host_replaces_makes_a_session_stale[idle-native]"
_PLANTED = f"{_SESSIONS}a_command_plants_is_in_its_own_result[native]"
_LEFT = f"{_SESSIONS}is_left_running_cannot_plant_between_commands"
_HELD = f"{_SESSIONS}is_protected_keeps_its_number_from_others"
_DENIED = "tests/escape/test_denied_later.py::test_by_a_session"
#: What decides whether a command may start, and what is told of it; the rest passes on what the guard says.
_LOOKOUT = {
    "__init__": (_REPLACED, _HELD, _DENIED, _PLANTED),
    "begin": (_UNIT, _MADE, _REPLACED, _LEFT),
    "_resume": (_UNIT, _PLANTED, _MADE),
    "end": (_UNIT, _PLANTED, _LEFT),
}
_ROOT = "no mode is in the way of root; ordinary users have a test of it"
_SLOWER = "only slower: what need not be looked at is looked at"
EQUIVALENT = {
    "guard._text: _may_search(handle) never": _ROOT,
    "guard._text: _may_search(handle) always": _ROOT,
    "guard._writable: mode & 192 == 192 never": "only slower: the mode is written as it is",
    "guard._writable: mode & 192 == 192 always": _ROOT,
    "guard.glance: stamp != self._stamps.get(directory) or time.time_ns() - stamp < _TICK_NS always": _SLOWER,
    "guard._listen: self.descriptor < 0 never": "the next call fails in its stead",
    "guard.react: number < 0 always": _SLOWER,
    "guard.sweep: not wrong never": _SLOWER,
    "guard.resume: self.descriptor >= 0 never": "it returns the names that this is about",
    "guard._find_wrong: self._trusted and stamp == self._settled.get(directory) never": _SLOWER,
    "guard._find_wrong: not found and time.time_ns() - stamp > _TICK_NS never": _SLOWER,
    "guard._find_wrong: self._trusted always": "a time that nobody trusts is not compared",
    "guard._inspect: _text(handle, watch.name) is not None always": "what is not there cannot be moved",
    "guard._inspect: watch.link_text always": "the kernel makes no link without a text",
}
EQUIVALENT_LOOKOUT = {
    "lookout.__init__: target.inode always": f"{REFUSED}what is not there counts as replaced",
    "lookout.__init__: target.kind is PathKind.MISSING and target.path not in watched always": (
        f"{REFUSED}what is there counts as made"
    ),
    "lookout.begin: self._on_duty == 0 always": f"{REFUSED}what a command plants counts as the host's",
    "lookout.begin: changed always": f"{REFUSED}every sandbox is stale",
    "lookout.begin: _identity(path) != identity always": f"{REFUSED}everything counts as replaced",
    "lookout.end: left always": f"{REFUSED}nothing counts as put right",
}


def guard_mutants() -> Iterator[Mutant]:
    guard, lookout = (f"src/corral/runtime/{name}.py" for name in ("guard", "lookout"))
    yield from branch_mutants("guard", guard, "fs.protect", {"": (_LOOKS, _GUARD)}, EQUIVALENT)
    yield from branch_mutants("lookout", lookout, "fs.protect in sessions", _LOOKOUT, EQUIVALENT_LOOKOUT)
