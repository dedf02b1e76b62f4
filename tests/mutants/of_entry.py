"""Mutants of the entry program: whom it believes, what it compares, and when it leaves the rest to Python."""

from __future__ import annotations

import re

from mutant import ROOT, Answer, Edit, Mutant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_T, _W = "tests/entry/test_trust.py::test_", "tests/entry/test_walls.py::test_"
_B = "tests/entry/test_both_ways.py::test_"
_X = "tests/entry/test_exec_both_ways.py::test_"
_STALE = "tests/compiled/test_stale_plans.py::test_"
_STORED, _REQUEST, _RUN, _STREAMS, _JUDGE, _MARK, _SESSION, _PLACE = (
    f"entry/{name}.c"
    for name in ("stored", "request", "run", "streams", "judge", "mark", "session", "session_place")
)
_DEPEND, _PYTHON = "launcher/depend.c", "src/corral/cli/stored.py"
_TRUST = "a stored plan is believed for the place where it lies"
_SAME = "a stored plan is used for the same request alone"
_AS_IT_WAS = "a plan is used while everything that it was made from is as it was"
_TOLD = "what there is to tell is told"
_ASKED = "nobody but the caller's own session is asked"


def _one(name: str, breaks: str, edits: Edit | tuple[Edit, ...], *tests: str, why: str = "") -> Mutant:
    every = edits if isinstance(edits, tuple) else (edits,)
    answer = Answer.SURVIVES if why else Answer.CAUGHT
    return Mutant(f"entry.{name}", breaks, every, tests, answer, why)


def _told(request: str) -> str:
    return f"{_B}both_ways_tell_the_same[-c {request}]"


_TRUSTED = (
    _one(
        "home-by-variable",
        _TRUST,
        Edit(
            _STORED,
            "    return open_trusted(path);\n",
            '    strcat(strcpy(path, getenv("HOME")), "/.local/state/corral/stored");\n'
            "    return open_trusted(path);\n",
        ),
        f"{_T}a_plan_in_a_home_by_variable_is_not_used",
    ),
    _one(
        "anybodys",
        _TRUST,
        Edit(
            _STORED, "(status.st_uid != geteuid() && status.st_uid != 0)) return false;", "0) return false;"
        ),
        f"{_T}what_is_another_users_is_not_believed[directory]",
    ),
    _one(
        "anybodys-file",
        _TRUST,
        (
            Edit(
                _STORED,
                "(status.st_uid != geteuid() && status.st_uid != 0)) return false;",
                "0) return false;",
            ),
            Edit(_STORED, " && status.st_uid == geteuid();", ";"),
        ),
        f"{_T}what_is_another_users_is_not_believed[file]",
    ),
    _one(
        "roots-file",
        _TRUST,
        Edit(_STORED, " && status.st_uid == geteuid();", ";"),
        f"{_T}what_is_another_users_is_not_believed[file]",
        why="what is neither the caller's nor root's is not believed anyway, and root needs no plan",
    ),
    *(
        _one(
            f"{who}-may-write",
            _TRUST,
            Edit(_STORED, "!(status.st_mode & (S_IWGRP | S_IWOTH));", f"!(status.st_mode & {other});"),
            f"{_T}who_else_may_write_there_is_not_believed[{who}]",
        )
        for who, other in (("group", "S_IWOTH"), ("others", "S_IWGRP"))
    ),
    _one(
        "any-sticky-directory",
        _TRUST,
        Edit(
            _STORED,
            "is_directory && status.st_uid == 0 && status.st_mode & S_ISVTX",
            "status.st_mode & S_ISVTX",
        ),
        f"{_T}who_else_may_write_there_is_not_believed[others]",
        why="nobody replaces what is the caller's there, and what is planted is not the caller's",
    ),
    _one(
        "linked-directory",
        _TRUST,
        Edit(_STORED, "O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC", "O_PATH | O_DIRECTORY | O_CLOEXEC"),
        f"{_T}no_link_is_followed[directory]",
    ),
    _one(
        "linked-file",
        _TRUST,
        Edit(_STORED, "O_RDONLY | O_NOFOLLOW | O_NONBLOCK", "O_RDONLY | O_NONBLOCK"),
        f"{_T}no_link_is_followed[file]",
    ),
    _one(
        "second-name",
        _TRUST,
        Edit(_STORED, " && status.st_nlink == 1", ""),
        f"{_T}a_file_with_a_second_name_is_not_believed",
    ),
    _one(
        "another-name",
        _SAME,
        Edit(_STORED, "if (memcmp(header + HEADER_SIZE - KEY_SIZE, key, KEY_SIZE) != 0) return false;", ""),
        f"{_T}a_copy_under_another_name_is_not_used",
    ),
    _one(
        "cut-short",
        _TRUST,
        Edit(_STORED, "        if (more <= 0) return false;\n", "        if (more <= 0) return true;\n"),
        f"{_T}damage_is_not_used",
        why="a plan that lacks something is not decoded: every record has its length, and so has the whole",
    ),
)

