"""Who can reach a named session: its user, and nobody from inside of a sandbox."""

from __future__ import annotations

import json
import os
import socket
import subprocess

import pytest

from support.named_sessions import OTHER, PATIENCE_SECONDS, Person
from support.probed import probe_of

#: Tries to have a command run in the session whose directory it is given, with a token or what it can read.
CLIENT = """
import json, os, socket, sys
directory, token, mark = sys.argv[1:4]
print("alive", flush=True)
try:
    record = dict(line.split("=", 1) for line in open(f"{directory}/s.session").read().splitlines())
    token = token or record["token"]
    print("record", flush=True)
except OSError as problem:
    print("no record:", problem.strerror, flush=True)
try:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(20)
    connection.connect(f"{directory}/s.sock")
    print("connected", flush=True)
    request = {"v": 1, "token": token, "op": "exec", "command": f"touch {mark}"}
    null = os.open("/dev/null", os.O_RDWR)
    socket.send_fds(connection, [b"j" + json.dumps(request).encode()], [null, null, null])
    print("answer:", connection.recv(65536)[:20], flush=True)
except OSError as problem:
    print("refused:", problem.strerror, flush=True)
"""


def _attempt(
    person: Person, *before: str, token: str = "", uid: int | None = None, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the client, confined if `before` says so. What it managed is judged by the mark on the host."""
    arguments = ["-c", CLIENT, str(person.sessions), token, str(person.project / "mark")]
    command = person.argv(*arguments, uid=uid)
    if before:
        command = person.argv("-m", "corral", *before, "--", "/usr/bin/python3", *arguments)
    return subprocess.run(
        command,
        cwd=person.project,
        env={**person.environment, **env},
        capture_output=True,
        timeout=60,
        check=False,
    )


def _has_acted(person: Person) -> bool:
    mark = person.project / "mark"
    if not mark.exists():
        return False
    mark.unlink()
    return True


@pytest.mark.parametrize("backend", ["native", "landlock", "bubblewrap"])
def test_no_command_reaches_the_socket_of_a_session(root_person: Person, backend: str) -> None:
    """Not even with the network and with everything around it granted for reading."""
    probe = probe_of(backend)
    if not probe.available:
        pytest.skip(f"{backend} is not available: {probe.reason}")
    root_person.start()
    _attempt(root_person)
    assert _has_acted(root_person), "the control: outside of a sandbox the same script is served"
    waived = ("--waive", "fs.metadata,fs.protect,proc.hidden,proc.contained,ipc.private,terminal,fs.private")
    flags = ["run", "--backend", backend, "--net", "full", *(waived if backend == "landlock" else ())]

    alone = _attempt(root_person, *flags)
    around = _attempt(root_person, *flags, "--read", str(root_person.root))

    assert alone.stdout.startswith(b"alive\nno record"), alone
    assert b"answer: b'j" not in alone.stdout
    if backend == "landlock":  # it cannot hide what lies in a granted path, so nothing runs
        assert (around.returncode, around.stdout) == (3, b"") and b"fs.deny" in around.stderr
    else:
        assert around.stdout.startswith(b"alive\nno record"), around
        assert b"connected" not in around.stdout
        # A run that knows nothing of this runtime directory does not hide it: the session does not serve it.
        unknown = _attempt(root_person, *flags, "--read", str(root_person.root), XDG_RUNTIME_DIR="")
        assert unknown.stdout.startswith(b"alive\nrecord\nconnected\n"), unknown
        assert b"answer: b'j" not in unknown.stdout
    assert not _has_acted(root_person)


def test_the_directory_itself_cannot_be_granted(root_person: Person) -> None:
    root_person.start()

    done = root_person.corral("run", "--read", str(root_person.sessions), "--", "true")

    assert done.returncode == 2 and b"cannot be granted" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as somebody else")
@pytest.mark.parametrize("uid", [OTHER])
def test_another_user_is_not_served_even_if_all_modes_are_open(root_person: Person, uid: int) -> None:
    """The kernel says who has connected. The modes would do; they are opened to see the second wall."""
    root_person.start()
    _attempt(root_person)
    assert _has_acted(root_person), "the control: the user himself is served"
    closed = _attempt(root_person, uid=uid)
    for directory in (root_person.root, root_person.runtime, root_person.sessions, root_person.project):
        directory.chmod(0o777)
    for file in root_person.sessions.iterdir():
        file.chmod(0o666)

    opened = _attempt(root_person, uid=uid)

    assert closed.stdout.startswith(b"alive\nno record: Permission denied\nrefused")
    assert opened.stdout.startswith(b"alive\nrecord\nconnected\n"), opened
    assert b"answer: b'j" not in opened.stdout
    assert not _has_acted(root_person)
    for directory in (root_person.runtime, root_person.sessions):
        directory.chmod(0o700)
    assert b"refused a connection of user %d" % uid in root_person.corral("session", "logs", "s").stdout


def test_whoever_does_not_know_the_token_is_not_served(root_person: Person) -> None:
    root_person.start()

    done = _attempt(root_person, token="0" * 32)

    assert b"connected" in done.stdout and b"answer: b''" in done.stdout
    assert not _has_acted(root_person)


def test_nonsense_on_the_socket_does_no_harm(root_person: Person) -> None:
    root_person.start()
    token = next(
        line.partition("=")[2]
        for line in (root_person.sessions / "s.session").read_text().splitlines()
        if line.startswith("token=")
    )
    envelope = {"v": 1, "token": token}
    packets = [
        *(b"", b"x", b"j", b"m", b"j[]", b"j{", b"j" + b"[" * 20_000, b"j" + b'"' * 32_000),
        *(b"j" + json.dumps(message).encode() for message in _strange(envelope)),
    ]

    for packet in packets:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.connect(str(root_person.sessions / "s.sock"))
            connection.sendmsg([packet])
            connection.shutdown(socket.SHUT_WR)
            connection.recv(65_536)  # an error or the end, but it comes

    assert root_person.corral("session", "exec", "s", "--", "echo", "well").stdout == b"well\n"
    assert "contradicted" not in root_person.corral("session", "logs", "s").stdout.decode()


def _strange(envelope: dict[str, object]) -> list[dict[str, object]]:
    return [
        {**envelope, "op": "exec"},
        {**envelope, "op": "exec", "command": 5},
        {**envelope, "op": "exec", "command": ["true"]},  # and no streams
        {**envelope, "op": "exec", "command": [], "env": {"a": 1}},
        {**envelope, "op": "exec", "command": ["true"], "env": [1], "timeout": "x"},
        {**envelope, "op": "signal", "id": None, "number": "x"},
        {**envelope, "op": "dance"},
        {**envelope, "v": 2, "op": "stop"},
        {"v": 1, "op": "stop"},
    ]
