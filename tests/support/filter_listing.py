"""A disassembled filter in the order in which people ask: what becomes of each call, and by which rules.

The tree of comparisons is shown as a table of the numbers where something else begins, and nothing has an
address: a call that is denied as well is one line more, where in the disassembly every line is another one.
In which order the numbers are compared is said only where the search does not halve the table.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    _Row = tuple[str, str, str]  # number, name of the call or "", where it leads to

_COMPARISON = re.compile(r"if >= (\d+) ?(\w*) then (\d+) else (\d+)")
_TARGET = re.compile(r"(?<=then |else )\S+")
_BEGIN, _SEARCH, _ORDER, _RULES = "begin", "calls, from this number on", "compared in this order", "rules"


def to_listing(disassembly: str) -> str:
    """The listing, or the disassembly as it is, if it could not be had back from a listing."""
    code = [line[5:] for line in disassembly.splitlines()]
    root = code.index("load number") + 1
    rows = list(_rows(code, root))
    names = _names(code, rows)
    order = [found[1] for line in code[root : root + len(rows) - 1] if (found := _COMPARISON.fullmatch(line))]
    lines = [_BEGIN, *_instructions(code, range(root), names)]
    lines += [_SEARCH, *(f"  {number:>5} {call:<24} {names[int(place)]}" for number, call, place in rows)]
    lines += [] if order == _halves(rows) else [_ORDER, f"  {' '.join(order)}"]
    lines.append(_RULES)
    for here in range(root + len(rows) - 1, len(code)):
        if here in names and not code[here].startswith("return "):
            lines.append(names[here])
        lines += _instructions(code, range(here, here + 1), names)
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    is_whole = sorted(order) == sorted(number for number, _, _ in rows[1:])
    return text if is_whole and to_disassembly(text) == disassembly else disassembly


def to_disassembly(text: str) -> str:
    """The disassembly again, of what `to_listing` returned."""
    lines = text.splitlines()
    if lines[0] != _BEGIN:
        return text
    root, end = lines.index(_SEARCH) - 1, lines.index(_RULES)
    is_ordered = lines[end - 2] == _ORDER
    rows = [_row(line) for line in lines[root + 2 : end - 2 if is_ordered else end]]
    order = lines[end - 1].split() if is_ordered else _halves(rows)
    code = [*lines[1 : root + 1], *_tree(rows, order, root)]
    places: dict[str, int] = {}
    for line in lines[end + 1 :]:
        if line.startswith(" "):
            code.append(line)
        else:
            places[line] = len(code)
    code = [line.strip() for line in code]
    places |= {_verdict(line): here for here, line in enumerate(code) if line.startswith("return ")}
    return "".join(f"{here:4} {_with_addresses(line, here, places)}\n" for here, line in enumerate(code))


def _rows(code: Sequence[str], place: int, number: str = "0", call: str = "") -> Iterator[_Row]:
    """Where each range of numbers begins, and the place that it leads to."""
    comparison = _COMPARISON.fullmatch(code[place])
    if comparison is None:
        yield number, call, str(place)
        return
    first, name, then, otherwise = comparison.groups()
    yield from _rows(code, int(otherwise), number, call)
    yield from _rows(code, int(then), first, name)


def _names(code: Sequence[str], rows: Sequence[_Row]) -> dict[int, str]:
    """The places with a name: what is returned there, or the first call that is decided there."""
    names = {here: _verdict(line) for here, line in enumerate(code) if line.startswith("return ")}
    for number, call, place in rows:
        names.setdefault(int(place), call or number)
    return names


def _verdict(line: str) -> str:
    word = line.removeprefix("return ").removeprefix("errno ")
    return word.replace("notify errno ", "notify-")  # one word


def _instructions(code: Sequence[str], places: range, names: Mapping[int, str]) -> Iterator[str]:
    for here in places:

        def named(target: re.Match[str], here: int = here) -> str:
            place = int(target[0])
            is_next = place == here + 1 and not code[place].startswith("return ")
            return "next" if is_next else names.get(place, f"+{place - here}")

        yield f"  {_TARGET.sub(named, code[here])}"


def _row(line: str) -> _Row:
    number, *call, place = line.split()
    return number, " ".join(call), place


def _halves(rows: Sequence[_Row]) -> list[str]:
    """The numbers in the order in which a search that halves the table compares them."""
    middle = len(rows) // 2
    return [rows[middle][0], *_halves(rows[:middle]), *_halves(rows[middle:])] if middle else []


def _tree(rows: Sequence[_Row], order: Sequence[str], here: int) -> list[str]:
    """The comparisons that find a row, the first of them at this address."""
    if not order:
        return []
    middle = [row[0] for row in rows].index(order[0])
    first = int(order[0])
    below = _tree(rows[:middle], [number for number in order if int(number) < first], here + 1)
    above_at = here + 1 + len(below)
    above = _tree(rows[middle:], [number for number in order if int(number) > first], above_at)
    number, call, place = rows[middle]
    then = f"{above_at}" if above else place
    otherwise = f"{here + 1}" if below else rows[0][2]
    return [f"if >= {f'{number} {call}'.rstrip()} then {then} else {otherwise}", *below, *above]


def _with_addresses(line: str, here: int, places: Mapping[str, int]) -> str:
    def address(target: re.Match[str]) -> str:
        word = target[0]
        if word.startswith("+") or word == "next":
            return str(here + int(word.replace("next", "1")))
        return word if word.isdigit() else str(places.get(word, word))

    return _TARGET.sub(address, line)
