"""AnswerCache: what was found for one run holds for the next, as long as the host gives the same answers.

What must be protected, and what must be hidden by now, is found anew for each run, because it must be true
at that moment. It follows from the host's answers and from nothing else; so it is enough to ask the same
questions again.
"""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol, TypeVar

    from corral.model.backend import Host

    Found = TypeVar("Found")
    Answers = dict[tuple[Any, ...], Any]
    Stamps = dict[str, tuple[int, ...]]

    class AnswerStore(Protocol):
        """Where answers, and what follows from them, outlast the process."""

        def load(self) -> tuple[Answers, Stamps, Any] | None:
            """What was saved last: answers, stamps by path, and what follows from both; never raises."""

        def save(self, answers: Answers, found: Any) -> None:
            """Never raises: the next process finds it out for itself."""

        def is_the_same(self, stamps: Stamps) -> bool:
            """Whether paths have the stamps that `load` gave in the place of the host's answers."""


class RecordingHost:
    """A host that remembers every question and its answer. It is a `Host` to whoever asks."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.answers: dict[tuple[Any, ...], Any] = {}

    def __getattr__(self, name: str) -> Any:
        known = getattr(self._host, name)
        if not callable(known):
            return known  # platform, user and home: they belong to the host's identity

        def ask(*arguments: Any) -> Any:
            question = (name, *arguments)
            if question not in self.answers:
                self.answers[question] = known(*arguments)
            return self.answers[question]

        return ask

    def environment(self) -> Mapping[str, str]:
        """Only what is looked up counts: all the others may change."""
        return _Variables(self._host.environment(), self.answers)


class _Variables(Mapping[str, str]):
    """An environment, of which it is remembered what was looked up, or that all of it was."""

    def __init__(self, real: Mapping[str, str], answers: dict[tuple[Any, ...], Any]) -> None:
        self._real = real
        self._answers = answers

    def __getitem__(self, name: str) -> str:
        value = self._answers["variable", name] = self._real.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        self._answers["variables",] = dict(self._real)
        return iter(self._real)

    def __len__(self) -> int:
        return len(tuple(iter(self)))


class AnswerCache:
    """What was found last, and the answers that it follows from. Not for several threads at once."""

    def __init__(self, store: AnswerStore | None = None) -> None:
        self._store = store
        self._answers: Answers | None = None
        self._found: Any = None
        self._stamps: Stamps = {}  # of paths, where the store has these instead of answers
        loaded = store.load() if store is not None else None
        if loaded is not None:
            self._answers, self._stamps, self._found = loaded

    def find(self, host: Host, find: Callable[[Host], Found]) -> Found:
        """What `find` would return now; called only if the host answers otherwise than last time."""
        if self._answers is None or not self._holds(host, self._answers):
            recorder = RecordingHost(host)
            self._answers, self._stamps = None, {}
            self._found = find(recorder)
            self._answers = recorder.answers
            if self._store is not None:
                self._store.save(self._answers, self._found)
        found: Found = self._found
        return found

    def _holds(self, host: Host, answers: Answers) -> bool:
        if self._stamps and (self._store is None or not self._store.is_the_same(self._stamps)):
            return False
        return _says_so(host, answers)


def _says_so(host: Host, answers: dict[tuple[Any, ...], Any]) -> bool:
    lstat, variables = host.lstat, host.environment()
    for (name, *arguments), answer in answers.items():
        if name == "lstat":
            now: Any = lstat(arguments[0])
        elif name == "variable":
            now = variables.get(arguments[0])
        elif name == "variables":
            now = dict(variables)
        else:
            now = getattr(host, name)(*arguments)
        if now is not answer and now != answer:
            return False
    return True
