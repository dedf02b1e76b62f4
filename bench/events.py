"""What it costs that refusals are told, and how soon they are on the terminal.

    python bench/events.py [ROUNDS]

With and without the filter's listener in turns. Costs are processor time of everything that a run starts, as
medians of ratios; a call that is refused is timed inside, and what is seen on a terminal by the clock that
both sides share.
"""

from __future__ import annotations

import os
import pty
import statistics
import sys
import tempfile
import time

from corral.pipeline import planner
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.session import Session

_PYTHON = "/usr/bin/python3"
#: Processes, files and output, and nothing that is refused.
_WORK = "i=0; while [ $i -lt 300 ]; do /bin/true; echo $i > f$i; cat f$i >/dev/null; i=$((i+1)); done; rm f*"
_DENIALS = """
import ctypes, time
libc, taken = ctypes.CDLL(None), []
for _ in range(3000):
    began = time.perf_counter()
    libc.unshare(0x10000000)
    taken.append(time.perf_counter() - began)
print(sorted(taken)[len(taken) // 2] * 1e6)
"""
#: What is tried, after the time is printed; and a part of the line that corral has to say about it.
_ATTEMPTS = {
    "a system call": ("ctypes.CDLL(None).unshare(0x10000000)", b"syscalls: unshare"),
    "a lookup": ("socket.getaddrinfo('refused.example.com', 80)", b"refused.example.com: "),
    "a guess": ("os.write(2, b'x: /usr/x: Read-only file system\\n')", b"(guessed from"),
}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as work:
        sandbox = Sandbox("moderate", backend="native", workspace=work)
        ratios, told, silent = [], [], []
        for _ in range(rounds):
            with_listener, without = (_spent(sandbox, listens) for listens in (True, False))
            ratios.append(with_listener / without)
            told.append(_denial(sandbox, listens=True))
            silent.append(_denial(sandbox, listens=False))
        print(f"a workload without refusals: {_percent(ratios)} of processor time more")
        print(
            f"a refused system call: {statistics.median(told):.1f} us, without a listener"
            f" {statistics.median(silent):.1f} us"
        )
        print(f"a command of a session: {_percent(_session_ratios(sandbox))} longer by the clock")
        for name, (attempt, sign) in _ATTEMPTS.items():
            waits = [_seen_after(work, attempt, sign) for _ in range(rounds)]
            middle, worst = statistics.median(waits) * 1000, max(waits) * 1000
            print(f"{name} on the terminal: {middle:.0f} ms after the attempt, at most {worst:.0f} ms")


def _percent(ratios: list[float]) -> str:
    low, middle, high = ((ratio - 1) * 100 for ratio in statistics.quantiles(ratios, n=4))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f} in the middle half)"


def _spent(sandbox: Sandbox, listens: bool) -> float:
    before = os.times()
    _run(sandbox, ("/bin/sh", "-c", _WORK), listens)
    after = os.times()
    return (after.children_user + after.children_system) - (before.children_user + before.children_system)


def _session_ratios(sandbox: Sandbox) -> list[float]:
    """Of fifty commands in each of two sessions that take turns, forty times."""
    kept = planner.can_listen
    with sandbox.session() as told:
        planner.can_listen = lambda _: False
        try:
            silent = sandbox.session()
        finally:
            planner.can_listen = kept
        with silent:
            return [_median_of(told) / _median_of(silent) for _ in range(40)]


def _median_of(session: Session) -> float:
    taken = []
    for _ in range(50):
        began = time.perf_counter()
        session.run(["/bin/true"])
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _denial(sandbox: Sandbox, *, listens: bool) -> float:
    return float(_run(sandbox, (_PYTHON, "-c", _DENIALS), listens))


def _run(sandbox: Sandbox, command: tuple[str, ...], listens: bool) -> str:
    kept = planner.can_listen
    planner.can_listen = kept if listens else lambda _: False
    try:
        return sandbox.run(command).check().stdout
    finally:
        planner.can_listen = kept


def _seen_after(work: str, attempt: str, sign: bytes) -> float:
    """The seconds between an attempt and corral's line on a terminal."""
    script = f"import ctypes, os, socket, time; print('at', time.monotonic(), flush=True); {attempt}"
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(work)
        words = [sys.executable, "-m", "corral", "run", "--backend", "native", "--", _PYTHON, "-c"]
        os.execv(sys.executable, [*words, f"{script}; time.sleep(0.3)"])
    seen, found = b"", 0.0
    while True:
        try:
            piece = os.read(screen, 65536)
        except OSError:
            break
        now = time.monotonic()
        seen += piece
        if not found and sign in seen:
            found = now
    os.close(screen)
    os.waitpid(pid, 0)
    began = float(seen.partition(b"at ")[2].split()[0])
    if not found:
        raise SystemExit(f"nothing was said: {seen!r}")
    return found - began


if __name__ == "__main__":
    main()