#: On both sides: a key that Python makes otherwise is never found.
_KEYS = (
    _one(
        "key-without-directory",
        _SAME,
        (
            Edit(_REQUEST, "    add_word(&bytes, 'd', cwd);\n", ""),
            Edit(_PYTHON, '(b"d", os.fsencode(os.getcwd())), ', ""),
        ),
        f"{_T}another_directory_is_another_request",
    ),
    _one(
        "key-without-options",
        _SAME,
        (
            Edit(
                _REQUEST, "            add_word(&bytes, 'o', request->argv[i]);\n", "            continue;\n"
            ),
            Edit(_PYTHON, "for word in _options(arguments))", "for word in ())"),
        ),
        f"{_T}other_options_are_another_request",
    ),
    _one(
        "key-without-variables",
        _SAME,
        (
            Edit(
                _REQUEST, "        if (!is_left_out(sorted[i])) add_word", "        if (i > count) add_word"
            ),
            Edit(_PYTHON, "if not _is_left_out(entry))", "if not entry)"),
        ),
        f"{_T}other_variables_are_another_request",
    ),
    _one(
        "key-without-groups",
        _SAME,
        (
            Edit(_REQUEST, "    if (count < 0) return false;\n", "    count = 0;\n"),
            Edit(_PYTHON, "for group in os.getgroups())", "for group in ())"),
        ),
        f"{_T}other_groups_are_another_request",
    ),
    _one(
        "set-user-id",
        _SAME,
        Edit(
            _REQUEST,
            "getuid() != geteuid() || getgid() != getegid() || getauxval(AT_SECURE) || !getcwd",
            "!getcwd",
        ),
        f"{_T}other_groups_are_another_request",
        why="launcher/depend.c asks whether real and effective ids are the same as well",
    ),
)

#: By kind of what a plan depends on: tests that look at one of that kind.
_DEPENDS = {
    "OBJECT": f"{_STALE}a_workspace_that_is_another_directory[root]",
    "FAILS": f"{_STALE}a_denied_path_that_comes_into_being[root]",
    "LINK": f"{_STALE}a_link_that_leads_elsewhere[root]",
    "STAMP": f"{_STALE}a_policy_file_that_changes[root]",
    "SILENT": f"{_STALE}files_that_count_for_nothing_may_change[root]",
    "MOUNTS": f"{_T}what_is_denied_and_mounted_once_more_is_refused",
    "TEXT": f"{_STALE}a_caller_in_another_control_group[root]",
}
_MACHINE = f"{_STALE}another_machine[root-"
_HOST = {
    "user": ("(uid != geteuid() || gid != getegid())", f"{_MACHINE}gid-it is for user]"),
    "build": ("(strcmp(build, CORRAL_BUILD) != 0)", f"{_MACHINE}build-another build of corral-launch]"),
    "boot": ("(!is_this_boot(boot))", f"{_MACHINE}boot-the machine has been started again]"),
    "kernel": (
        "(uname(&name) < 0 || strcmp(kernel, name.release) != 0)",
        f"{_MACHINE}kernel-the kernel was other]",
    ),
}


