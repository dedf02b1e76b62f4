"""Mutants of the guard over protected names, and of the guard over those of a kept sandbox."""

from __future__ import annotations

from branches import REFUSED, branch_mutants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mutant import Mutant

_GUARD = "tests/unit/protected_names/test_guard_over_names.py"
_LOOKS = "tests/unit/protected_names/test_guard_that_looks.py"
_TREES = "tests/unit/protected_names/test_pattern_trees.py"
_HOLDS = "tests/unit/protected_names/test_holds.py"
_STAMPS = "tests/unit/protected_names/test_stamps.py"
_UNIT = "tests/unit/protected_names/test_session_guard.py"
_SESSIONS = "tests/sessions/test_protected_in_sessions.py::test_what_"
_MADE = f"{_SESSIONS}the_host_makes_meanwhile_is_protected_from_the_next_command_on"
_REPLACED = f"{_SESSIONS}the_host_replaces_again_and_again_is_protected"
_OTHER = "tests/sessions/test_protected_in_sessions.py::test_a_file_without_a_copy_that_the_host_replaces"
_OTHER += "_is_protected"
_WAITED = "tests/sessions/test_protected_in_sessions.py::test_a_command_that_somebody_waits_for_is_not_ended"
_UNMENDED = f"{_SESSIONS}a_command_left_that_nobody_could_take_away_is_not_taken_for_the_hosts"
_COPY = (
    "tests/sessions/test_git_settings_in_sessions.py"
    "::test_what_is_refused_is_told_once_and_gone_for_the_next_command"
)
_OWN = "tests/sessions/test_protected_in_sessions.py::test_a_repository_that_a_command_makes_is_no_change"
_OWN += "_of_the_hosts"
_PLANTED = f"{_SESSIONS}a_command_plants_is_in_its_own_result[native]"
_LEFT = f"{_SESSIONS}is_left_running_cannot_plant_between_commands"
_HELD = f"{_SESSIONS}is_protected_keeps_its_number_from_others"
_DENIED = "tests/escape/test_denied_later.py::test_by_a_session"
#: What decides whether a command may start, and what is told of it; the rest passes on what the guard says.
_SESSION_GUARD = {
    "__init__": (_UNIT, _REPLACED, _HELD, _DENIED, _PLANTED),
    "_look": (_UNIT, _MADE, _OTHER, _LEFT, _COPY),
    "_resume": (_UNIT, _PLANTED, _MADE),
    "retire": (_UNMENDED, _WAITED),
    "end": (_UNIT, _PLANTED, _LEFT, _OWN),
}
_ROOT = "no mode is in the way of root; ordinary users have a test of it"
_SLOWER = "only slower: what need not be looked at is looked at"
_OF_MACS = "kqueue tells no names, and is not on this machine; tests/macos has it"
EQUIVALENT = {
    "guard._text: _may_search(handle) never": _ROOT,
    "guard._text: _may_search(handle) always": _ROOT,
    "guard._writable: mode & 192 == 192 never": "only slower: the mode is written as it is",
    "guard._writable: mode & 192 == 192 always": _ROOT,
    "guard.glance: stamp != self._stamps.get(path) "
    "or time.time_ns() - latest_ns(stamp) < _TICK_NS always": _SLOWER,
    "guard._listen: self._notices.has_names always": _OF_MACS,
    "guard.attend: self.patience_ms is not None always": _SLOWER,
    "guard.patience_ms: self._notices is not None and (not self._notices.has_names) "
    "and self._trees.is_used never": _OF_MACS,
    "guard.patience_ms: self._notices is not None and (not self._notices.has_names) "
    "and self._trees.is_used always": _SLOWER,
    "guard._listen_after: len(self._directories) <= MOST_HELD never": "only slower: "
    "the kernel is asked at once, and takes long to forget it",
    "guard._listen_after: self._trees.is_large never": "only later: until the kernel tells, it is looked",
    "guard.react: number < 0 or (directory is not None and (not name)) always": _SLOWER,
    "guard.sweep: not wrong never": _SLOWER,
    "guard.resume: self._notices is not None never": "it returns the names that this is about",
    "guard._find_wrong: self._trusted and stamp == self._settled.get(path) never": _SLOWER,
    "guard._find_wrong: not found and time.time_ns() - latest_ns(stamp) > _TICK_NS never": _SLOWER,
    "guard._find_wrong: self._trusted always": "a time that nobody trusts is not compared",
    "guard._inspect_in: name never": _SLOWER,
    "guard._inspect: _text(handle, watch.name) is not None always": "what is not there cannot be moved",
    "guard._inspect: watch.link_text always": "the kernel makes no link without a text",
}
_CHANGED = (
    "folder is None or folder.node is not node or folder.stamp is None or (folder.stamp != stamp_of(path))"
)
_CLOSED = "not self.may_open or _is_others(path)"
_ANOTHER = "(status.st_dev, status.st_ino) != (self._search.device, self._search.inode)"
_UNSEEN = f"{REFUSED}what a command has closed counts as unseen"
EQUIVALENT_TREES = {
    "trees.hear: hit or hit_inside or (left and mask & _IN_ISDIR) always": _SLOWER,
    "trees.hear: mask & _IN_ISDIR always": _SLOWER,
    f"trees._walk: {_CHANGED} always": _SLOWER,
    "trees._walk: before is not None and path not in self._renewed never": _SLOWER,
    "trees._walk: only_new never": _SLOWER,
    "trees._walk: only_new always": "when everything is looked at, nothing was known before",
    "trees._walk: each[0] not in self._renewed never": _SLOWER,
    "trees._list: problem.errno not in _GONE and (not _is_shut(path)) always": (
        f"{REFUSED}a directory that has gone counts as closed"
    ),
    "trees._list: found or not is_settled(stamp, began) always": _SLOWER,
    "trees._enter: not hit_inside and (not left) never": _SLOWER,
    f"trees._open: {_CLOSED} never": _ROOT,
    f"trees._open: {_CLOSED} always": _UNSEEN,
    "trees._open: path == self._search.path never": _UNSEEN,
    f"trees._open_top: {_ANOTHER} always": _UNSEEN,
    "trees.glance: not self._trees or began < self._look_at never": _SLOWER,
}
EQUIVALENT_WATCHED = {
    "watched.stamp: (status.st_dev, status.st_ino) == self._identity always": (
        "another time as well; what it is, is compared when it is opened"
    ),
}
EQUIVALENT_HOLDS = {
    "holds._hold: problem.errno not in CHANGED always": f"{REFUSED}what is gone cannot be held",
    "holds._listen: self._teller < 0 never": "the next call fails in its stead",
    "holds._listen: self._teller < 0 always": f"{REFUSED}nobody tells anything",
    "holds._listen: number >= 0 never": f"{REFUSED}nothing can be held",
    "holds._listen: ctypes.get_errno() in CHANGED never": f"{REFUSED}what is gone cannot be held",
    "holds._hear: path is not None always": "nobody asks for what has no path",
}
EQUIVALENT_SESSION_GUARD = {
    "session_guard.__init__: target.kind is PathKind.MISSING and target.path not in watched always": (
        f"{REFUSED}what is there counts as made"
    ),
    "session_guard.__init__: copies is not None never": f"{REFUSED}there is nothing to mount",
    "session_guard._look: self._on_duty == 0 always": f"{REFUSED}what a command plants counts as the host's",
    "session_guard._look: self._is_retired always": f"{REFUSED}every sandbox has a successor",
    "session_guard._look: changed always": f"{REFUSED}every sandbox is stale",
    "session_guard.end: self._on_duty == 0 always": "whoever runs on has an end of his own, as here",
    "session_guard.end: left always": f"{REFUSED}nothing counts as put right",
}


def guard_mutants() -> Iterator[Mutant]:
    guard, session_guard = (f"src/corral/protected_names/{name}.py" for name in ("guard", "session_guard"))
    yield from branch_mutants("guard", guard, "fs.protect", {"": (_LOOKS, _GUARD, _TREES)}, EQUIVALENT)
    trees = "src/corral/protected_names/pattern_trees.py"
    yield from branch_mutants("trees", trees, "patterns", {"": (_TREES,)}, EQUIVALENT_TREES)
    watched, holds = (f"src/corral/protected_names/{name}.py" for name in ("watched", "holds"))
    yield from branch_mutants("watched", watched, "fs.protect", {"": (_LOOKS, _GUARD)}, EQUIVALENT_WATCHED)
    yield from branch_mutants("holds", holds, "fs.protect in sessions", {"": (_HOLDS,)}, EQUIVALENT_HOLDS)
    stamps = "src/corral/untrusted_files/stamps.py"
    yield from branch_mutants("stamps", stamps, "fs.protect in sessions", {"": (_STAMPS,)}, {})
    yield from branch_mutants(
        "session_guard", session_guard, "fs.protect in sessions", _SESSION_GUARD, EQUIVALENT_SESSION_GUARD
    )
