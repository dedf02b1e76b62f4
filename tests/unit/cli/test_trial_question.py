"""The question after a trial: an answer that it does not know is told, and nothing is done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from corral.cli.trial import tried
from corral.cli.trial.tried import TriedCommand


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