def _compared() -> Iterator[Mutant]:
    """Raises ValueError where a kind of dependence has no mutant."""
    text = (ROOT / _DEPEND).read_text()
    kinds = dict(re.findall(r"\[PLAN_(\w+)\] = \{(\w+),", text))
    if kinds.keys() != _DEPENDS.keys():
        raise ValueError(
            f"{_DEPEND}: without a mutant, or not there: {sorted(kinds.keys() ^ _DEPENDS.keys())}"
        )
    for kind, function in kinds.items():
        edit = Edit(_DEPEND, f"[PLAN_{kind}] = {{{function},", f"[PLAN_{kind}] = {{NULL,")
        yield _one(f"plan-without-{kind.lower()}", _AS_IT_WAS, edit, _DEPENDS[kind])
    for name, (before, test) in _HOST.items():
        yield _one(f"plan-of-another-{name}", _AS_IT_WAS, Edit(_DEPEND, f"if {before}", "if (0)"), test)


_RUNS = (
    _one(
        "plan-not-compared",
        _AS_IT_WAS,
        Edit(_RUN, "!plan_check(&stored->plan, &ignored) && ", ""),
        f"{_T}what_has_changed_makes_it_pythons",
    ),
    Mutant(
        "entry.does-not-wait",
        _AS_IT_WAS,
        (
            Edit(
                _RUN, "    launch->spec.count[RECORD_AWAIT] = 1;", "    launch->spec.count[RECORD_AWAIT] = 0;"
            ),
        ),
        (f"{_T}what_has_changed_makes_it_pythons",),
        Answer.REFUSED,
        "the word that lets it begin ends a launch which has not waited for it",
    ),
    _one(
        "variables-in-memory",
        "a sandbox has no variables of the caller's",
        Edit(
            _RUN, "    for (char **entry = environ; *entry; entry++) memset(*entry, 0, strlen(*entry));\n", ""
        ),
        f"{_W}no_process_of_the_sandbox_has_the_callers_variables",
    ),
    _one(
        "digested-in-memory",
        "a sandbox has no variables of the caller's",
        Edit(_REQUEST, "    if (bytes.at) explicit_bzero(bytes.at, bytes.room);\n", ""),
        f"{_W}no_process_of_the_sandbox_has_the_callers_variables",
        why="most of it is used again for something else before the fork: how much, is chance",
    ),
    _one(
        "anybodys-words",
        _TOLD,
        Edit(
            _JUDGE,
            "        if (!is_plain(at, (size_t)(line_end - at))) return false;\n",
            "        continue;\n",
        ),
        _told("touch .bashrc; sleep 0.2"),
    ),
    _one(
        "output-without-end",
        "limit.output",
        Edit(_STREAMS, "plan->has_output_limit ? plan->output_limit : UINT64_MAX", "UINT64_MAX"),
        f"{_B}both_ways_tell_the_same[--output-limit 9 -c echo 12345; echo 6789 >&2; sleep 9]",
    ),
    _one(
        "output-cut-off-untold",
        "limit.output",
        Edit(_STREAMS, "most + RELAY_CHUNK <= run->relays.room ||", "most <= UINT64_MAX ||"),
        f"{_B}both_ways_tell_the_same[--output-limit 9 -c echo 12345; echo 6789 >&2; sleep 9]",
    ),
    _one("left-in-areas", _TOLD, Edit(_JUDGE, "areas_are_bare(run) && ", ""), _told("echo x > ~/lost.txt")),
    _one(
        "denials-in-words",
        _TOLD,
        Edit(
            _JUDGE,
            "        if (speaks_of_denial(streams[i].tail, streams[i].tail_size)) return false;\n",
            ";\n",
        ),
        _told("echo x > /usr/x"),
    ),
    _one(
        "packets",
        _TOLD,
        (
            Edit(_JUDGE, "if (is_asked(run) || heard", "if (heard"),
            Edit(_RUN, "is_asked |= fds[4 + i].revents != 0;", "continue;"),
        ),
        _told("getent hosts example.org"),
    ),
    _one(
        "advice",
        _TOLD,
        Edit(_JUDGE, "    if (*exit_code && needs_advice(run->request)) return false;\n", ""),
        _told("docker ps 2>/dev/null || exit 1"),
    ),
    _one(
        "no-look-before",
        "fs.protect",
        Edit(
            _RUN,
            "!plan_check(&stored->plan, &ignored) && trees_are_clean(run, false)",
            "!plan_check(&stored->plan, &ignored)",
        ),
        f"{_T}a_repository_of_the_hosts_makes_it_pythons",
    ),
    _one(
        "no-look-after",
        "fs.protect",
        Edit(_JUDGE, "trees_are_clean(run, true) && copies", "copies"),
        f"{_B}a_planted_repository_goes_to_quarantine",
    ),
    _one(
        "changed-settings",
        "fs.protect",
        Edit(
            _JUDGE, "trees_are_clean(run, true) && copies_are_unchanged(run);", "trees_are_clean(run, true);"
        ),
        f"{_B}a_setting_of_git_is_taken_over_by_python",
    ),
    _one(
        "no-mark",
        "fs.protect",
        Edit(_RUN, " && mark_set(run);", ";"),
        f"{_B}what_a_killed_run_left_is_checked_by_the_next",
    ),
    _one(
        "marks-of-others",
        "fs.protect",
        Edit(
            _MARK, "    bool is_fine = are_all_held(run->stored, directory);\n", "    bool is_fine = true;\n"
        ),
        f"{_B}after_a_killed_run_somebody_looks_though_there_is_nothing",
    ),
)

