"""Mutants of ids of a command's own, and of what a compiled plan tells of its costs."""

from __future__ import annotations

from mutant import Answer, Edit, Mutant

_C = "tests/conformance/test_proc_identity.py::test_"
_L = "tests/launcher/test_identity.py::test_"
_U = "tests/unit/backends/test_own_ids.py::test_"
_COST = "tests/compiled/test_compiling.py::test_a_plan_tells_what_a_command_has_cost"
_TO_WHOM = (
    "tests/compiled/test_compiling.py::test_the_cost_is_told_of_what_began_and_nobody_waits_for_a_reader"
)
_IDENTITY, _ACCOUNT, _GROUP, _NATIVE = (
    "launcher/identity.c",
    "launcher/account.c",
    "launcher/group.c",
    "src/corral/backends/native.py",
)
_NOBODYS = "proc.identity: its ids are nobody's"
_USABLE = "what a command with ids of its own is granted, it can use"
_COSTS = "what a command has cost is told"


def _one(name: str, breaks: str, edit: Edit, *tests: str, why: str = "") -> Mutant:
    return Mutant(name, breaks, (edit,), tests, Answer.SURVIVES if why else Answer.CAUGHT, why)


MUTANTS = (
    _one(
        "identity.of-the-host",
        _NOBODYS,
        Edit(_IDENTITY, '"0 %u %u\\n", spec->identity_first,', '"0 %u %u\\n", 0u * spec->identity_first,'),
        f"{_C}the_hosts_kernel_knows_it_by_another_user_id[native]",
        f"{_L}ids_are_mapped_and_what_is_made_is_the_commands",
    ),
    _one(
        "identity.of-somebody",
        _NOBODYS,
        Edit(_NATIVE, "if is_range and int(first) < sum(_IDS)", "if is_range and int(first) < 0"),
        f"{_U}ids_that_somebody_hands_out_are_not_taken",
    ),
    _one(
        "identity.kept",
        _NOBODYS,
        Edit(
            _NATIVE,
            "if plan.command.keeps or plan.command.trial is not None:",
            "if plan.command.trial is not None:",
        ),
        f"{_U}where_a_command_could_not_work_with_them_it_is_refused",
    ),
    _one(
        "identity.on-trial",
        _NOBODYS,
        Edit(_NATIVE, "if plan.command.keeps or plan.command.trial is not None:", "if plan.command.keeps:"),
        f"{_U}where_a_command_could_not_work_with_them_it_is_refused",
    ),
    _one(
        "identity.unmappable-planned",
        _USABLE,
        Edit(
            _NATIVE,
            "    elif plan.resolved.unmappable:\n",
            "    elif plan.resolved.unmappable and plan.command.keeps:\n",
        ),
        f"{_U}where_a_command_could_not_work_with_them_it_is_refused",
    ),
    _one(
        "identity.unmapped",
        _USABLE,
        Edit(_IDENTITY, ".attr_set = K_MOUNT_ATTR_IDMAP, ", ""),
        f"{_L}ids_are_mapped_and_what_is_made_is_the_commands",
    ),
    _one(
        "identity.unmappable-to-write",
        _USABLE,
        Edit(
            _IDENTITY,
            "if (err == -EINVAL && m->flags & MOUNT_READ_ONLY) return 0;",
            "if (err == -EINVAL) return 0;",
        ),
        f"{_L}what_cannot_be_mapped_is_read_but_not_written",
    ),
    _one(
        "identity.unmappable-to-read",
        _USABLE,
        Edit(_IDENTITY, "    if (err == -EINVAL && m->flags & MOUNT_READ_ONLY) return 0;\n", ""),
        f"{_L}what_cannot_be_mapped_is_read_but_not_written",
    ),
    _one(
        "identity.nothing-is-given",
        _USABLE,
        Edit(_IDENTITY, "if (!has_identity(view->launch)) return 0;", "return 0;"),
        f"{_L}ids_are_mapped_and_what_is_made_is_the_commands",
    ),
    _one(
        "identity.streams-of-root",
        _USABLE,
        Edit(_IDENTITY, "if (is_own && fchown(", "if (is_own && getpid() == 0 && fchown("),
        f"{_L}ids_are_mapped_and_what_is_made_is_the_commands",
    ),
    _one(
        "usage.of-what-never-began",
        _COSTS,
        Edit(_ACCOUNT, "    if (!account->has_started) return;\n", ""),
        _TO_WHOM,
    ),
    _one(
        "usage.without-the-group",
        _COSTS,
        Edit(_ACCOUNT, "account->has_counted ? account->counted : UNCOUNTED", "UNCOUNTED"),
        f"{_COST}[root-by-groups]",
    ),
    _one(
        "usage.without-the-waited-for",
        _COSTS,
        Edit(
            _ACCOUNT,
            "account->has_usage = take_numbers(line, account->usage, 6)",
            "account->has_usage = false",
        ),
        f"{_COST}[root-by-waiting]",
    ),
    _one(
        "usage.waits-for-a-reader",
        "nobody waits for who does not read what a command has cost",
        Edit(_ACCOUNT, "poll(&place, 1, 0) <= 0 ||", "place.fd < 0 ||"),
        _TO_WHOM,
    ),
    _one(
        "usage.first-group-alone",
        _COSTS,
        Edit(_GROUP, "    if (*known < 0) *known = found;\n", "    *known = found;\n"),
        f"{_COST}[root-by-groups]",
    ),
)
