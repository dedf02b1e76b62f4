"""The commands of a test start with default signals, even if the tests were started with some ignored."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.dispositions import OF_PYTHON

HERE = Path(__file__).resolve().parent
_SHOW = "print(*[line for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn'))])"
_START = f"""
import signal, subprocess, sys
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
if sys.argv[1:] == ["put back"]:
    from support.dispositions import put_back_signals
    put_back_signals()
    signal.raise_signal(signal.SIGHUP)
subprocess.run([sys.executable, "-I", "-S", "-c", {_SHOW!r}], check=False)
"""


def _shown(*line: str) -> str:
    ran = subprocess.run(
        [sys.executable, *line], cwd=HERE.parent, check=True, stdout=subprocess.PIPE, text=True
    )
    return ran.stdout


def _signals(shown: str, which: str) -> set[int]:
    """Those in one line; the C library keeps two for itself, which nobody can put back."""
    mask = int(shown.partition(f"{which}:")[2].split()[0], 16)
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


@pytest.fixture
def plain() -> str:
    """A Python of its own, from here."""
    return _shown("-I", "-S", "-c", _SHOW)


def test_nothing_is_ignored_or_blocked_by_what_a_test_starts(plain: str) -> None:
    assert _signals(plain, "SigBlk") == set()
    assert _signals(plain, "SigIgn") == OF_PYTHON


def test_what_was_ignored_and_blocked_is_put_back(plain: str) -> None:
    assert _shown("-c", _START) != plain
    assert _shown("-c", _START, "put back") == plain
