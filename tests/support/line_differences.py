"""A text as its difference from a base, for people to read and to be put together again.

    @@ LINE   what follows stands below this line of the base, which is not indented as what follows is
     LINE     is in both, and says where the change is
    -LINE     is in the base alone
    +LINE     is in the text alone

A line with one of the first three marks is the next such line of the base. There are no numbers: what changes
elsewhere in the base leaves a difference as it is.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPTION, _PATH = "argv       -", "argv       /"


class _Change(NamedTuple):
    """Of the base the lines from `low` to `high` are gone, and there are new ones in their place."""

    low: int
    high: int
    new: Sequence[str]


def difference(base: Sequence[str], lines: Sequence[str]) -> list[str]:
    """What makes these lines of the base. None may hold a line break."""
    written: list[str] = []
    end = 0  # of what is shown
    changes = list(_changes(base, lines))
    for change, limit in zip(changes, [*(change.low for change in changes[1:]), len(base)], strict=False):
        after = _path_after(base, change, limit)
        written += _lead(base, end, change, is_next_enough=bool(after))
        written += (f"-{line}" for line in base[change.low : change.high])
        written += (f"+{line}" for line in change.new)
        written += (f" {line}" for line in after)
        end = change.high + len(after)
    return written


def changed(base: Sequence[str], written: Sequence[str]) -> list[str]:
    """The lines again. Raises ValueError if it is no difference from this base."""
    lines: list[str] = []
    here = 0
    for line in written:
        mark, text = ("@", line[3:]) if line.startswith("@@ ") else (line[:1], line[1:])
        if mark == "+":
            lines.append(text)
            continue
        if mark not in ("@", " ", "-") or text not in base[here:]:
            raise ValueError(f"this fits nothing that is left of the base: {line!r}")
        place = base.index(text, here)
        lines += base[here : place if mark == "-" else place + 1]
        here = place + 1
    return [*lines, *base[here:]]


def _changes(base: Sequence[str], lines: Sequence[str]) -> Iterator[_Change]:
    end = 0
    for kind, low, high, new_low, new_high in SequenceMatcher(None, base, lines, False).get_opcodes():
        if kind == "equal":
            continue
        # `value --option` and `--option value` can be the same change: options come first.
        new = lines[new_low:new_high]
        moving = base[low:high] or new
        can_move = kind != "replace" and low > end and base[low - 1] == moving[-1]
        if can_move and base[low - 1].startswith(_OPTION) and not moving[0].startswith(_OPTION):
            low, high, new = low - 1, high - 1, lines[new_low - 1 : new_high - 1]
        yield _Change(low, high, new)
        end = high


def _path_after(base: Sequence[str], change: _Change, limit: int) -> Sequence[str]:
    """What tells of which path an argument has changed, if that follows soon: that of `--bind`."""
    old = base[change.low : change.high]
    if old and change.new and all("/" not in line for line in (*old, *change.new)):
        for last in range(change.high, min(change.high + 2, limit)):
            if base[last].startswith(_PATH):
                return base[change.high : last + 1]
    return ()


def _lead(base: Sequence[str], end: int, change: _Change, *, is_next_enough: bool) -> list[str]:
    """The fewest lines that say where a change is: one at least, before what is only added."""
    low, high, _ = change
    for start in range(low if high > low else low - 1, end, -1):
        heading = _heading(base, start)
        top = heading if heading > end else end
        if (is_next_enough or _is_alone(base, top, start, high)) and _is_next(base, top, start, high):
            shown = [f"@@ {base[heading - 1]}"] if heading > end else []
            if not shown or base.index(base[heading - 1], end) == heading - 1:
                return [*shown, *(f" {line}" for line in base[start:low])]
    return [f" {line}" for line in base[end:low]]


def _heading(base: Sequence[str], place: int) -> int:
    """The number, counted from one, of the line that an indented line stands below; 0 if there is none."""
    if not base[place].startswith(" "):
        return 0
    return next((above for above in range(place, 0, -1) if base[above - 1][:1] not in ("", " ")), 0)


def _is_alone(base: Sequence[str], top: int, start: int, high: int) -> bool:
    """Whether nothing below `top`, or below the same heading, reads the same."""
    old, heading = base[start:high], _heading(base, start)
    places = (place for place in range(top, len(base)) if base[place : place + len(old)] == old)
    return [place for place in places if _heading(base, place) == heading] == [start]


def _is_next(base: Sequence[str], top: int, start: int, high: int) -> bool:
    """Whether one line after the other is found where it stands."""
    here = top
    for place in range(start, high):
        if base.index(base[place], here) != place:
            return False
        here = place + 1
    return True
