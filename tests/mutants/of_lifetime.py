"""Mutants of what ends a command: the lifeline, the signal at the supervisor's death, reaping, the search."""

from __future__ import annotations

from mutant import Answer, Edit, Mutant

_L = "tests/launcher/test_lifetime.py::test_"
_R = "tests/launcher/test_reaping.py::test_"
_SUPERVISE, _TREE, _START, _INIT = (f"launcher/{name}.c" for name in ("supervise", "tree", "start", "init"))
_ALL_DIE = "nothing outlives corral"
_BOUND = "count < REAPED && (pid = wait4"
_ON_SIGNALS = (
    "        if (signal == SIGCHLD) return has_namespaces(w->launch) ? reap_init(w) : reap_command(w);\n"
)
_OBEY = "    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return EXIT_SETUP_FAILED;\n"
_CUT = "    kill_all(w);\n"


def _one(name: str, breaks: str, file: str, before: str, after: str, *tests: str) -> Mutant:
    return Mutant(f"lifetime.{name}", breaks, (Edit(file, before, after),), tests)


def _unseen(name: str, breaks: str, edit: Edit, why: str, *tests: str) -> Mutant:
    return Mutant(f"lifetime.{name}", breaks, (edit,), tests, Answer.SURVIVES, why)


MUTANTS = (
    _one(
        "lifeline-not-watched",
        _ALL_DIE,
        _SUPERVISE,
        "{.fd = w->killed ? -1 : LIFELINE_FD, .events = POLLIN},",
        "{.fd = -1, .events = POLLIN},",
        f"{_L}a_cut_lifeline_ends_all[plain-namespaces-root]",
    ),
    _one(
        "lifeline-heard-and-nobody-killed",
        _ALL_DIE,
        _SUPERVISE,
        "    kill_all(w);\n    if (w->has_left) end_tree(w);\n",
        "    if (w->has_left) end_tree(w);\n    w->killed = true;\n",
        f"{_L}a_cut_lifeline_ends_all[plain-bare-root]",
    ),
    _unseen(
        "lifeline-what-was-left-goes-on",
        _ALL_DIE,
        Edit(_SUPERVISE, f"{_CUT}    if (w->has_left) end_tree(w);\n", _CUT),
        "they are killed all the same, and the tree is ended when they are reaped",
        "tests/launcher/test_kept_lifetime.py::test_what_was_left_ends_with_the_lifeline",
    ),
    _one(
        "no-death-signal",
        "nothing outlives the supervisor",
        _START,
        _OBEY,
        "",
        f"{_L}killing_the_supervisor_ends_at_least_the_command_itself",
        f"{_L}killing_the_supervisor_ends_all[plain-root]",
    ),
    _one(
        "no-death-signal-of-jobs",
        "nothing outlives the server of a kept sandbox",
        _START,
        "    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return -errno;\n",
        "",
        "tests/launcher/test_kept_lifetime.py::test_no_job_outlives_its_server",
    ),
    _unseen(
        "no-look-for-a-dead-parent",
        "nothing outlives a server that was gone before",
        Edit(_START, "    return getppid() == parent ? 0 : -ESRCH;", "    return parent ? 0 : -ESRCH;"),
        "the server would have to end between two system calls of a job that was just made",
        "tests/launcher/test_kept_lifetime.py::test_no_job_outlives_its_server",
    ),
    _unseen(
        "no-bound-on-reaping-by-the-server",
        "the server hears requests",
        Edit("launcher/serve.c", "count < REAPED && waitpid", "waitpid"),
        "only jobs are its children, and of these there are no more than commands at the same time",
        "tests/launcher/test_kept_lifetime.py::test_no_job_outlives_its_server",
    ),
    _one(
        "no-subreaper",
        "proc.contained without a PID namespace",
        _START,
        "    if (!has_namespaces(launch) && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) return -errno;\n",
        "",
        f"{_L}a_daemon_dies_with_the_command[plain-bare-root]",
    ),
    _one(
        "no-search-of-the-tree",
        "proc.contained without a PID namespace",
        _TREE,
        "    if (!is_first_process()) return visit_all(send_signal, &signal);\n",
        "    if (signal) return 0;\n",
        f"{_L}a_daemon_dies_with_the_command[plain-bare-root]",
    ),
    _unseen(
        "no-stop-before-the-kill",
        "proc.contained: forkers",
        Edit(_TREE, "    stop_all();\n", ""),
        "as a rule the rounds of killing meet a forker as well; to stop it first makes it certain",
        f"{_L}forkers_are_caught[bare-root]",
    ),
    _one(
        "init-ends-without-the-rest",
        "the account of who was left",
        _INIT,
        "    end_the_rest();\n",
        "",
        "tests/limits/test_usage_accounts.py::test_processor_time_of_those_that_nobody_waited_for",
    ),
    _one(
        "no-clock",
        "limit.wall",
        _SUPERVISE,
        "    if (now < w->term_at) return;\n",
        "    return;\n",
        "tests/launcher/test_command.py::test_the_wall_limit_ends_who_does_not_listen[plain-namespaces-root-0]",
    ),
    _one(
        "no-kill-after-the-grace",
        "limit.wall",
        _SUPERVISE,
        "    if (now >= w->kill_at) kill_all(w);\n",
        "",
        "tests/launcher/test_command.py::test_the_wall_limit_ends_who_does_not_listen[plain-bare-root-200]",
    ),
    _one(
        "no-bound-on-reaping",
        "the lifeline and the clock are served",
        _TREE,
        _BOUND,
        "(pid = wait4",
        f"{_R}no_turn_is_for_the_dead_alone[bare]",
        f"{_R}no_turn_is_for_the_dead_alone[confined]",
    ),
    _one(
        "no-bound-on-reaping-by-init",
        "limits are looked at by init",
        _TREE,
        _BOUND,
        "(pid = wait4",
        f"{_R}no_turn_is_for_the_dead_alone[confined]",
    ),
    _one(
        "no-bound-on-signals",
        "the lifeline is served",
        _SUPERVISE,
        _ON_SIGNALS,
        "        if (signal == SIGCHLD) has_namespaces(w->launch) ? reap_init(w) : reap_command(w);\n"
        "        if (signal == SIGCHLD) { i = -1; continue; }\n",
        f"{_R}a_lifeline_that_is_cut_meanwhile_is_noticed_before_all_are_reaped[bare]",
    ),
    _one(
        "supervisor-keeps-its-privileges",
        "no command runs beside a privileged supervisor",
        _START,
        "    return err ? err : phase_caps(launch);\n",
        "    return err;\n",
        "tests/launcher/test_surroundings.py::test_the_supervisor_keeps_no_privilege",
    ),
    _one(
        "init-does-not-ask-again",
        "no command before the supervisor has shed its privileges",
        _INIT,
        "    if (!is_told_to_go(launch)) return EXIT_SETUP_FAILED;\n",
        "",
        "tests/launcher/test_faults.py::test_no_command_is_there_before_the_supervisor_has_shed_its_privileges[root]",
    ),
)
