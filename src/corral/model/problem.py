"""Problem: one mistake in a file, and how to fix it."""

from __future__ import annotations

from corral.model.record import Record


class Problem(Record):
    """A mistake in a configuration file, or in a variable, which has no lines."""

    file: str
    line: int
    column: int
    what: str
    fix: str

    def to_json(self) -> dict[str, object]:
        """All of it, under the names of the fields."""
        return dict(zip(type(self)._fields, self._values(), strict=True))

    def render(self) -> str:
        """Two lines for a person: where and what, then the fix."""
        # A name with a line feed in it must not pass for a line of ours.
        file, what, fix = (text.replace("\n", "\\n") for text in (self.file, self.what, self.fix))
        place = f"{file}:{self.line}:{self.column}" if self.line else file  # a variable has no lines
        return f"{place}: {what}\n  fix: {fix}"
