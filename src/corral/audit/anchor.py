"""Anchors: the head of a log, kept where whoever writes the log cannot change it.

A chain shows that nothing in it was changed. That its end was cut off, or all of it was written anew, shows
only against a hash that somebody else has kept.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess

from corral.audit.log import now
from corral.audit.verify import log_files, read_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_JOURNAL = "/run/systemd/journal/socket"
_NAMESPACE = "corral-audit"
SYSLOG, JOURNALD = "syslog", "journald"


def find_head(directory: str) -> dict[str, object]:
    """Number and hash of the last record. Raises ValueError if there is none."""
    last = None
    for path in reversed(log_files(directory)):
        for record in read_records([path]):
            last = record
        if last is not None:
            break
    if last is None:
        raise ValueError("the log has no records")
    return {"v": 1, "seq": last["seq"], "hash": last["hash"], "time": now(), "host": os.uname().nodename}


def send(head: dict[str, object], target: str) -> str:
    """Put a head into syslog, the journal or a file; returns where it went. Raises OSError."""
    text = f"corral audit head seq={head['seq']} hash={head['hash']}"
    if target == SYSLOG:
        import syslog

        syslog.openlog("corral", syslog.LOG_PID, syslog.LOG_AUTHPRIV)
        syslog.syslog(syslog.LOG_NOTICE, text)
        return "syslog"
    if target == JOURNALD:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            journal.connect(_JOURNAL)
            fields = f"MESSAGE={text}\nPRIORITY=5\nSYSLOG_IDENTIFIER=corral\n"
            journal.send(f"{fields}CORRAL_SEQ={head['seq']}\nCORRAL_HASH={head['hash']}\n".encode())
        return "the journal"
    with open(target, "a", encoding="utf-8") as file:
        file.write(json.dumps(head) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return target


def signed_text(head: dict[str, object]) -> bytes:
    """What a signature of a head is about."""
    return f"{head['seq']} {head['hash']}\n".encode("ascii")


def sign(head: dict[str, object], key: str) -> dict[str, object]:
    """The head with a signature by an ssh key. Raises OSError; CalledProcessError if ssh-keygen refuses."""
    argv = ("ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", _NAMESPACE)
    done = subprocess.run(argv, input=signed_text(head), capture_output=True, check=True)
    return {**head, "signature": done.stdout.decode("ascii")}


def is_signed(head: dict[str, object]) -> bool:
    """Whether a head has a signature that is one of its own; whose it is, is for the caller to know."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".sig") as file:
        file.write(str(head.get("signature", "")))
        file.flush()
        argv = ("ssh-keygen", "-Y", "check-novalidate", "-n", _NAMESPACE, "-s", file.name)
        return subprocess.run(argv, input=signed_text(head), capture_output=True, check=False).returncode == 0


def read_anchors(lines: Iterable[str]) -> dict[int, str]:
    """Numbers and hashes of a file of heads, or of lines of syslog. Raises ValueError if there are none."""
    found: dict[int, str] = {}
    for line in lines:
        head = _parse(line)
        if head is not None:
            if "signature" in head and not is_signed(head):
                raise ValueError(f"the signature of anchor {head['seq']} does not hold")
            found[int(str(head["seq"]))] = str(head["hash"])
    if not found:
        raise ValueError("there are no anchors in it")
    return found


def _parse(line: str) -> dict[str, object] | None:
    if "corral audit head seq=" in line:
        seq, _, rest = line.partition("corral audit head seq=")[2].partition(" hash=")
        return {"seq": int(seq), "hash": rest.strip()[:64]}
    try:
        head = json.loads(line)
    except ValueError:
        return None
    return head if isinstance(head, dict) and {"seq", "hash"} <= head.keys() else None
