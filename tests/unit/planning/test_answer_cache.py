"""AnswerCache: what was found holds only as long as every answer of the host is the same."""

from __future__ import annotations

import pytest

from corral.model.probe import Stat
from corral.planning.answer_cache import AnswerCache
from corral.planning.build import Held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.model.backend import Host

NOTHING = Held((), (), ())


class Answers:
    """A host whose answers a test changes."""

    home = "/home/ada"

    def __init__(self) -> None:
        self.stats: dict[str, Stat | None] = {"/project/.git": Stat(True, False, 1, 2)}
        self.texts = {"/project/.git/config": "[core]"}
        self.variables = {"XDG_CONFIG_HOME": "/cfg", "OTHER": "1"}

    def lstat(self, path: str) -> Stat | None:
        return self.stats.get(path)

    def read_text(self, path: str, limit_bytes: int) -> str:
        return self.texts.get(path, "")[:limit_bytes]

    def environment(self) -> Mapping[str, str]:
        return self.variables


class Finder:
    """Asks three questions, and counts how often it was asked itself."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, host: Host) -> Held:
        self.calls += 1
        host.lstat("/project/.git")
        host.lstat("/project/missing")
        host.read_text("/project/.git/config", 100)
        host.environment().get("XDG_CONFIG_HOME")
        return Held((), (), ())


def test_the_same_answers_give_what_was_found_before() -> None:
    host, finder, cache = Answers(), Finder(), AnswerCache()
    first = cache.find(host, finder)  # type: ignore[arg-type]

    assert cache.find(host, finder) is first  # type: ignore[arg-type]
    assert finder.calls == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda host: host.stats.update({"/project/.git": Stat(True, False, 1, 3)}),
        lambda host: host.stats.update({"/project/missing": Stat(False, False, 1, 9)}),
        lambda host: host.stats.pop("/project/.git"),
        lambda host: host.texts.update({"/project/.git/config": "[core] hooksPath = /x"}),
        lambda host: host.variables.pop("XDG_CONFIG_HOME"),
    ],
    ids=["replaced", "made", "removed", "written to", "variable"],
)
def test_another_answer_makes_it_look_again(change: object) -> None:
    host, finder, cache = Answers(), Finder(), AnswerCache()
    cache.find(host, finder)  # type: ignore[arg-type]

    change(host)  # type: ignore[operator]
    cache.find(host, finder)  # type: ignore[arg-type]

    assert finder.calls == 2


def test_what_nobody_asked_for_may_change() -> None:
    host, finder, cache = Answers(), Finder(), AnswerCache()
    cache.find(host, finder)  # type: ignore[arg-type]

    host.variables["OTHER"] = "2"
    cache.find(host, finder)  # type: ignore[arg-type]

    assert finder.calls == 1


def test_who_reads_the_whole_environment_depends_on_all_of_it() -> None:
    host, cache, calls = Answers(), AnswerCache(), []

    def find(asked: Host) -> Held:
        calls.append(sorted(asked.environment()))
        return Held((), (), ())

    cache.find(host, find)  # type: ignore[arg-type]
    cache.find(host, find)  # type: ignore[arg-type]
    host.variables["OTHER"] = "2"
    cache.find(host, find)  # type: ignore[arg-type]

    assert calls == [["OTHER", "XDG_CONFIG_HOME"]] * 2


def test_a_search_that_fails_is_not_remembered() -> None:
    host, cache = Answers(), AnswerCache()

    def refuse(host: Host) -> Held:
        raise ValueError(host.lstat("/project/.git"))

    with pytest.raises(ValueError):
        cache.find(host, refuse)  # type: ignore[arg-type]
    assert cache.find(host, lambda _: NOTHING) is NOTHING  # type: ignore[arg-type]
