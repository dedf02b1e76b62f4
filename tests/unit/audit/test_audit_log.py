"""The audit log: what was written shows every change; crashes, crowds, full disks and rotation."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from corral.audit.anchor import find_head, read_anchors, send, sign
from corral.audit.log import CURRENT, AuditLog
from corral.audit.query import RecordQuery, to_ocsf
from corral.audit.records import without_query
from corral.audit.verify import log_files, read_records, verify

KEY = bytes(range(32))


def _record(number: int = 0, **more: object) -> dict[str, object]:
    return {"event": "ended", "time": "2026-01-02T03:04:05.000000Z", "run": f"{number:016}", **more}


def _fill(directory, count: int = 5, **options) -> AuditLog:
    log = AuditLog(str(directory), **options)
    for number in range(count):
        log.write([_record(number, outcome="exited")])
    return log


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "keyed"])
def test_a_change_of_any_byte_is_found(tmp_path, key) -> None:
    _fill(tmp_path, 2, key=key)
    path = tmp_path / CURRENT
    good = path.read_bytes()
    assert verify(str(tmp_path), key=key).is_intact

    unnoticed = []
    for at in range(len(good)):
        for other in {good[at] ^ 1, 0x0A if at % 9 == 0 else good[at]} - {good[at]}:
            path.write_bytes(good[:at] + bytes([other]) + good[at + 1 :])
            if verify(str(tmp_path), key=key).is_intact:
                unnoticed.append((at, other))

    assert unnoticed == []


def test_a_line_that_is_removed_put_in_or_moved_is_found(tmp_path) -> None:
    _fill(tmp_path, 4)
    path = tmp_path / CURRENT
    lines = path.read_bytes().splitlines(keepends=True)

    for changed in (
        [*lines[:2], *lines[3:]],
        [*lines[:2], lines[1], *lines[2:]],
        [lines[0], lines[2], lines[1], *lines[3:]],
        lines[1:],
    ):
        path.write_bytes(b"".join(changed))
        found = verify(str(tmp_path))
        assert not found.is_intact


def test_a_whole_older_file_may_be_removed_and_no_part_of_one(tmp_path) -> None:
    """Its first number says how much is gone; one whose beginning was cut off was changed."""
    _fill(tmp_path, 12, rotate_bytes=1000, key=KEY)
    oldest, second, *_ = log_files(str(tmp_path))
    os.unlink(oldest)
    found = verify(str(tmp_path), key=KEY)
    assert found.is_intact and found.first > 1

    with open(second, "rb+") as file:
        lines = file.readlines()
        file.seek(0)
        file.truncate()
        file.writelines(lines[1:])
    assert not verify(str(tmp_path), key=KEY).is_intact


def test_a_crash_in_the_first_line_of_a_new_file_breaks_no_chain(tmp_path) -> None:
    log = _fill(tmp_path, 12, rotate_bytes=1000)
    log.close()
    path = tmp_path / CURRENT
    path.write_bytes(path.read_bytes()[:30])

    _fill(tmp_path, 2, rotate_bytes=10_000)

    assert verify(str(tmp_path)).is_intact, verify(str(tmp_path)).problems


def test_a_record_that_is_too_long_leaves_the_chain_as_it_was(tmp_path) -> None:
    log = _fill(tmp_path, 2)
    with pytest.raises(OSError, match="too long"):
        log.write([_record(2), _record(3, subject="x" * 300_000)])

    log.write([_record(4)])

    assert verify(str(tmp_path)).is_intact and verify(str(tmp_path)).events == 4


def test_without_the_key_nobody_makes_a_line(tmp_path) -> None:
    _fill(tmp_path / "with", 2, key=KEY)
    _fill(tmp_path / "without", 2)

    assert verify(str(tmp_path / "with"), key=KEY).is_intact
    assert not verify(str(tmp_path / "with")).is_intact
    assert not verify(str(tmp_path / "with"), key=KEY[::-1]).is_intact
    assert not verify(str(tmp_path / "without"), key=KEY).is_intact


def test_a_cut_end_shows_against_an_anchor_only(tmp_path) -> None:
    _fill(tmp_path / "log", 4)
    head = find_head(str(tmp_path / "log"))
    send(head, str(tmp_path / "anchors"))
    anchors = read_anchors((tmp_path / "anchors").read_text().splitlines())
    path = tmp_path / "log" / CURRENT
    lines = path.read_bytes().splitlines(keepends=True)
    assert verify(str(tmp_path / "log"), anchors=anchors).is_intact

    path.write_bytes(b"".join(lines[:-1]))
    assert verify(str(tmp_path / "log")).is_intact
    assert "its end is gone" in verify(str(tmp_path / "log"), anchors=anchors).problems[0]

    path.unlink()
    _fill(tmp_path / "log", 4)  # all of it anew, at another time
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines))
    assert verify(str(tmp_path / "log")).is_intact
    assert not verify(str(tmp_path / "log"), anchors=anchors).is_intact


def test_a_signed_anchor_that_was_changed_is_refused(tmp_path) -> None:
    key = tmp_path / "key"
    try:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    except FileNotFoundError:
        pytest.skip("there is no ssh-keygen")
    _fill(tmp_path / "log", 2)
    head = sign(find_head(str(tmp_path / "log")), str(key))

    assert read_anchors([json.dumps(head)]) == {head["seq"]: head["hash"]}
    with pytest.raises(ValueError, match="signature"):
        read_anchors([json.dumps({**head, "hash": "0" * 64})])
    assert read_anchors([f"Nov 18 vm corral[1]: corral audit head seq=7 hash={'a' * 64}"]) == {7: "a" * 64}


def test_a_torn_last_line_is_said_and_the_next_writer_goes_on(tmp_path) -> None:
    _fill(tmp_path, 3)
    path = tmp_path / CURRENT
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])

    found = verify(str(tmp_path))
    assert "torn" in found.problems[0]

    AuditLog(str(tmp_path)).write([_record(9)])
    found = verify(str(tmp_path))
    assert found.is_intact
    assert len(found.torn) == 1
    assert [record["event"] for record in read_records(log_files(str(tmp_path)))][-2:] == ["torn", "ended"]


_WRITER = """
import sys
from corral.audit.log import AuditLog
log = AuditLog(sys.argv[1], rotate_bytes=20_000)
for number in range(int(sys.argv[2])):
    log.write([{"event": "ended", "time": "t", "run": str(number)}] * 2)
