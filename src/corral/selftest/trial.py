"""Trial: run a probe's attack on a stage, once without any sandbox and once confined."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import subprocess
import termios
from contextlib import contextmanager
from functools import partial

from corral.backends.registry import UNCONFINED
from corral.model.errors import PolicyError
from corral.model.plan import StdioMode
from corral.model.record import Record
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from corral.selftest.probe import Language
from corral.selftest.stage import IN_PLACE, StagedHost, staged_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedReader

    from corral.model.feature import Feature
    from corral.selftest.probe import EscapeProbe
    from corral.selftest.stage import Stage

WALL_SECONDS = 20
_BASE_CAPABILITIES = (f"time:limit:{WALL_SECONDS}s",)

#: ORDER: the sentinel first: it proves that the attack began, whatever becomes of it.
_SHELL_PRELUDE = 'echo "$1"; WS=$2 OUT=$3 HOUSE=$4 TOKEN=$5; shift 5; cd "$WS"\n'
_PYTHON_PRELUDE = """\
import ctypes, os, socket, sys, time
print(sys.argv[1], flush=True)
WS, OUT, HOUSE, TOKEN = sys.argv[2:6]
MORE = sys.argv[6:]
os.chdir(WS)
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    return libc.syscall(ctypes.c_long(int(number)), *[
        ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
def prove(text):
    with open(WS + "/proof", "w") as file: file.write(str(text))
def prove_descriptor(number):
    name = f"/proc/self/fd/{number}"
    if number >= 0: prove(os.readlink(name) if os.path.islink(name) else number)
"""


class AttackTrace(Record):
    """What an attack printed, and why it could not be run, if it could not."""

    output: str
    complaint: str  # the last words on stderr, or corral's own error
    refusal: str = ""  # the code of the error by which corral refused to run it


def command_of(probe: EscapeProbe, stage: Stage, script: str) -> tuple[str, ...]:
    """The attack as an argument vector."""
    arguments = (stage.sentinel, stage.workspace, stage.at("out"), stage.at("home"), stage.token)
    if probe.language is Language.SHELL:
        return ("/bin/sh", "-c", _SHELL_PRELUDE + script, "probe", *arguments, *stage.arguments)
    return ("python3", "-c", _PYTHON_PRELUDE + script, *arguments, *stage.arguments)


def missing_program(probe: EscapeProbe) -> str:
    """The interpreter that this host lacks for the attack, or an empty text."""
    return "" if shutil.which(probe.language.value) else probe.language.value


def run_unconfined(probe: EscapeProbe, stage: Stage) -> AttackTrace:
    """The control: the same attack, as any program of the caller."""
    trace = AttackTrace("", "")
    for script in filter(None, (probe.earlier, probe.script)):
        argv = command_of(probe, stage, script)
        if probe.needs_terminal:
            return with_terminal(stage, partial(os.execvpe, argv[0], argv, staged_environment(stage)))
        with open(stage.at(probe.stdin) if probe.stdin else os.devnull, "rb") as stdin:
            trace = _run_plain(argv, stage, stdin)
    return trace


def _run_plain(argv: tuple[str, ...], stage: Stage, stdin: BufferedReader) -> AttackTrace:
    try:
        done = subprocess.run(
            argv,
            cwd=stage.workspace,
            env=staged_environment(stage),
            stdin=stdin,
            capture_output=True,
            timeout=WALL_SECONDS,
            pass_fds=stage.inherited,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return AttackTrace("", f"it did not end within {WALL_SECONDS} seconds")
    return AttackTrace(
        done.stdout.decode("utf-8", "replace"), last_words(done.stderr.decode("utf-8", "replace"))
    )


def run_confined(probe: EscapeProbe, stage: Stage, backend: str, enforces: frozenset[Feature]) -> AttackTrace:
    """The attack under the profile `moderate`. What the backend does not claim is waived, and no more."""
    trace = AttackTrace("", "")
    with _state_directory(stage):
        for script in filter(None, (probe.earlier, probe.script)):
            # Whatever is raised is told, and the host is judged all the same: an error that leaves a
            # planted file behind is an escape, not an excuse.
            try:
                sandbox = _sandbox(probe, stage, backend, enforces)
                trace = _run_in(sandbox, probe, stage, command_of(probe, stage, script))
            except Exception as problem:
                complaint = f"{type(problem).__name__}: {problem}".replace("\n", " ")
                trace = AttackTrace("", complaint, problem.code if isinstance(problem, PolicyError) else "")
    return trace


def _run_in(sandbox: Sandbox, probe: EscapeProbe, stage: Stage, argv: tuple[str, ...]) -> AttackTrace:
    if probe.needs_terminal:
        command = sandbox.read_command(argv, stdio=StdioMode.INHERIT)
        return with_terminal(stage, lambda: sandbox.prepare(command).run())
    if probe.stdin:
        with _own_stdin(stage.at(probe.stdin)):
            result = sandbox.prepare(sandbox.read_command(argv, stdin=None)).run()
    else:
        result = sandbox.run(argv)
    return AttackTrace(result.stdout, last_words(result.stderr) or f"it ended with {result.describe()}")


def _sandbox(probe: EscapeProbe, stage: Stage, backend: str, enforces: frozenset[Feature]) -> Sandbox:
    policy = build_policy(capabilities=(*_BASE_CAPABILITIES, *probe.capabilities))
    host, workspace = StagedHost(stage), stage.workspace
    # What the policy requires does not depend on the backend; this one can always say it.
    planned = Sandbox(policy, backend=UNCONFINED, workspace=workspace, host=host).explain("true").plan
    return Sandbox(
        policy,
        backend=backend,
        workspace=workspace,
        waive=planned.requires - enforces,
        host=host,
        container=IN_PLACE,
    )


@contextmanager
def _own_stdin(path: str) -> Iterator[None]:
    """A file as the stdin of this process and of its children."""
    kept = os.dup(0)
    try:
        with open(path, "rb") as file:
            os.dup2(file.fileno(), 0)
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@contextmanager
def _state_directory(stage: Stage) -> Iterator[None]:
    """Quarantine belongs to the stage, too: a self-test must not fill the user's own."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = stage.at("state")
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


def with_terminal(stage: Stage, action: Callable[[], object]) -> AttackTrace:
    """Do something in a process that has a new controlling terminal; the stage keeps both its ends."""
    ours, theirs = pty.openpty()
    stage.on_leaving(lambda: os.close(ours))
    stage.on_leaving(lambda: os.close(theirs))
    stage.remembered["terminal"] = theirs
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
            os.dup2(theirs, 0)
            os.dup2(write_end, 1)
            os.dup2(write_end, 2)
            action()
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8", errors="replace") as pipe:
        output = pipe.read()
    os.waitpid(pid, 0)
    return AttackTrace(output, last_words(output))


def last_words(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:160] if lines else ""
