"""What the keys of `corral top` do, besides moving. Each may take long, and is called in a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from corral.cli.options import OF_A_RUN, OPTIONS
from corral.cli.top.row import COMMAND, RUN, SESSION, clean
from corral.model.errors import CorralError
from corral.sessions.named.client import call, stop
from corral.sessions.named.session_directory import check_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.cli.top.overview import Overview
    from corral.cli.top.row import Row

ALLOW_SECONDS = 60.0
_LEFT_OUT = OF_A_RUN | {"json"}


def own_command(*words: str) -> list[str]:
    """This corral, with these words."""
    return [sys.executable, "-m", "corral", *words]


def start_session(name: str) -> str:
    """Start a session in this directory; returns what to say."""
    words = ["session", "start", *([check_name(name)] if name else [])]
    done = subprocess.run(own_command(*words), capture_output=True, text=True, check=False)
    said = done.stdout if done.returncode == 0 else done.stderr
    return clean(" ".join(said.split())) + (" started" if done.returncode == 0 else "")


def end(row: Row, overview: Overview, *, at_once: bool) -> str:
    """End a session, a command of one, or a run; returns what to say."""
    if row.kind == SESSION:
        stop(row.name)
        return f"{row.name} stopped"
    number = signal.SIGKILL if at_once else signal.SIGTERM
    if row.kind == COMMAND:
        with call(row.session) as connection:
            connection.ask("signal", id=row.key.rpartition(" ")[2], number=number.value)
        return f"{number.name} sent to {row.name}"
    run = overview.find_run(row.key)
    if run is None or not run.send(number):
        return "it is over, or runs in another PID namespace"
    # The sandbox ends when its corral does, however that ends.
    return f"{number.name} sent; press k again to end it at once" if not at_once else "ended"


def allow(row: Row, host: str) -> str:
    """Let a session reach a host for a minute; returns what to say."""
    name = row.session or row.name
    with call(name) as connection:
        connection.ask("allow", host=host, seconds=ALLOW_SECONDS)
    return f"{clean(host)} may be reached from {name} for a minute"


def describe_policy(row: Row) -> list[str]:
    """What a session or a run may do, a line each."""
    if row.kind != RUN:
        with call(row.session or row.name) as connection:
            heard = connection.ask("terms")
        return [clean(str(term)) for term in heard["terms"]]
    return _explain(row)


def _explain(row: Row) -> list[str]:
    """TRUST: the words are those that the user typed; `explain` starts nothing."""
    try:
        with open(f"/proc/{row.pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
    except OSError:
        return ["it is over"]
    options = options_of([os.fsdecode(word) for word in words])
    done = subprocess.run(
        [*own_command("explain", "-v"), *options, "--", "true"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=f"/proc/{row.pid}/cwd",
    )
    return [clean(line) for line in (done.stdout or done.stderr).splitlines()]


def options_of(words: list[str]) -> list[str]:
    """Those options of a `corral run` that say what its command may do."""
    while words and words[0] not in {"run", "try", "shell"}:
        words = words[1:]
    known = {flag: option for option in OPTIONS for flag in option.flags}
    found: list[str] = []
    rest = words[1:]
    while rest and rest[0].startswith("-") and rest[0] not in {"-", "--"}:
        flag = rest.pop(0)
        option = known.get(flag.partition("=")[0])
        if option is None:
            break
        taken = [flag]
        if option.metavar and "=" not in flag and rest:
            taken.append(rest.pop(0))
        if option.name not in {*_LEFT_OUT, "line"}:
            found += taken
    return found


def safely(work: object) -> str:
    """What an action says, its error included."""
    assert callable(work)
    try:
        return str(work())
    except CorralError as error:
        return clean(f"{error.what}: {error.why}; {error.fix}")
    except OSError as problem:
        return clean(str(problem))