"""


def test_many_writers_make_one_chain_also_while_it_is_rotated(tmp_path) -> None:
    argv = [sys.executable, "-c", _WRITER, str(tmp_path), "60"]
    writers = [subprocess.Popen(argv) for _ in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4

    found = verify(str(tmp_path))
    runs = [record for record in read_records(log_files(str(tmp_path))) if record["event"] == "ended"]
    assert found.is_intact, found.problems
    assert len(runs) == 4 * 60 * 2
    assert found.files > 2
    assert (found.first, found.last) == (1, found.events)


def test_a_log_goes_on_in_a_child(tmp_path) -> None:
    log = _fill(tmp_path, 1)
    child = os.fork()
    if child == 0:
        log.write([_record(7)])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    log.write([_record(8)])

    assert verify(str(tmp_path)).is_intact
    assert verify(str(tmp_path)).events == 4


_FULL = """
import resource, signal, sys
from corral.audit.log import AuditLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = AuditLog(sys.argv[1])
log.write([{"event": "ended", "time": "t", "run": "1"}])
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))
try:
    for _ in range(10):
        log.write([{"event": "ended", "time": "t", "run": "2"}])
except OSError as problem:
    print(problem.strerror)
"""


def test_what_does_not_fit_on_the_disk_leaves_no_half_line(tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() != ""
    assert verify(str(tmp_path)).is_intact
    assert (tmp_path / CURRENT).read_bytes().endswith(b'"}\n')
    _fill(tmp_path, 1)
    assert verify(str(tmp_path)).is_intact


def test_a_log_that_is_a_link_is_not_followed(tmp_path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / CURRENT).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic link"):
        AuditLog(str(tmp_path / "log")).write([_record()])
    assert (tmp_path / "elsewhere").read_text() == ""


def test_records_are_found_by_what_they_say(tmp_path) -> None:
    log = AuditLog(str(tmp_path))
    log.write([_record(1, agent="codex", outcome="exited"), _record(2, outcome="timed-out")])
    log.write(
        [{"event": "violation", "time": "2027-01-01T00:00:00.000000Z", "run": "2", "feature": "fs.write"}]
    )

    def runs(**wanted) -> list[object]:
        return [
            record.get("run")
            for record in RecordQuery(**wanted).select(read_records(log_files(str(tmp_path))))
        ]

    assert runs(agent="codex") == [f"{1:016}"]
    assert runs(outcome="timed-out") == [f"{2:016}"]
    assert runs(feature="fs.write") == ["2"]
    assert runs(since="2026-12-31", events=("violation",)) == ["2"]
    assert runs(until="2026-01-03", events=("ended",)) == [f"{1:016}", f"{2:016}"]


def test_ocsf_has_the_class_and_the_type_of_each_record() -> None:
    ended = to_ocsf({"event": "ended", "time": "2026-01-02T03:04:05.000000Z", "exit_status": 1, "hash": "h"})
    found = to_ocsf({"event": "violation", "time": "t", "feature": "fs.write", "subject": "/etc"})

    assert (ended["class_uid"], ended["type_uid"], ended["status_id"]) == (1007, 100702, 2)
    assert ended["time"] == 1767323045000
    assert (found["class_uid"], found["type_uid"]) == (2004, 200401)


def test_no_query_and_no_password_of_an_address_is_kept() -> None:
    assert without_query("https://me:secret@example.com/a?token=x#y") == "https://example.com/a"
    assert without_query("/a?b") == "/a?b"
