"""ShellCall: one program that a text would start, with what is known of its words."""

from __future__ import annotations

from posixpath import basename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Stands in a word for what its value is not known of.
UNKNOWN = "\ufffc"
_PATTERN_CHARACTERS = frozenset("*?[")


class Word:
    """A word, as the shell would make it: all values that it may have, as far as the text tells."""

    __slots__ = ("end", "outputs", "start", "texts")

    def __init__(
        self, texts: tuple[str, ...], start: int, end: int, outputs: frozenset[str] = frozenset()
    ) -> None:
        self.texts, self.start, self.end = texts, start, end
        self.outputs = outputs  # programs whose output is in it

    @property
    def text(self) -> str:
        """Its first value."""
        return self.texts[0]

    @property
    def is_known(self) -> bool:
        """Whether every part of it stands in the text."""
        return all(UNKNOWN not in text for text in self.texts)


class Pipeline:
    """Which calls are in which stage."""

    __slots__ = ("stages",)

    def __init__(self) -> None:
        self.stages: list[list[ShellCall]] = []

    def names(self, stages: Iterable[int]) -> frozenset[str]:
        """The programs of some stages."""
        return frozenset(call.name for stage in stages for call in self.stages[stage])


class ShellCall:
    """One simple command. `words` begins with the program."""

    __slots__ = (
        "assignments",
        "code",
        "directory",
        "end",
        "input_text",
        "is_recursive",
        "name",
        "outputs_run",
        "pipeline",
        "reads",
        "stage",
        "start",
        "words",
        "writes",
    )

    def __init__(self, words: list[Word], start: int, end: int) -> None:
        self.words, self.start, self.end = words, start, end
        #: The program, without its directory; UNKNOWN is in it where the text does not tell.
        self.name = basename(words[0].text) if words else ""
        self.assignments: list[tuple[str, Word]] = []
        self.reads: list[Word] = []  # by redirection
        self.writes: list[Word] = []
        self.pipeline: Pipeline | None = None
        self.stage = 0
        self.directory = ""  # where it runs, if the text says so
        self.input_text: str | None = None  # what a here-document gives it
        self.outputs_run: frozenset[str] = frozenset()  # programs whose output it runs as code
        self.code = ""  # of another language, among its words
        self.is_recursive = False  # a function that calls itself, with a pipe to itself

    @property
    def is_pattern(self) -> bool:
        """Whether the shell would look for a file to find out which program it is."""
        return len(self.name) > 1 and bool(_PATTERN_CHARACTERS.intersection(self.words[0].text))

    @property
    def arguments(self) -> list[Word]:
        """Its words but the first."""
        return self.words[1:]

    def upstream(self) -> frozenset[str]:
        """Programs that write into its standard input."""
        return self.pipeline.names(range(self.stage)) if self.pipeline is not None else frozenset()

    def downstream(self) -> frozenset[str]:
        """Programs that read what it prints, and what these print."""
        if self.pipeline is None:
            return frozenset()
        return self.pipeline.names(range(self.stage + 1, len(self.pipeline.stages)))
