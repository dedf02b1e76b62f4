"""Verify a log: every line in its place, none changed, none missing between the first and the last.

What a chain cannot tell: that its end was cut off, or that whoever may write it wrote all of it anew. An
anchor tells that (`anchor.py`).
"""

from __future__ import annotations

import os

from corral.audit.chain import HEAD, NOTHING, PREV_END, SEQ, TAIL, TAIL_BYTES, Hasher, plain_hash
from corral.audit.log import CURRENT
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MOST_PROBLEMS = 20
_OPENED = b'"event":"opened"'  # the first line of every file


class Verification(Record):
    events: int
    first: int  # the number of the first line; more than 1: older files were removed
    last: int
    head: str  # the hash of the last line
    files: int
    problems: tuple[str, ...]
    torn: tuple[str, ...]  # lines that a crash has cut, as a later line says

    @property
    def is_intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_json(self) -> dict[str, object]:
        """All fields, in JSON's own types."""
        return {"v": 1, "intact": self.is_intact, **{name: getattr(self, name) for name in self._fields}}


def log_files(directory: str) -> list[str]:
    """The files of a log, the oldest first."""
    names = sorted(
        name for name in os.listdir(directory) if name.startswith("audit-") and name.endswith(".jsonl")
    )
    if os.path.exists(os.path.join(directory, CURRENT)):
        names.append(CURRENT)
    return [os.path.join(directory, name) for name in names]


class _Verifier:
    def __init__(self, key: bytes | None, anchors: Mapping[int, str]) -> None:
        self._hasher = Hasher(key)
        self._anchors = anchors
        self._pending = b""  # a line that is none, which the next one may explain
        self.problems: list[str] = []
        self.torn: list[str] = []
        self.events = self.first = self.number = 0
        self.last = ""

    def read(self, path: str) -> None:
        """Go through one file. Every byte of it is looked at."""
        name = os.path.basename(path)
        hash_of, anchors = self._hasher.hash, self._anchors
        expected = b"\n\n"  # how the next line begins, if all is well; nothing begins so
        with open(path, "rb", buffering=1 << 20) as file:
            for at, line in enumerate(file, 1):
                body = line[:-TAIL_BYTES]
                digest = line[-67:-3]
                if line.startswith(expected) and line.endswith(b'"}\n') and line[-TAIL_BYTES:-67] == TAIL:
                    found = hash_of(body)
                    if found.encode() == digest and not self._pending:
                        self.last, self.number = found, self.number + 1
                        self.events += 1
                        if self.number in anchors and anchors[self.number] != found:
                            self._disagree(f"{name}, line {at}")
                        expected = b"%b%b%b%d," % (HEAD, digest, SEQ, self.number + 1)
                        continue
                if (
                    line[-TAIL_BYTES:-67] != TAIL
                    or line[-3:] != b'"}\n'
                    or hash_of(body).encode() != digest
                    or line[: len(HEAD)] != HEAD
                    or line[PREV_END : PREV_END + len(SEQ)] != SEQ
                ):
                    self._odd(line, f"{name}, line {at}")
                    continue
                if at == 1 and not line[PREV_END + len(SEQ) :].partition(b",")[2].startswith(_OPENED):
                    self._wrong(f"{name}: lines were removed from its beginning")
                self._follow(line, body, f"{name}, line {at}")
                self.last = digest.decode()
                self.events += 1
                expected = b"%b%b%b%d," % (HEAD, digest, SEQ, self.number + 1)
                if self.number in anchors and anchors[self.number] != self.last:
                    self._disagree(f"{name}, line {at}")
        if self._pending:
            self._wrong(f"{name}: the last line is torn: a crash, or somebody has changed the end")
            self._pending = b""

    def _disagree(self, place: str) -> None:
        self._wrong(f"{place}: an anchor has another hash for number {self.number}")

    def _follow(self, line: bytes, body: bytes, place: str) -> None:
        previous = line[len(HEAD) : PREV_END].decode("ascii", "replace")
        text = line[PREV_END + len(SEQ) :].partition(b",")[0]
        number = int(text) if text.isdigit() and len(text) < 19 else -1
        if self._pending:
            explained = b'"event":"torn"' in body and plain_hash(self._pending.rstrip(b"\n")).encode() in body
            if explained:
                self.torn.append(f"before {place}: {len(self._pending)} bytes")
            else:
                self._wrong(f"before {place}: a line was changed and is no longer a record")
            self._pending = b""
        if not self.last:
            self.first = number
            if number == 1 and previous != NOTHING:
                self._wrong(f"{place}: the first line follows another one")
        elif previous != self.last:
            self._wrong(f"{place}: it does not follow the line before: one was changed, removed or put in")
        if self.last and number != self.number + 1:
            self._wrong(f"{place}: number {number} follows {self.number}")
        self.number = number

    def _odd(self, line: bytes, place: str) -> None:
        if self._pending:
            self._wrong(f"before {place}: a line was changed and is no longer a record")
        self._pending = line
        self._place = place

    def _wrong(self, text: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(text)


def verify(
    directory: str, *, key: bytes | None = None, anchors: Mapping[int, str] | None = None
) -> Verification:
    """Verify all files of a log; `anchors` are hashes by number that were kept elsewhere. Raises OSError."""
    known = dict(anchors or {})
    verifier = _Verifier(key, known)
    files = log_files(directory)
    for path in files:
        verifier.read(path)
    beyond = [number for number in known if number > verifier.number]
    if beyond:
        verifier._wrong(
            f"an anchor has number {max(beyond)}, and the log ends at {verifier.number}: its end is gone"
        )
    if known and verifier.first > 1:
        before = [number for number in known if number < verifier.first]
        verifier.torn += [f"{len(before)} anchors are of files that are not there"] if before else []
    return Verification(
        verifier.events,
        verifier.first,
        verifier.number,
        verifier.last or NOTHING,
        len(files),
        tuple(verifier.problems),
        tuple(verifier.torn),
    )


def read_records(paths: Iterable[str]) -> Iterator[dict[str, object]]:
    """The records of files as they are; what is no record is left out. Nothing is verified."""
    import json

    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict):
                    yield record
