"""Checking the text of a command: verdicts, reasons, spans, rules of one's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import corral
from corral.model.errors import PolicyError
from corral.shell_check import grammar
from corral.shell_check.apply import apply_check
from corral.shell_check.check import check
from corral.shell_check.load_rules import builtin_rules, check_examples, load_rules
from corral.shell_check.verdict import CheckVerdict
from corral.shell_check.words import expand_braces

OWN = """
[[rule]]
name = "no-deploy"
verdict = "deny"
sentence = "deploys, which is not for an agent"
command = ["deploy*"]
match = ["deploy prod", "./deploy.sh"]
not_match = ["echo deploy"]
"""


def test_the_reason_is_the_very_part_of_the_text() -> None:
    text = "echo fine && rm -rf / ; ls"
    result = corral.check(text)

    assert result.verdict is CheckVerdict.DENY
    assert [(f.rule, text[f.start : f.end]) for f in result.findings] == [("remove-everything", "rm -rf /")]


def test_places_count_characters_and_not_bytes() -> None:
    text = "echo 'äöü€' && rm -rf /"
    found = check(text).findings[0]

    assert text[found.start : found.end] == "rm -rf /" == found.text


def test_words_are_checked_as_they_are() -> None:
    assert check(("rm", "-rf", "/")).verdict is CheckVerdict.DENY
    assert check(("echo", "rm -rf /; $(x)")).verdict is CheckVerdict.ALLOW
    assert check(("sh", "-c", "rm -rf /")).verdict is CheckVerdict.DENY


def test_what_cannot_be_resolved_is_unknown_and_never_allowed() -> None:
    for text in ("$cmd x", "eval $x", 'sh -c "$x"', "if (", "cat x | sh"):
        result = check(text)

        assert result.verdict is CheckVerdict.ASK
        assert {found.rule for found in result.findings} == {"unknown"}


def test_an_unknown_word_on_which_no_rule_hangs_is_listed() -> None:
    result = check("cp $source out")

    assert result.verdict is CheckVerdict.ALLOW
    assert result.unknown == ((3, 10),)
    assert "not that the command is safe" in result.to_json()["advisory"]


def test_the_answer_as_json_has_the_verdict_and_the_reasons() -> None:
    answer = check("rm -rf /").to_json()

    assert answer["v"] == 1
    assert answer["verdict"] == "deny"
    assert answer["reasons"][0]["rule"] == "remove-everything"
    assert set(answer["reasons"][0]) == {"verdict", "rule", "kind", "sentence", "start", "end", "text"}


def test_corrals_own_rules_hold_to_their_examples_and_each_has_both_kinds() -> None:
    rules = builtin_rules()
    check_examples(rules, "corral's own")

    assert len(rules.rules) > 60
    assert [rule.name for rule in rules.rules if not rule.match or not rule.not_match] == []
    assert {rule.kind for rule in rules.rules} >= {
        *("destructive", "privilege", "exfiltration", "persistence", "credential", "obfuscation")
    }


def test_a_rule_of_ones_own_counts_and_beats_corrals(tmp_path) -> None:
    mine = tmp_path / "rules.toml"
    allow = OWN.replace("deny", "allow").replace('["deploy*"]', '["sudo"]').replace("no-deploy", "my-sudo")
    allow = allow.replace('["deploy prod", "./deploy.sh"]', '["sudo ls"]')
    mine.write_text(OWN + allow, encoding="utf-8")

    assert check("./deploy.sh now", rules=[mine]).verdict is CheckVerdict.DENY
    assert check("sudo ls").verdict is CheckVerdict.ASK
    assert check("sudo ls", rules=[mine]).verdict is CheckVerdict.ALLOW
    assert check("sudo rm -rf /", rules=[mine]).verdict is CheckVerdict.DENY


def test_an_example_that_does_not_hold_keeps_the_file_from_being_used(tmp_path) -> None:
    mine = tmp_path / "rules.toml"
    mine.write_text(OWN.replace('"./deploy.sh"', '"release.sh"').replace('"echo deploy"', '"deploy"'))

    with pytest.raises(PolicyError) as refused:
        load_rules(str(mine))
    assert refused.value.code == "check-rules"
    assert "does not match its own example: release.sh" in refused.value.why
    assert "matches its own example: deploy" in refused.value.why


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rule = 1", "[[rule]]"),
        ("[[rule]]\nname = 'x'", "verdict"),
        (OWN.replace("command", "comand"), "comand"),
        (OWN.replace('"deny"', '"maybe"'), "allow, ask or deny"),
        (OWN.replace('command = ["deploy*"]\n', ""), "every command"),
        (OWN + OWN, "two of this name"),
        ("[[rule", "Expected"),
    ],
)
def test_every_mistake_of_a_file_is_said(tmp_path, text: str, complaint: str) -> None:
    mine = tmp_path / "rules.toml"
    mine.write_text(text, encoding="utf-8")

    with pytest.raises(PolicyError) as refused:
        load_rules(str(mine))
    assert complaint in refused.value.why


def test_modes_warn_ask_and_refuse() -> None:
    said: list[str] = []

    assert apply_check("off", "rm -rf /", say=said.append) is None
    assert apply_check("enforce", "ls", say=said.append) is not None
    apply_check("warn", "rm -rf /", say=said.append)
    assert len(said) == 1
    for mode, text in (
        ("enforce", "sudo ls"),
        ("ask", "sudo ls"),
        ("ask", "rm -rf /"),
        ("enforce", "rm -rf /"),
    ):
        with pytest.raises(PolicyError, match="the check of its text") as refused:
            apply_check(mode, text, say=said.append)
        assert refused.value.code == "check-refused"
    assert apply_check("ask", "sudo ls", say=said.append, ask=lambda _: True) is not None
    with pytest.raises(PolicyError):  # nobody is asked about a denial
        apply_check("ask", "rm -rf /", say=said.append, ask=lambda _: True)


def test_a_missing_grammar_is_named_by_its_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    grammar._parser.cache_clear()
    try:
        with pytest.raises(PolicyError) as missing:
            grammar.parse(b"ls")
        assert missing.value.code == "missing-extra"
        assert "corral[check]" in missing.value.fix
    finally:
        grammar._parser.cache_clear()


def test_hostile_sizes_end_soon() -> None:
    deep = "$(" * 3000 + "ls" + ")" * 3000
    braces = "echo " + "{a,b}" * 40
    shells = "ls"
    for _ in range(20):
        import shlex

        shells = f"sh -c {shlex.quote(shells)}"
        if len(shells) > 50_000:
            break

    assert check(deep).verdict is CheckVerdict.ASK
    assert check("x" * 200_000).verdict is CheckVerdict.ASK
    assert check("ls; " * 3000).verdict is CheckVerdict.ASK
    assert check(shells).verdict is CheckVerdict.ASK
    assert check(braces).verdict is CheckVerdict.ALLOW
    assert len(expand_braces("{a,b}" * 40)) == 64


@pytest.mark.parametrize(
    "text",
    ["a|" * 50_000, "x=(" * 30_000, "a='x|'; " + "a=$a$a; " * 30 + 'eval "$a"'],
    ids=["pipes", "lists", "doubled"],
)
def test_a_text_that_would_take_all_memory_is_left_to_a_person(text: str) -> None:
    """In a process of its own, with a bound: what is tested here has taken 20 GB."""
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        "import corral; print(corral.check(sys.stdin.read()).verdict.value)"
    )

    done = subprocess.run(
        (sys.executable, "-c", program), input=text, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "ask\n"), done.stderr
