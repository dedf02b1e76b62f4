"""make mutants: break corral in every way that is known, and see that a test notices each.

run.py [PART ...]     mutants whose names have one of these parts; all of them without
--list                say which there are
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
for place in (HERE, HERE.parent, HERE.parents[1] / "src"):
    sys.path.insert(0, str(place))

from catalogue import all_mutants  # noqa: E402  (needs the paths above)
from mutant import Answer, Mutant  # noqa: E402
from trial import Told, run_tests  # noqa: E402
from workshop import Workshop, compile_all  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = 2
MUTANT_SECONDS, ALL_SECONDS = 120, 300
_PLACE = 4  # bytes of a mutant's number


@dataclass(frozen=True)
class Tried:
    """One mutant, and what became of it."""

    number: int
    seconds: float
    told: Told


def _answer(told: Told) -> Answer:
    return Answer.CAUGHT if told.caught else Answer.REFUSED if told.refused else Answer.SURVIVES


def judge(mutant: Mutant, told: Told) -> str:
    """What is wrong; empty if it is as expected."""
    found = _answer(told)
    if told.error and not told.caught:
        return told.error
    if found is Answer.CAUGHT:
        return ""  # also where it was not expected: as another user, or on another kernel
    if found is not mutant.answer:
        return f"{found.value}, and was expected to be {mutant.answer.value}"
    if not told.caught and not mutant.why:
        return "nobody says why no test catches it"
    return ""


def _work(place: Path, objects: Path, mutants: list[Mutant], numbers: int, answers: int) -> None:
    """One worker: takes numbers of mutants until there are no more."""
    workshop = Workshop(place, objects)
    while raw := os.read(numbers, _PLACE):
        number, began = int.from_bytes(raw, "little"), time.monotonic()
        told = Told()
        if mutants[number].tests:
            with workshop.holding(mutants[number]):
                seconds = MUTANT_SECONDS if mutants[number].edits else ALL_SECONDS
                told = run_tests(
                    workshop, mutants[number].tests, place.with_suffix(f".{number}.log"), seconds
                )
        tried = {"number": number, "seconds": time.monotonic() - began, "told": asdict(told)}
        os.write(answers, json.dumps(tried).encode() + b"\n")  # INVARIANT: shorter than PIPE_BUF


def try_all(mutants: list[Mutant], place: Path, prefix: str = "w") -> Iterator[Tried]:
    """Try every mutant, two at a time; yields what became of each."""
    numbers_read, numbers_write = os.pipe()
    answers_read, answers_write = os.pipe()
    os.write(numbers_write, b"".join(n.to_bytes(_PLACE, "little") for n in range(len(mutants))))
    os.close(numbers_write)
    workers = []
    for name in range(WORKERS):
        if (pid := os.fork()) == 0:
            try:
                os.close(answers_read)
                _work(place / f"{prefix}{name}", place / "objects", mutants, numbers_read, answers_write)
                os._exit(0)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
        workers.append(pid)
    for fd in (numbers_read, answers_write):
        os.close(fd)
    with os.fdopen(answers_read) as answers:
        for line in answers:
            value = json.loads(line)
            yield Tried(value["number"], value["seconds"], Told(**value["told"]))
    if any(os.waitpid(pid, 0)[1] for pid in workers):
        raise SystemExit("mutants: a worker failed")


def _show(mutant: Mutant, tried: Tried, problem: str) -> str:
    mark = "!!" if problem else "ok"
    said = tried.told.caught or (f"refused: {tried.told.refused}" if tried.told.refused else "no test")
    line = f"{mark} {mutant.name:44} -> {said}  [{tried.seconds:.1f} s]"
    if mutant.why and not problem:
        line += f"\n   {'':44}    {mutant.why}"
    return f"{line}\n   {problem}" if problem else line


def _fail_anyway(catchers: set[str], place: Path) -> Iterator[str]:
    """A test that fails without a mutant as well has caught nothing."""
    files = sorted({test.partition("::")[0] for test in catchers})
    halves = [
        tuple(sorted(t for t in catchers if t.partition("::")[0] in files[n::WORKERS]))
        for n in range(WORKERS)
    ]
    whole = [
        Mutant("none", "nothing", (), half, Answer.SURVIVES, "corral as it is") for half in halves if half
    ]
    for tried in try_all(whole, place, "whole"):
        yield from filter(None, (tried.told.error, tried.told.caught, tried.told.refused))


def try_and_tell(mutants: list[Mutant], place: Path) -> list[str]:
    """Print the table; returns what is not as it should be."""
    wrong, catchers, found = [], set(), dict.fromkeys(Answer, 0)
    began = time.monotonic()
    compile_all(place / "objects")
    for tried in try_all(mutants, place):
        mutant = mutants[tried.number]
        problem = judge(mutant, tried.told)
        wrong += [f"{mutant.name}: {problem}"] if problem else []
        catchers |= {tried.told.caught} - {""}
        found[_answer(tried.told)] += 1
        print(_show(mutant, tried, problem), flush=True)
    wrong += [f"{test}: fails without any mutant" for test in _fail_anyway(catchers, place)]
    told = ", ".join(f"{number} {answer.value}" for answer, number in found.items())
    print(f"\n{len(mutants)} mutants, {len(catchers)} tests, {time.monotonic() - began:.0f} s: {told}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("parts", nargs="*", help="mutants whose names have one of these parts")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--keep", action="store_true", help="keep the directory with what the tests said")
    given = parser.parse_args()
    mutants = [m for m in all_mutants() if not given.parts or any(part in m.name for part in given.parts)]
    if given.list:
        print(*(f"{mutant.name:44} {mutant.breaks}" for mutant in mutants), sep="\n")
        return 0
    place = Path(tempfile.mkdtemp(prefix="corral-mutants-"))
    place.chmod(0o755)  # ordinary users run launchers in it
    try:
        wrong = try_and_tell(mutants, place)
    finally:
        print(f"kept: {place}") if given.keep else shutil.rmtree(place, ignore_errors=True)
    print(f"not as expected: {len(wrong)}", *wrong, sep="\n  ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
