"""Daemon: start the process of a named session, apart from whoever asked, and hear whether it stands."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time

from corral.model.errors import CorralError, SetupError
from corral.sessions.named.frames import decode_error, encode_error
from corral.sessions.named.keeper import Keeper
from corral.sessions.named.log import Log
from corral.sessions.named.record import FAILED, STARTING, SessionRecord, birth, find_entry, write_entry
from corral.sessions.named.session_directory import SOCKET, make_session_directory
from corral.sessions.named.terms import terms_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import NoReturn

    from corral.sandbox import Sandbox
    from corral.sessions.named.keeper import Describe
    from corral.sessions.named.session_directory import SessionDirectory
    from corral.sessions.trial import Trial

_MOST_REPORT_BYTES = 1024 * 1024


def start(entry: SessionRecord, sandbox: Sandbox, describe: Describe, trial: Trial | None = None) -> None:
    """Start a session and wait until it stands. Raises CorralError, its own if it could not be made.

    `trial` is what the sandbox works on: the session has it for itself as long as it lasts.
    """
    found = find_entry(entry.name)
    if found is not None and found[1].is_living:
        raise _is_taken(found[1])
    place = make_session_directory()
    lock = place.lock(entry.name)
    if lock < 0:
        raise _is_taken(entry)
    try:
        place.remove(f"{entry.name}{SOCKET}")
        ours, theirs = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()

        def keep() -> None:
            with _holding(trial):
                _keep(place, theirs, entry, sandbox, describe)

        child = os.fork()
        if child == 0:
            _detach((place.handle, lock, theirs), keep)
    except OSError as problem:
        raise _not_started(problem.strerror or str(problem)) from problem
    finally:
        os.close(lock)  # the other process has it as well, and keeps it
    os.close(theirs)
    os.waitpid(child, 0)
    with open(ours, "rb") as file:
        report = file.read(_MOST_REPORT_BYTES)
    if not report:
        raise _not_started("its process ended without a word")
    message = json.loads(report)
    if message:
        raise decode_error(message)


def _detach(kept: tuple[int, ...], work: Callable[[], None]) -> NoReturn:
    """In the child: nothing of the caller's stays open but what is named. Never returns."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.set_wakeup_fd(-1)
        for name in ("SIGHUP", "SIGINT", "SIGTERM", "SIGTSTP", "SIGWINCH", "SIGUSR1", "SIGUSR2"):
            signal.signal(getattr(signal, name), signal.SIG_IGN if name == "SIGHUP" else signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.chdir("/")
        _close_others(kept)
        gc.enable()
        work()
    except BaseException:
        os._exit(70)
    os._exit(0)


@contextlib.contextmanager
def _holding(trial: Trial | None) -> Iterator[None]:
    """Have a trial for the session alone. One in which nothing was changed goes with it."""
    if trial is None:
        yield
        return
    with trial.hold():
        yield
    if not trial.changes() and not trial.git_changes():
        trial.discard()


def _keep(
    place: SessionDirectory, report: int, entry: SessionRecord, sandbox: Sandbox, describe: Describe
) -> None:
    log = Log(place, entry.name)
    own = entry.replace(state=STARTING, pid=os.getpid(), born=birth(os.getpid()), began=time.time())
    try:
        log.open()
        write_entry(place, own)
        keeper = Keeper(place, own, sandbox, log, describe, terms=terms_of(own, sandbox))
        keeper.start()
    except CorralError as error:
        log.note(f"not started: {error.what}: {error.why}")
        os.write(report, json.dumps(encode_error(error)).encode())
        return
    except Exception as problem:
        write_entry(place, own.replace(state=FAILED, reason=str(problem), ended=time.time()))
        bug = _not_started(f"{type(problem).__name__}: {problem}")
        os.write(report, json.dumps(encode_error(bug)).encode())
        return
    try:
        os.write(report, b"{}")
    except BrokenPipeError:
        keeper.stop("the process that started it did not wait")
    os.close(report)
    keeper.serve()


def _close_others(kept: Iterable[int]) -> None:
    """Close what the caller had open, but for stdio and these."""
    first = 3
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20)
    for descriptor in (*sorted(kept), most):
        if first < descriptor:  # an empty range from 0 would close everything
            os.closerange(first, descriptor)
        first = descriptor + 1


def _is_taken(entry: SessionRecord) -> SetupError:
    where = f"in {entry.workspace}, process {entry.pid}" if entry.pid else "another process is starting it"
    return SetupError(
        "session-exists",
        f"there is a session {entry.name} already",
        why=where,
        fix=f"use it, stop it with `corral session stop {entry.name}`, or choose another name",
    )


def _not_started(why: str) -> SetupError:
    return SetupError(
        "session-start",
        "the session could not be started",
        why=why,
        fix="try again; `corral session logs` shows its log",
    )
