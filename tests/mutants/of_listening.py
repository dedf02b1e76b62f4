"""Mutants of the listener: which refused calls are told, what is answered to them, and what is heard."""

from __future__ import annotations

from mutant import Answer, Edit, Mutant

_L, _N = "tests/launcher/test_listen.py::test_", "tests/launcher/test_notify.py::test_"
_LISTEN, _HEAR = "launcher/listen.c", "launcher/hear.c"
_REFUSED = "syscalls: what is refused is refused, though a listener answers"
_TOLD = "refused calls are told"
_HEARD = "what is written to a terminal is heard, for guesses"
_CLAIMS = f"{_L}a_refused_call_is_told_with_what_it_claims[plain-root]"
_FLOOD = f"{_L}a_flood_of_refused_calls_is_one_line_and_a_count"
_INSIDE = f"{_L}inside_another_listener_it_refuses_in_silence"
_ARRIVES = f"{_L}what_is_written_to_standard_error_is_heard_and_arrives[plain-root]"


def _one(name: str, breaks: str, edit: Edit, *tests: str, why: str = "") -> Mutant:
    return Mutant(f"listen.{name}", breaks, (edit,), tests, Answer.SURVIVES if why else Answer.CAUGHT, why)


MUTANTS = (
    _one(
        "refused-calls-go-on",
        _REFUSED,
        Edit(
            _LISTEN,
            ".error = -(int32_t)error, .flags = error ? 0 : K_NOTIF_CONTINUE}",
            ".error = 0, .flags = K_NOTIF_CONTINUE}",
        ),
        "tests/end_to_end/test_responses.py::test_the_mild_ones_let_a_command_go_on_and_permit_nothing[deny]",
    ),
    _one(
        "any-error",
        _REFUSED,
        Edit(_LISTEN, ".error = -(int32_t)error, .flags", ".error = error ? -EIO : 0, .flags"),
        _CLAIMS,
    ),
    _one(
        "silent-filter-permits",
        _REFUSED,
        Edit(_LISTEN, "error ? K_SECCOMP_RET_ERRNO | error : K_SECCOMP_RET_ALLOW", "K_SECCOMP_RET_ALLOW"),
        _INSIDE,
    ),
    _one(
        "silent-filter-asks-nobody",
        _REFUSED,
        Edit(_LISTEN, "    make_silent(program.filter, program.len);\n", "    (void)make_silent;\n"),
        _INSIDE,
    ),
    _one(
        "nobody-to-ask-permits",
        "net.domains by landlock: a corral that is gone permits nothing",
        Edit(
            _LISTEN,
            "{.id = listener.asked.id, .error = -ENOSYS}",
            "{.id = listener.asked.id, .flags = K_NOTIF_CONTINUE}",
        ),
        f"{_N}a_corral_that_does_not_ask_any_more_permits_nothing",
    ),
    _one(
        "questions-are-answered-here",
        "net.domains by landlock",
        Edit(_LISTEN, "error == ASKED && launch->asks_fd", "error == NUMBERS && launch->asks_fd"),
        f"{_N}questions_come_with_their_listener_and_a_command_holds_neither[plain-root]",
    ),
    _one(
        "each-is-told",
        _TOLD,
        Edit(
            _LISTEN,
            "number >= NUMBERS || (listener.counted[number] != UINT32_MAX && listener.counted[number]++)",
            "number >= NUMBERS || (listener.counted[number]++, false)",
        ),
        _FLOOD,
    ),
    _one(
        "none-is-counted",
        _TOLD,
        Edit(_LISTEN, "if (listener.counted[number] < 2) continue;", "continue;"),
        _FLOOD,
    ),
    _one(
        "none-is-told",
        _TOLD,
        Edit(_LISTEN, "if (error) tell_refused(launch, call, error);\n    else if", "if"),
        _CLAIMS,
    ),
    _one(
        "without-strings",
        _TOLD,
        Edit(
            _LISTEN,
            "size_t size = hear_memory(launch, call, arguments[i], claim, sizeof claim);",
            "size_t size = 0;",
        ),
        _CLAIMS,
    ),
    _one(
        "an-earlier-commands-counts",
        "each command of a session is told of its own refused calls",
        Edit(_LISTEN, "if (listener.refused) memset(", "if (listener.refused == UINT64_MAX) memset("),
        "tests/sessions/test_later_commands.py",
    ),
    _one(
        "no-pauses",
        "refusal:throttle",
        Edit(_LISTEN, "    if (error) throttle(launch);\n", "    (void)throttle;\n"),
        "tests/end_to_end/test_responses.py::test_who_goes_on_trying_waits_longer_for_each_answer",
    ),
    _one(
        "every-standard-error",
        _HEARD,
        Edit(_HEAR, "if (!is_its_errors(call)) return;", "(void)is_its_errors;"),
        _ARRIVES,
    ),
    _one(
        "nothing-is-heard",
        _HEARD,
        Edit(_HEAR, "void hear_finish(void) { say_heard(HEARD); }", "void hear_finish(void) {}"),
        _ARRIVES,
    ),
    _one(
        "the-beginning-is-kept",
        _HEARD,
        Edit(_HEAR, "        memmove(heard.bytes, heard.bytes + gone, HEARD);\n", "        (void)gone;\n"),
        f"{_L}of_very_much_the_end_is_kept",
    ),
    _one(
        "the-first-part-alone",
        _HEARD,
        Edit(_HEAR, "arguments[2] < VECTORS ? (size_t)arguments[2] : VECTORS", "1"),
        f"{_L}parts_that_are_written_together_are_heard_together",
    ),
)
