"""What the tests of executors have run in sandboxed workers: some of it honest, most of it not."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path


def add(a, b=0):
    return a + b


def give_back(*args, **kwargs):
    return args, kwargs


def read_text(path):
    return Path(path).read_text()


def surroundings():
    return {
        "argv": sys.argv,
        "module": __name__,
        "prefix": sys.prefix,
        "version": list(sys.version_info[:3]),
        "stdin": sys.stdin.read(),
        "writes bytecode": not sys.dont_write_bytecode,
    }


def print_garbage():
    print("from print")
    sys.stderr.write("from stderr\n")
    os.write(1, b"from descriptor 1\n")
    subprocess.run(["/bin/sh", "-c", "echo from a child; echo and its stderr >&2"], check=True)
    print("unfinished", end="")
    return "the result"


class Sneaky:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def sneak(mark):
    return [Sneaky(mark)]


def raise_it(text):
    class LocalError(Exception):
        pass

    raise LocalError(text)


def raise_undescribable():
    class Undescribable(Exception):
        def __str__(self):
            raise RuntimeError("no")

    raise Undescribable


def leave(code):
    sys.exit(code)


def vanish(code):
    os._exit(code)


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def _channel():
    """The descriptor of the answer: a pipe that is neither stdin, stdout nor stderr."""
    for number in range(3, 64):
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                return number
        except OSError:
            continue
    raise AssertionError("there is no channel")


def say(data):
    """Write to the answer's channel, and end before the worker can answer."""
    os.write(_channel(), data)
    os._exit(0)


def say_without_end():
    channel = _channel()
    while True:
        os.write(channel, b"x" * 65_536)


def say_before_answering(data):
    os.write(_channel(), data)
    return "honest"


def print_without_end():
    while True:
        os.write(1, b"x" * 65_536)


def return_twice():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    return "both"


def leave_a_thread():
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return "done"


def hold(gate, mark):
    """Take hold of a gate, with a child that does too, say so by a file, and stay."""
    os.open(gate, os.O_WRONLY)
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
    Path(mark).touch()
    while True:
        time.sleep(3600)


def huge(size):
    return b"x" * size


def many(count):
    return [None] * count
