"""The question after a trial: an answer that it does not know is told, and nothing is done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from corral.cli.trial import tried
from corral.cli.trial.tried import TriedCommand
from corral.trials.change import ChangeAction, EntryKind, TrialChange


@pytest.mark.parametrize("answer", ["?", "q", "apply it"])
def test_an_answer_that_is_none_is_explained_and_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    answers = iter([answer, "k"])
    monkeypatch.setattr(tried, "_read_answer", lambda question: next(answers))
    command = TriedCommand.__new__(TriedCommand)
    command.trial = SimpleNamespace(id="1c37b4f4")

    assert command._ask(()) == 0
    first, last = capsys.readouterr().err.splitlines()
    assert first == "corral: type a, c, d, k or x; Enter keeps it"
    assert "corral apply 1c37b4f4" in last


def test_while_choosing_an_answer_that_is_none_takes_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers, asked = iter(["q", "y", "n"]), list[str]()
    monkeypatch.setattr(tried, "_read_answer", lambda question: asked.append(question) or next(answers))
    applied: list[list[str]] = []
    command = TriedCommand.__new__(TriedCommand)
    command.trial = SimpleNamespace(id="1c37b4f4", git_changes=tuple)
    monkeypatch.setattr(command, "_apply", lambda paths: applied.append(paths) or 0, raising=False)
    changes = [
        TrialChange("one", ChangeAction.ADDED, EntryKind.FILE),
        TrialChange("two", ChangeAction.ADDED, EntryKind.LINK, target="../else\x1b"),
    ]

    assert command._choose(changes) == 0
    assert applied == [["one"]]
    assert (len(asked), asked[0]) == (3, asked[1])
    assert "two -> ../else\\x1b  apply" in " ".join(asked[2].split(" "))
    assert capsys.readouterr().err == "corral: type y or n; Enter leaves it in the trial\n"
