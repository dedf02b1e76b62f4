"""Load rules: a TOML file of them, each held to its own examples, or all the mistakes at once."""

from __future__ import annotations

import os
from functools import cache

from corral import __version__
from corral.host.state import read_state, write_state
from corral.model.errors import PolicyError
from corral.shell_check.grammar import grammar_version
from corral.shell_check.paths import matches
from corral.shell_check.rule import KINDS, CheckRule
from corral.shell_check.verdict import CheckVerdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OWN = os.path.join(os.path.dirname(__file__), "rules")
_MOST_BYTES = 1_000_000
_MOST_RULES = 500
_TEXTS = ("name", "kind", "verdict", "sentence")
_LISTS = ("match", "not_match", "command", "subcommand", "paths", "writes", "variables", "piped_into")
_MORE_LISTS = ("piped_from", "runs_output_of", "code")
_FLAGS = ("pattern_name", "recursive", "unresolved")
#: A rule without any of these would be about every command.
_CONDITIONS = frozenset({*_LISTS[2:], *_MORE_LISTS, "arguments", "pattern_name", "recursive"})


class RuleSet:
    """Rules in their order, found by the name of a program."""

    def __init__(self, rules: tuple[CheckRule, ...]) -> None:
        self.rules = rules
        self._by_name: dict[str, list[CheckRule]] = {}

    def about(self, name: str) -> list[CheckRule]:
        """The rules that may have something to say about a program."""
        found = self._by_name.get(name)
        if found is None:
            found = [r for r in self.rules if not r.command or any(matches(name, c) for c in r.command)]
            if len(self._by_name) < 4096:
                self._by_name[name] = found
        return found


@cache
def builtin_rules() -> RuleSet:
    """Corral's own."""
    names = sorted(name for name in os.listdir(_OWN) if name.endswith(".toml"))
    texts = [_read(os.path.join(_OWN, name)) for name in names]
    rules = [r for name, text in zip(names, texts, strict=True) for r in parse_rules(text, name)]
    found = RuleSet(tuple(rules))
    _check_once(found, "".join(texts))
    return found


def load_rules(path: str) -> RuleSet:
    """The rules of a file. Raises PolicyError, with every mistake and every example that does not hold."""
    rules = RuleSet(tuple(parse_rules(_read(path), path)))
    check_examples(rules, path)
    return rules


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as problem:
        raise _wrong(path, [str(problem)]) from None
    if len(text) > _MOST_BYTES:
        raise _wrong(path, [f"it has more than {_MOST_BYTES} characters"])
    return text


def parse_rules(text: str, file: str) -> list[CheckRule]:
    """The rules of a text; their examples are not looked at. Raises PolicyError."""
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise _wrong(file, [str(problem)]) from None
    problems = [f"there is no key {name!r}; a file has [[rule]] tables" for name in table if name != "rule"]
    said = table.get("rule", [])
    if not isinstance(said, list) or len(said) > _MOST_RULES:
        raise _wrong(file, [*problems, f"`rule` has to be at most {_MOST_RULES} tables, as [[rule]]"])
    rules = []
    for number, entry in enumerate(said, 1):
        label = entry.get("name", f"number {number}") if isinstance(entry, dict) else f"number {number}"
        wrong = _mistakes(entry)
        problems += (f"rule {label}: {each}" for each in wrong)
        if not wrong:
            rules.append(_build(entry))
    names = [rule.name for rule in rules]
    problems += (
        f"rule {name}: there are two of this name" for name in {n for n in names if names.count(n) > 1}
    )
    if problems:
        raise _wrong(file, problems)
    return rules


def _mistakes(entry: Any) -> list[str]:
    if not isinstance(entry, dict):
        return ["it has to be a table"]
    known = {*_TEXTS, *_LISTS, *_MORE_LISTS, *_FLAGS, "arguments"}
    wrong = [f"there is no key {name!r}" for name in entry if name not in known]
    wrong += (f"`{n}` has to be a text" for n in _TEXTS if n != "kind" and not isinstance(entry.get(n), str))
    wrong += (
        f"`{n}` has to be a list of texts" for n in (*_LISTS, *_MORE_LISTS) if not _is_texts(entry.get(n, []))
    )
    wrong += (f"`{n}` has to be true or false" for n in _FLAGS if not isinstance(entry.get(n, False), bool))
    groups = entry.get("arguments", [])
    if not isinstance(groups, list) or not all(map(_is_texts, groups)):
        wrong.append("`arguments` has to be a list of lists of texts")
    if entry.get("kind", "own") not in KINDS:
        wrong.append(f"`kind` is one of {', '.join(KINDS)}")
    if entry.get("verdict") not in {each.value for each in CheckVerdict}:
        wrong.append("`verdict` is allow, ask or deny")
    if not entry.get("match"):
        wrong.append("it needs an example in `match`")
    if not _CONDITIONS.intersection(entry):
        wrong.append("it has no condition, and would be about every command")
    return wrong


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _build(entry: dict[str, Any]) -> CheckRule:
    fields: dict[str, Any] = {name: entry.get(name, False) for name in _FLAGS}
    fields |= {name: tuple(entry.get(name, ())) for name in (*_LISTS, *_MORE_LISTS)}
    fields["arguments"] = tuple(map(tuple, entry.get("arguments", ())))
    kind, verdict = entry.get("kind", "own"), CheckVerdict(entry["verdict"])
    return CheckRule(name=entry["name"], kind=kind, verdict=verdict, sentence=entry["sentence"], **fields)


def check_examples(rules: RuleSet, file: str) -> None:
    """Hold every rule to its own examples. Raises PolicyError."""
    from corral.shell_check.check import rules_that_apply

    problems = []
    for rule in rules.rules:
        only = RuleSet((rule,))
        for wanted, examples in ((True, rule.match), (False, rule.not_match)):
            for example in examples:
                if (rule.name in rules_that_apply(example, only)) is not wanted:
                    does = "does not match" if wanted else "matches"
                    problems.append(f"rule {rule.name}: it {does} its own example: {example}")
    if problems:
        raise _wrong(file, problems)


def _check_once(rules: RuleSet, text: str) -> None:
    """Corral's own examples are checked when these rules are first loaded; that they held is remembered."""
    import contextlib
    import hashlib

    mark = hashlib.sha256(f"{__version__}\0{grammar_version()}\0{text}".encode()).hexdigest().encode()
    if read_state("check-rules", 64) == mark:
        return
    check_examples(rules, "corral's own rules")
    with contextlib.suppress(OSError):  # then they are checked again
        write_state("check-rules", mark)


def _wrong(file: str, problems: list[str]) -> PolicyError:
    return PolicyError(
        "check-rules",
        f"the rules in {file} cannot be used",
        why="; ".join(problems[:20]),
        fix="fix the file; docs/check.md has the keys of a rule",
    )
