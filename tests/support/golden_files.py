"""The golden files: what is kept, in which file, and as a difference from which other one.

A file holds a launch, or a filter, word for word, or begins with `like FILE` and holds the difference from
that one (support.line_differences). Two things are shorter there than where they are enforced: a list of
watched names that a launch of `native` has as well is named by it, and a filter is a listing.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from corral.backends.registry import get_backend
from corral.linux.bpf import disassemble
from support.filter_listing import to_disassembly, to_listing
from support.golden_cases import CASES, LINUX, fake_probe, host_of, plan_of
from support.line_differences import changed, difference
from support.mac import MAC, MAC_CASES, MacHost, mac_plan_of, mac_probe
from support.rendering import filters, render

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
LAUNCHES = {f"{name}/{case.name}.txt": (name, case) for name in LINUX for case in CASES}
MAC_LAUNCHES = {f"{name}/{case.name}.txt": (name, case) for name in MAC for case in MAC_CASES}
FILTERS = {f"seccomp/{name}.txt": name for name in filters()}
FILES = (*LAUNCHES, *MAC_LAUNCHES, *FILTERS)

#: Whose first launch is kept as a difference from that of another backend.
_ALIKE = {"docker": "podman"}
_LIKE = "like "
_WATCH, _WATCH_AS = "watch      /", "watch      as in "
#: The launches whose watched names others refer to.
_WATCHED = tuple(file for file in LAUNCHES if file.startswith("native/"))


@cache
def enforced(file: str) -> str:
    """What is enforced now, word for word."""
    if file in FILTERS:
        return disassemble(filters()[FILTERS[file]]).rstrip() + "\n"
    if file in MAC_LAUNCHES:
        name, case = MAC_LAUNCHES[file]
        probe = mac_probe(name, MacHost(case.files, env=case.env, uid=case.uid))
        plan = mac_plan_of(case, probe)
    else:
        name, case = LAUNCHES[file]
        probe = fake_probe(name, host_of(case))
        plan = plan_of(case, probe)
    return render(plan, get_backend(name).lower(plan, probe))


def reviewed(file: str) -> str:
    """What the golden file stands for, word for word. Raises ValueError if it does not fit its base."""
    lines: list[str] = []
    for line in _of_file(file):
        is_named = line.startswith(_WATCH_AS)
        lines += _watched(_of_file(line.removeprefix(_WATCH_AS))) if is_named else [line]
    return to_disassembly(_joined(lines)) if file in FILTERS else _joined(lines)


def as_read(file: str, text: str) -> str:
    """The same for people: of a filter, the listing."""
    return to_listing(text) if file in FILTERS else text


def base_of(file: str) -> str:
    """The file that this one is kept as a difference from, or nothing."""
    if file in FILTERS:
        return _base_of_filter(FILTERS[file])
    name, case = (LAUNCHES | MAC_LAUNCHES)[file]
    if case.name != case.like:
        return f"{name}/{case.like}.txt"
    return f"{_ALIKE[name]}/{case.name}.txt" if name in _ALIKE else ""


def written(file: str) -> str:
    """The text of the file, for what is enforced now."""
    lines, base = _in_short(file), base_of(file)
    if base:
        lines = [f"{_LIKE}{base}", *difference(_in_short(base), lines)]
    return _joined(lines)


def write_all() -> None:
    for file, text in {file: written(file) for file in FILES}.items():
        (GOLDEN / file).parent.mkdir(exist_ok=True)
        (GOLDEN / file).write_text(text, encoding="utf-8")


def _of_file(file: str) -> list[str]:
    first, *rest = _lines((GOLDEN / file).read_text(encoding="utf-8"))
    if not first.startswith(_LIKE):
        return [first, *rest]
    return changed(_of_file(first.removeprefix(_LIKE)), rest)


def _base_of_filter(name: str) -> str:
    """The filter that is most like it: of the same kind for other sockets, or of a plainer kind."""
    sockets, _, kind = name.partition("-")
    ordinary = f"seccomp/namespaced{'-' if kind else ''}{kind}.txt"
    if sockets != "namespaced" and ordinary in FILTERS:
        return ordinary
    plainer = name.removesuffix("-single" if name.endswith("-single") else "-shared-ipc")
    return f"seccomp/{plainer}.txt" if kind else ""


@cache
def _in_short(file: str) -> list[str]:
    """The lines as they are kept."""
    lines = _lines(as_read(file, enforced(file)))
    watched = _watched(lines)
    named = next((other for other in _WATCHED if _watched(_lines(enforced(other))) == watched), "")
    if not watched or not named or file in _WATCHED:
        return lines
    first = lines.index(watched[0])
    last = first + len(watched)
    return [*lines[:first], f"{_WATCH_AS}{named}", *lines[last:]] if lines[first:last] == watched else lines


def _watched(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(_WATCH)]


def _lines(text: str) -> list[str]:
    """Every line ends with a line break, the last as well."""
    return text[:-1].split("\n")


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(as_read(argument, reviewed(argument)))
