"""Mutants of the system-call filter: each of its entries, left out.

Entries are counted as the module makes them, so that one more of them is one more mutant.
"""

from __future__ import annotations

import types

from mutant import ROOT, Edit, Mutant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.linux.rule import Rule

FILE = "src/corral/linux/filter.py"
_MAKE = "    return tuple(Rule(name, action, reason, conditions) for name in names.split())\n"
_DEFINE = "def _deny(names: str,"
_T = "tests/unit/linux/test_filter.py::test_"
_LIMITS = "tests/unit/linux/test_filter_of_limits.py::test_"
_SOCKETS = (
    *(f"{_T}{name}" for name in ("open_networks_have_ordinary_sockets_only", "pairs_are_of_unix_sockets")),
    f"{_T}no_network_means_no_socket_but_connected_pairs",
    f"{_T}where_a_proxy_is_granted_there_is_no_way_but_tcp",
    f"{_T}where_a_proxy_is_granted_nobody_listens_and_no_packet_takes_another_way",
)
_SINGLE = (f"{_T}a_single_process_has_threads_and_nothing_else",)
_WOKEN = (
    f"{_LIMITS}nobody_is_woken_by_a_signal",
    f"{_LIMITS}nobody_is_woken_by_the_end_of_a_child",
    f"{_LIMITS}nobody_is_woken_by_the_end_of_a_parent",
    f"{_LIMITS}nobody_is_woken_by_input_a_timer_or_a_message",
)
_SCHEDULED = (f"{_T}where_processes_are_shared_only_the_own_one_is_scheduled",)
#: Tests by what an entry says as its reason; for those that are not here, the list of the threat model.
BY_REASON = (
    ("wakes", _WOKEN),
    ("out of sight", (f"{_LIMITS}memory_that_nobody_need_map_cannot_be_had",)),
    ("spreads over more processors", (f"{_LIMITS}nobody_spreads_over_more_processors",)),
    ("no further process", _SINGLE),
    ("how other processes", _SCHEDULED),
    ("groups and users reach beyond", _SCHEDULED),
    ("of the host; shmdt", (f"{_T}shared_namespaces_are_closed_by_the_filter_when_asked",)),
    ("queues of the host", (f"{_T}shared_namespaces_are_closed_by_the_filter_when_asked",)),
    ("semaphores of the host", (f"{_T}shared_namespaces_are_closed_by_the_filter_when_asked",)),
    ("attributes of files", (f"{_T}attributes_of_files_are_not_read_where_only_landlock_guards_them",)),
    ("loads kernel TLS", (f"{_T}protocols_stacked_on_tcp_are_refused",)),
    ("terminal", (f"{_T}terminals_cannot_be_typed_into_by_any_spelling",)),
    ("console", (f"{_T}terminals_cannot_be_typed_into_by_any_spelling",)),
    ("line disciplines", (f"{_T}terminals_cannot_be_typed_into_by_any_spelling",)),
    ("starves the host", (f"{_T}real_time_scheduling_is_refused_with_and_without_reset_on_fork",)),
    ("address randomisation", (f"{_T}personality_keeps_to_the_harmless_ones",)),
    ("makes memory executable", (f"{_T}a_debugger_gets_what_it_needs_and_nothing_else",)),
    (
        "limits of another process",
        ("tests/unit/linux/test_filter_on_this_kernel.py::test_arguments_are_judged_by_their_low_half",),
    ),
    ("gives its user the caller", (f"{_T}no_file_gets_its_owners_rights",)),
    ("opens the file outside", (f"{_T}no_lease_holds_up_who_opens_a_file_outside",)),
    ("a new namespace gives", (f"{_T}clone_makes_threads_and_processes_but_no_namespaces",)),
)
_LISTED = f"{_T}what_the_threat_model_lists_is_refused_with_its_error"
_SOCKET_CALLS = frozenset({"socket", "socketpair", "sendto", "sendmsg", "sendmmsg", "listen"})


def entries() -> list[Rule]:
    """Every entry, in the order in which they are made."""
    text = (ROOT / FILE).read_text()
    text = Edit(
        FILE, _MAKE, "    MADE.extend(Rule(n, action, reason, conditions) for n in names.split())\n" + _MAKE
    ).apply(text)
    module = types.ModuleType("filter_with_a_list")
    module.MADE = []  # type: ignore[attr-defined]
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module.MADE  # type: ignore[attr-defined, no-any-return]


def filter_mutants() -> Iterator[Mutant]:
    named: dict[str, int] = {}
    for place, rule in enumerate(entries()):
        named[rule.syscall] = named.get(rule.syscall, 0) + 1
        name = f"filter.{rule.syscall}" + (f".{named[rule.syscall]}" if named[rule.syscall] > 1 else "")
        yield Mutant(name, f"{rule.syscall}: {rule.reason}", _without(place), _tests_for(rule))


def _without(place: int) -> tuple[Edit, ...]:
    dropped = _MAKE.replace(".split())", f".split() if next(_PLACES) != {place})")
    return Edit(FILE, _MAKE, dropped), Edit(FILE, _DEFINE, f"_PLACES = iter(range(1 << 62))\n\n\n{_DEFINE}")


def _tests_for(rule: Rule) -> tuple[str, ...]:
    for reason, tests in BY_REASON:
        if reason in rule.reason and (rule.conditions or rule.syscall not in {"unshare", "setns"}):
            return tests
    if rule.syscall in _SOCKET_CALLS or rule.syscall == "setsockopt":
        return _SOCKETS
    return (_LISTED,)
