"""References, logs and index entries: what git writes is read, and what it does not write is refused."""

from __future__ import annotations

import pytest

from corral.git_formats.index import MalformedIndex
from corral.git_formats.index_entries import IndexEntry, mean_the_same, read_entries, renew, write_entries
from corral.git_formats.refs import MalformedRefs, is_ref_name, read_log, read_packed, read_value

_ID = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "name",
    ["refs/heads/../x", "refs/heads/.x", "refs/heads/x.lock", "refs/heads/a b", "refs//x", "HEAD", "refs/x/"],
)
def test_a_name_that_leads_elsewhere_is_none(name: str) -> None:
    assert not is_ref_name(name) and is_ref_name("refs/heads/ä/b-c")


@pytest.mark.parametrize("data", [b"", b"ref: /etc/passwd\n", b"ref: refs/../x\n", b"\xff", b"0123\n"])
def test_a_value_is_an_id_or_a_name(data: bytes) -> None:
    assert read_value(f"{_ID}\n".encode()) == _ID
    with pytest.raises(MalformedRefs):
        read_value(data)


def test_packed_references_are_read_whole_or_not_at_all() -> None:
    lines = f"# pack-refs with: peeled\n{_ID} refs/heads/a\n{_ID} refs/tags/t\n^{_ID}\n".encode()

    assert read_packed(lines) == {"refs/heads/a": _ID, "refs/tags/t": _ID}
    for broken in (lines[:-1], lines + b"junk\n", lines + f"{_ID} refs/heads/a\n".encode()):
        with pytest.raises(MalformedRefs):
            read_packed(broken)


def test_a_log_has_no_marks_of_its_own() -> None:
    line = f"{_ID} {_ID} a <b> <c@example.org> 1700000000 +0100\tWIP on <main>\x1b[31m\n".encode()

    (entry,) = read_log(line.replace(b"a <b> <", b"a <"))
    assert (entry.name, entry.date, entry.message) == ("a", "@1700000000 +0100", "WIP on main [31m")
    with pytest.raises(MalformedRefs):
        read_log(b"junk\n")


def test_entries_come_back_as_they_were_written() -> None:
    entries = {
        (b"a", 0): IndexEntry(0o100644, b"x" * 20, False, 0, b"s" * 24 + b"\0\0\x81\xa4" + b"s" * 12),
        (b"b" * 300, 0): IndexEntry(0o120000, b"y" * 20, True, 0x2000),
        (b"c", 2): IndexEntry(0o160000, b"z" * 20, False, 0),
    }

    again = read_entries(write_entries(entries))
    assert mean_the_same(entries, again) and again[b"a", 0].seen == entries[b"a", 0].seen
    changed = {**entries, (b"a", 0): entries[b"a", 0].replace(object_id=b"w" * 20)}
    assert renew(changed, again)[b"a", 0].seen == bytes(40)
    with pytest.raises(MalformedIndex):
        read_entries(write_entries({(b".git/hooks/x", 0): entries[b"a", 0]}))
