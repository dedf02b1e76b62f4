"""Read a file's settings: every key known, every value of its kind, or all the mistakes at once."""

from __future__ import annotations

from corral.config.document import read_document
from corral.config.keys import BY_NAME, KEYS, TOP_TABLES
from corral.config.setting import FileSettings, Origin, Section, Setting
from corral.config.values import WrongValue, describe, nearest, read_assignment
from corral.model.problem import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from corral.config.document import Document
    from corral.config.keys import Key
    from corral.config.setting import Source

    Path = tuple[str | int, ...]

#: The tables that hold other tables of keys: `resources`, `mounts`, `environment`.
_GROUPS = tuple(
    dict.fromkeys(
        key.name.partition(".")[0]
        for key in KEYS
        if "." in key.name and key.name.partition(".")[0] not in TOP_TABLES
    )
)
#: How many agents a file may describe: more is a mistake, or an attack on whoever reads it.
_MOST_AGENTS = 1000
_MOST_ELEMENTS = 500
_MOST_PROBLEMS = 50
_MOST_NAMED = 16  # in one line of advice
_AGENT_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def read_settings(text: str, file: str, source: Source, *, below: Path = ()) -> FileSettings:
    """Read a document; `below` is where the keys begin (`tool`, `corral`). Raises DocumentProblems."""
    document = read_document(text, file)
    reader = _Reader(document, source)
    table: Any = document.table
    for name in below:
        table = table.get(name, {}) if isinstance(table, dict) else {}
    sections = list(reader.read(table, below))
    reader.finish()
    agents = frozenset(section.agent for section in sections if section.agent)
    return FileSettings(file, tuple(sections), agents)


class _Reader:
    """Walks one document and collects what is wrong with it."""

    def __init__(self, document: Document, source: Source) -> None:
        self._document = document
        self._source = source
        self._problems: list[Problem] = []

    def finish(self) -> None:
        """Raise what was found."""
        if self._problems:
            from corral.config.document import DocumentProblems

            ordered = sorted(self._problems, key=lambda problem: (problem.line, problem.column))
            raise DocumentProblems(tuple(ordered[:_MOST_PROBLEMS]))

    def read(self, table: Any, at: Path) -> Iterator[Section]:
        """Every section: `sandbox`, `security.sandbox` and `agent.NAME.sandbox`."""
        if not self._is_table(table, at):
            return
        shared: list[Setting] = []
        for name, value in table.items():
            path = (*at, name)
            if name == "sandbox":
                shared += self._keys(value, path, "")
            elif name in TOP_TABLES:
                shared += self._keys(value, path, "", f"{name}.")
            elif name == "security":
                shared += self._nested_sandbox(value, path, "")
            elif name == "agent":
                yield from self._agents(value, path)
            elif name != "$schema":
                self._unknown_top(name, path)
        self._check_repetition(shared)
        yield Section("", tuple(_in_order(shared)))

    def _agents(self, table: Any, at: Path) -> Iterator[Section]:
        if not self._is_table(table, at):
            return
        for number, (name, value) in enumerate(table.items()):
            path = (*at, name)
            if number >= _MOST_AGENTS:
                self._wrong(path, f"there are more than {_MOST_AGENTS} agents", "describe fewer of them")
                return
            if not name or not _AGENT_CHARACTERS.issuperset(name):
                what = f"{describe(name)} is not the name of an agent"
                self._wrong(path, what, "use letters, digits, -, _ and .")
                continue
            settings = list(self._nested_sandbox(value, path, name))
            self._check_repetition(settings)
            yield Section(name, tuple(_in_order(settings)))

    def _nested_sandbox(self, table: Any, at: Path, agent: str) -> Iterator[Setting]:
        """A table that has nothing but `sandbox` in it; for an agent, also what may stand beside that."""
        if not self._is_table(table, at):
            return
        for name, value in table.items():
            if name == "sandbox":
                yield from self._keys(value, (*at, name), agent)
            elif agent and name in TOP_TABLES:
                yield from self._keys(value, (*at, name), agent, f"{name}.")
            else:
                what = f"there is no key {describe(name)} here"
                self._wrong((*at, name), what, _suggest_below(name))

    def _keys(self, table: Any, at: Path, agent: str, prefix: str = "") -> Iterator[Setting]:
        if not self._is_table(table, at):
            return
        for name, value in table.items():
            path, full = (*at, name), f"{prefix}{name}"
            key = BY_NAME.get(full)
            if key is not None:
                yield from self._values(key, value, path, agent)
            elif not prefix and name in _GROUPS:
                yield from self._keys(value, path, agent, f"{name}.")
            else:
                known = [known.removeprefix(prefix) for known in BY_NAME if known.startswith(prefix)]
                known += [] if prefix else _GROUPS
                self._wrong(path, f"there is no key {describe(full)}", _suggest_key(name, known))

    def _values(self, key: Key, value: Any, at: Path, agent: str) -> Iterator[Setting]:
        try:
            found = key.kind.read(value)
        except WrongValue as problem:
            self._wrong(at, f"{key.name}: {problem.what}", problem.fix, value=True)
            return
        if key.kind.element is None:
            yield Setting(key, found, self._origin(at, agent))
            return
        if len(found) > _MOST_ELEMENTS:
            self._wrong(
                at, f"{key.name} has more than {_MOST_ELEMENTS} elements", "name directories, not files"
            )
            return
        entries = found.items() if key.kind.is_table else enumerate(found)
        for place, element in entries:
            try:
                read = key.kind.element.read(element)
                if key.kind.is_table:
                    read = read_assignment(str(place), read)
            except WrongValue as problem:
                self._wrong(
                    (*at, place), f"{key.name}: {problem.what}", problem.fix, value=not key.kind.is_table
                )
            else:
                yield Setting(key, read, self._origin((*at, place), agent))

    def _origin(self, at: Path, agent: str) -> Origin:
        position = self._document.position(at)
        return Origin(self._source, self._document.file, position.line, position.column, agent)

    def _check_repetition(self, settings: list[Setting]) -> None:
        """The same key under two names (`runtime` and `backend`, `sandbox` and `security.sandbox`)."""
        if len(settings) > _MOST_ELEMENTS:
            origin = settings[-1].origin
            what = f"there are more than {_MOST_ELEMENTS} settings in one section"
            self._problems.append(Problem(origin.name, origin.line, origin.column, what, "say less, of more"))
        seen: dict[str, Setting] = {}
        for setting in settings:
            before = seen.setdefault(setting.key.name, setting)
            if before is not setting and not setting.key.is_list:
                origin = setting.origin
                what = f"{setting.key.name} is already set on line {before.origin.line}"
                self._problems.append(
                    Problem(origin.name, origin.line, origin.column, what, "leave one of them out")
                )

    def _unknown_top(self, name: str, at: Path) -> None:
        fix = nearest(name, ("sandbox", "agent", "security", *TOP_TABLES), otherwise=_suggest_below(name))
        self._wrong(at, f"there is no key {describe(name)} here", fix)

    def _is_table(self, value: Any, at: Path) -> bool:
        if isinstance(value, dict):
            return True
        name = ".".join(map(str, at)) or "the file"
        self._wrong(
            at, f"{name} is {describe(value)} and should be a table", f"write [{name}] and keys below it"
        )
        return False

    def _wrong(self, at: Path, what: str, fix: str, *, value: bool = False) -> None:
        position = self._document.value_position(at) if value else self._document.position(at)
        self._problems.append(Problem(self._document.file, position.line, position.column, what, fix))


