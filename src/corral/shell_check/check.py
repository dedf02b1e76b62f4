"""check: what there is to say about the text of a command, before it runs."""

from __future__ import annotations

import shlex

from corral.shell_check.call import UNKNOWN
from corral.shell_check.grammar import MOST_BYTES
from corral.shell_check.load_rules import builtin_rules, load_rules
from corral.shell_check.verdict import (
    UNKNOWN_RULE,
    CheckFinding,
    CheckResult,
    CheckVerdict,
    make_result,
    shorten,
)
from corral.shell_check.walk import Doubt, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from corral.shell_check.call import ShellCall
    from corral.shell_check.load_rules import RuleSet


def check(command: str | Sequence[str], *, rules: Iterable[str | os.PathLike[str]] = ()) -> CheckResult:
    """Judge a command by rules: a text for a shell, or its words.

    `rules` are files of your own; where one of their rules is about a command, corral's have no say in it.
    The answer is advice from the text alone. Raises PolicyError if a file is wrong, or the extra is missing.
    """
    text = command if isinstance(command, str) else shlex.join(map(str, command))
    return check_text(text, [load_rules(str(path)) for path in rules])


def check_text(text: str, own: Sequence[RuleSet] = ()) -> CheckResult:
    """The same, with rules that are loaded."""
    builtin = builtin_rules()
    walk, findings = _walk(text)
    cut = _cutter(text)
    for call in walk.calls:
        told = [found for rules in own for found in _findings(call, rules, cut)]
        if not told:
            told = list(_findings(call, builtin, cut))
            if UNKNOWN in call.name:
                why = "which program runs is not known from the text"
                told.append(_unknown(why, call.words[0].start, call.words[0].end, cut))
        findings += told
    findings += (_unknown(*doubt, cut) for doubt in walk.doubts)
    unknown = [
        cut(word.start, word.end)[:2]
        for call in walk.calls
        for word in (*call.arguments, *call.reads, *call.writes)
        if not word.is_known
    ]
    return make_result([each for each in findings if each.verdict is not CheckVerdict.ALLOW], unknown)


def _walk(text: str) -> tuple[Walk, list[CheckFinding]]:
    walk = Walk()
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES or "\0" in text:
        why = f"it has more than {MOST_BYTES} bytes, or a NUL"
        return walk, [_unknown(why, 0, 0, lambda *_: (0, 0, ""))]
    try:
        walk.read(text.encode("utf-8", "replace").decode())
    except Doubt as problem:
        return walk, [_unknown(str(problem), 0, 0, _cutter(text))]
    except RecursionError:
        return walk, [_unknown("it is nested too deeply", 0, 0, _cutter(text))]
    return walk, []


def rules_that_apply(text: str, rules: RuleSet) -> set[str]:
    """The names of the rules that have something to say about a text."""
    walk, _ = _walk(text)
    return {
        rule.name for call in walk.calls for rule in rules.about(call.name) if rule.applies(call) is not None
    }


def _findings(
    call: ShellCall, rules: RuleSet, cut: Callable[[int, int], tuple[int, int, str]]
) -> list[CheckFinding]:
    found = []
    for rule in rules.about(call.name):
        verdict = rule.applies(call)
        if verdict is not None:
            sentence = rule.sentence
            if verdict is not rule.verdict:
                sentence = f"{sentence}, perhaps: a word of it is not known"
            found.append(CheckFinding(verdict, rule.name, rule.kind, sentence, *cut(call.start, call.end)))
    if any(
        each.verdict is CheckVerdict.ALLOW for each in found
    ):  # an exception from what would be asked about
        return [each for each in found if each.verdict is not CheckVerdict.ASK]
    return found


def _unknown(why: str, start: int, end: int, cut: Callable[[int, int], tuple[int, int, str]]) -> CheckFinding:
    return CheckFinding(CheckVerdict.ASK, UNKNOWN_RULE, UNKNOWN_RULE, why, *cut(start, end))


def _cutter(text: str) -> Callable[[int, int], tuple[int, int, str]]:
    """From a place in bytes to one in characters, and what stands there."""
    if text.isascii():
        return lambda start, end: (start, end, shorten(text[start:end]))
    data = text.encode("utf-8", "replace")

    def cut(start: int, end: int) -> tuple[int, int, str]:
        first = len(data[:start].decode("utf-8", "ignore"))
        part = data[start:end].decode("utf-8", "ignore")
        return first, first + len(part), shorten(part)

    return cut