_SESSIONS = (
    _one(
        "session-of-another",
        _ASKED,
        Edit(_SESSION, " && peer.pid == session->pid)", ")"),
        f"{_X}whoever_else_listens_there_is_not_asked",
    ),
    _one(
        "session-of-another-user",
        _ASKED,
        Edit(_SESSION, "        peer.uid == geteuid() && peer", "        peer"),
        f"{_X}whoever_else_listens_there_is_not_asked",
        why="nobody else makes a socket there, and who listens must be the process of the record as well",
    ),
    *(
        _one(f"session-by-{name}", _ASKED, Edit(_PLACE, before, after), f"{_X}a_variable_leads_nowhere_else")
        for name, before, after in (
            (
                "home",
                "    if (home && home[0] == '/' && strcmp(home, own) != 0) return false;\n",
                "    if (home && home[0] == '/') snprintf(own, 3000, \"%s\", home);\n",
            ),
            (
                "state",
                "    if (state && state[0] == '/' && strcmp(state, own) != 0) return false;\n",
                "    if (state && state[0] == '/') snprintf(own, 3000, \"%s\", state);\n",
            ),
            (
                "runtime",
                "        if (strcmp(runtime, path) != 0) return false;\n",
                '        snprintf(path, 3000, "%s", runtime);\n',
            ),
        )
    ),
    _one(
        "session-anybodys",
        _ASKED,
        Edit(
            _PLACE,
            "(status.st_mode & S_IFMT) == kind && status.st_uid == geteuid() &&",
            "(status.st_mode & S_IFMT) == kind &&",
        ),
        f"{_X}a_place_that_others_may_change_is_not_used",
    ),
    _one(
        "session-open-to-others",
        _ASKED,
        Edit(
            _PLACE,
            "== kind && status.st_uid == geteuid() && !(status.st_mode & 077);",
            "== kind && status.st_uid == geteuid();",
        ),
        f"{_X}a_place_that_others_may_change_is_not_used",
    ),
    _one(
        "session-linked-record",
        _ASKED,
        Edit(_PLACE, "O_RDONLY | O_NOFOLLOW | O_NONBLOCK", "O_RDONLY | O_NONBLOCK"),
        f"{_X}no_link_is_followed",
    ),
    _one(
        "session-of-checked-commands",
        "texts of commands are checked",
        Edit(_PLACE, 'strcmp(value, "off") != 0) return FOUND_ODD;', "0) return FOUND_ODD;"),
        f"{_X}a_session_whose_commands_are_checked_is_pythons",
    ),
    _one(
        "session-any-status",
        _TOLD,
        Edit(_SESSION, "status >= 0 && status <= 255 && strcmp(end, AFTER) == 0", "strcmp(end, AFTER) == 0"),
        f"{_X}an_answer_that_is_not_plain_is_pythons",
    ),
    _one(
        "session-any-lines",
        _TOLD,
        Edit(_SESSION, " && strcmp(end, AFTER) == 0 ?", " ?"),
        f"{_X}an_answer_that_is_not_plain_is_pythons",
    ),
)


def entry_mutants() -> Iterator[Mutant]:
    yield from _TRUSTED
    yield from _KEYS
    yield from _compared()
    yield from _RUNS
    yield from _SESSIONS