def _in_order(settings: list[Setting]) -> list[Setting]:
    """As the table of keys has them, whatever the order of the file: it says one thing, not a sequence."""
    places = {key.name: number for number, key in enumerate(KEYS)}
    return sorted(settings, key=lambda setting: places[setting.key.name])


def _suggest_key(name: str, known: list[str]) -> str:
    """The same word below another table, or near by spelling."""
    exact = [key.name for key in KEYS if key.name.rpartition(".")[2] == name and not key.is_beside]
    deeper = exact[0] if exact else _nearest_below(name)
    if exact:
        return f"write {deeper}"
    if deeper:
        return nearest(name, known, otherwise=f"did you mean {deeper!r}?")
    many = "docs/configuration.md lists the keys, and so does `corral policy schema`"
    return nearest(name, known, otherwise=many if len(known) > _MOST_NAMED else "")


def _nearest_below(name: str) -> str:
    """The key whose last word is spelled nearly so, or nothing."""
    import difflib

    own = [key for key in KEYS if not key.is_beside]
    names = {word: key.name for key in reversed(own) for word in (key.name.rpartition(".")[2], *key.aliases)}
    words = names | {key.name: key.name for key in own}
    near = difflib.get_close_matches(name, words, n=1)
    return words[near[0]] if near else ""


def _suggest_below(name: str) -> str:
    """For a key that stands where only `sandbox` may: the key that was meant, in its table."""
    if name in _GROUPS:
        return f"write sandbox.{name}"
    if name == "tool":
        return "[tool.corral] is for pyproject.toml; here the keys begin with [sandbox]"
    near = _nearest_below(name)
    return f"write sandbox.{near}" if near else "write a table `sandbox`, and keys below it"
