"""`corral ARGUMENTS` as a process of its own, forked from one that has imported corral and done nothing else.

To start Python and to import takes longer than most commands do. What a process has of its own it has here as
well: arguments, variables, working directory, streams, exit status. Whoever looks at the process itself, or
sends it signals, starts `python -m corral`.

As a program it is the one that forks: for each request it is sent arguments, a directory, variables, and four
descriptors, of which the last is for its process number and its status.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_BYTES = 1 << 20  # of a request
_OF_EXTRAS = ("corral.integrations.", "corral.cli.top.", "corral.cli.mcp.serve")
_AT_START = ("PYTHON", "LC_", "LANG")  # variables that only a new interpreter heeds


class WarmCorral:
    """Starts the one that forks when it is first needed."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._variables: dict[str, str] = {}

    def run(
        self, arguments: tuple[str, ...], stdin: bytes, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """As subprocess.run does with `input` and `capture_output`."""
        if self._socket is None:
            self._start()
        if _at_start(env) != self._variables:
            return subprocess.run(
                [sys.executable, "-m", "corral", *arguments],
                input=stdin,
                capture_output=True,
                cwd=cwd,
                env=dict(env),
                timeout=timeout,
                check=False,
            )
        pipes = [os.pipe() for _ in range(4)]
        (given, write), *read = pipes
        request = json.dumps([arguments, str(cwd), dict(env)]).encode()
        assert self._socket is not None
        socket.send_fds(self._socket, [request], [given, *(end for _, end in read)])
        for descriptor in (given, *(end for _, end in read)):
            os.close(descriptor)
        stdout, stderr, told = _exchange(write, stdin, [end for end, _ in read], timeout)
        if not told:
            assert self._process is not None
            raise RuntimeError(f"the one that forks is gone: {self._process.communicate()}")
        return subprocess.CompletedProcess(["corral", *arguments], int(told.split()[1]), stdout, stderr)

    def _start(self) -> None:
        self._variables = _at_start(os.environ)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # streams of the kind that children have
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    def close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.communicate()


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START)}


def _exchange(write: int, stdin: bytes, ends: list[int], timeout: float) -> Iterator[bytes]:
    """What came out of each end, when nobody holds the other one any more."""
    deadline = time.monotonic() + timeout
    came = {end: bytearray() for end in ends}
    os.set_blocking(write, False)
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        selector.register(write, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready and time.monotonic() > deadline:
                os.kill(int(came[ends[2]].split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired("corral", timeout, bytes(came[ends[0]]), bytes(came[ends[1]]))
            for key, _ in ready:
                if key.fd == write:
                    try:
                        stdin = stdin[os.write(write, stdin) :] if stdin else b""
                    except BrokenPipeError:
                        stdin = b""
                    is_over = not stdin
                else:
                    data = os.read(key.fd, 1 << 16)
                    came[key.fd] += data
                    is_over = not data
                if is_over:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return (bytes(came[end]) for end in ends)


def _fork_for_ever(requests: socket.socket) -> None:
    """Returns in a child that is to be `corral`, and never in the one that forks."""
    import corral

    for module in pkgutil.walk_packages(corral.__path__, "corral."):
        # What needs a package of an extra takes long, and is imported when it is used.
        if not module.name.endswith("__main__") and not module.name.startswith(_OF_EXTRAS):
            importlib.import_module(module.name)
    gc.freeze()  # so that no child looks through all that for garbage when it ends
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _MOST_BYTES, 4)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            if (child := os.fork()) == 0:
                os.close(descriptors.pop())
                return _become(request, descriptors)
            for descriptor in descriptors[:3]:
                os.close(descriptor)
            os.write(descriptors[3], f"{child} ".encode())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.write(descriptors[3], str(status).encode())
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become(request: bytes, descriptors: list[int]) -> None:
    arguments, cwd, variables = json.loads(request)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[0] = cwd
    sys.argv = ["corral", *arguments]


if __name__ == "__main__":
    _fork_for_ever(socket.socket(fileno=int(sys.argv[1])))
    from corral.cli.main import main

    main()
