"""What a stored plan holds is what the policy says: judged on the host, with an unconfined control."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

#: Each tries to do harm at {place}; {port} and {pid} are a server and a process of the host's.
_ATTEMPTS = {
    "writes outside": "echo harm > {place}/outside",
    "reads a secret": "cat {place}/secret > taken",
    "reaches a server": "python3 -c 'import socket as s; s.create_connection((\"127.1\", {port}))'",
    "signals a process of the host's": "kill -KILL {pid}",
}


class _Target:
    """What the harm would be done to."""

    def __init__(self, entry) -> None:
        self.place, self._workspace = entry.home.parent, entry.workspace
        (self.place / "secret").write_text("secret\n")
        self._victim = subprocess.Popen(["sleep", "100"])
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.2)
        self.values = {
            "place": self.place,
            "port": self._server.getsockname()[1],
            "pid": self._victim.pid,
        }

    def is_harmed(self) -> bool:
        try:
            self._server.accept()[0].close()
        except TimeoutError:
            pass
        else:
            return True
        taken = self._workspace / "taken"
        has_written = (self.place / "outside").exists()
        return (
            self._victim.poll() is not None
            or has_written
            or (taken.exists() and taken.read_text() == "secret\n")
        )

    def close(self) -> None:
        self._victim.kill()
        self._victim.wait()
        self._server.close()


def test_the_index_of_a_repository_around_is_heeded(entry) -> None:
    """`git rm` in there would follow a link that stands where the index has a directory."""
    around, entry.workspace = entry.workspace, entry.workspace / "inner"
    (entry.workspace / "d").mkdir(parents=True)
    (entry.workspace / "d/x").write_text("x\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        entry.git(*words, where=around)
    for _ in range(2):  # as a plan is stored and used, where there is none around
        entry.run("--", "true")

    _, _, out, _ = entry.run("-c", "mv d e; ln -s /etc d; echo alive")

    assert out == "alive\n"
    assert not (entry.workspace / "d").is_symlink()


@pytest.fixture
def target(warm):
    made = _Target(warm)
    yield made
    made.close()


@pytest.mark.parametrize("name", [*_ATTEMPTS])
def test_without_python_it_does_no_harm(warm, target, name) -> None:
    line = _ATTEMPTS[name].format(**target.values)

    way, _, out, _ = warm.run("-c", f"echo alive; {line}")
    assert way in {"native", "continued"}
    assert out.startswith("alive")
    assert not target.is_harmed()
    subprocess.run(["sh", "-c", line], cwd=warm.workspace, check=False, timeout=30)
    assert target.is_harmed(), "the control: unconfined it does"


def test_nothing_outlives_the_run(warm) -> None:
    """The pipe that a left process holds is at its end as soon as the run is."""
    way, status, out, _ = warm.run(
        "-c", "echo alive; (trap '' HUP TERM; while :; do sleep 1; done) & sleep 0.1"
    )

    assert (way, status, out) == ("native", 0, "alive\n")


def _count_in_memory(pid: int, text: bytes) -> int:
    count = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, rights = line.split()[:2]
        start, end = (int(number, 16) for number in place.split("-"))
        if "r" in rights and "[v" not in line:
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                memory.seek(start)
                count += memory.read(end - start).count(text)
    return count


def _descendants(pid: int) -> list[int]:
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [one for child in children for one in (child, *_descendants(child))]


def test_no_process_of_the_sandbox_has_the_callers_variables(warm) -> None:
    secret = "a-token-of-" + "the-caller"
    env = warm.environment(TOKEN=secret, ZZ=secret)  # the last of all is digested in a place of its own
    warm.warm_up(env=env)
    before = warm.calls()

    process = warm.start("run", "-c", "echo ready; sleep 30", env=env)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        assert _count_in_memory(process.pid, secret.encode()) > 0, "the control: the entry program has them"
        found = {pid: _count_in_memory(pid, secret.encode()) for pid in _descendants(process.pid)}
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert "run" not in warm.calls()[len(before) :], "it is the entry program that ran it"
    assert len(found) >= 3
    assert set(found.values()) == {0}


#: Each is an index that is plain as the entry program reads it, and leads git to a hook.
_TWOFOLD = """
import hashlib, struct, subprocess
u32, length, path = struct.Struct(">I").pack, struct.Struct(">H").pack, b".git/hooks/post-checkout"
blob = bytes.fromhex(subprocess.check_output(["git", "hash-object", "-w", "--stdin"], input="", text=True))
def entry(path, blob, mode=0o100755, start=b""):
    whole = start.ljust(24, b"\\0") + u32(mode) + bytes(12) + blob + length(len(path)) + path
    return whole + bytes(8 - len(whole) % 8)
def write(data, end):
    open(".git/index", "wb").write(data + end(data).digest())
"""
_FROM_ITS_END = """
seen = b"DIRC" + u32(2) + u32(1) + entry(b"file", blob)
hidden = entry(path, blob)
offsets = b"IEOT" + u32(12) + u32(1) + u32(len(seen) + 8) + u32(1)
end = b"EOIE" + u32(24) + u32(len(seen) + 8 + len(hidden)) + hashlib.sha1(offsets[:8]).digest()
inside = hidden + offsets + end
write(seen + b"TREE" + u32(len(inside)) + inside, hashlib.sha1)
"""
_WITH_LONGER_NAMES = """
plain = entry(b"a", bytes(20), 0o100644)
data = bytearray(b"DIRC" + u32(2) + u32(3) + plain * 3)
for at, text in ((84, length(6) + b".aaaaa"), (124, u32(0o100644)), (172, length(24) + b"." + b"b" * 23)):
    data[at : at + len(text)] = text
write(bytes(data) + entry(path, blob, start=b"TREE" + u32(108)), hashlib.sha256)
"""


@pytest.mark.parametrize(
    ("options", "index"), [((), _FROM_ITS_END), (("--object-format=sha256",), _WITH_LONGER_NAMES)]
)
def test_an_index_that_git_reads_otherwise_is_not_left(entry, options, index) -> None:
    """With several threads git reads from the end of an index; and names of objects have two lengths."""
    hook = entry.workspace / ".git/hooks/post-checkout"
    entry.git("init", "-q", "--template=", *options)
    entry.git("config", "index.threads", "4")
    entry.run("--", "true")
    assert entry.run("--", "true")[:2] == ("python" if options else "native", 0)

    assert entry.run("--", "python3", "-c", _TWOFOLD + index)[1] == 0
    _write_all_files(entry)
    assert not hook.exists()
    subprocess.run(["python3", "-c", _TWOFOLD + index], cwd=entry.workspace, check=True)
    _write_all_files(entry)
    assert hook.exists(), "the control: unconfined it is written"


def _write_all_files(entry) -> None:
    subprocess.run(
        ["git", "checkout-index", "-qaf"], cwd=entry.workspace, env=entry.environment(), check=False
    )
