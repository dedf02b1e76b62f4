"""A Python that has become a Mac once, and runs command lines of corral in children of itself.

    python -m support.mac_server < requests

Each line of stdin is a request (JSON: program, words, cwd, env, stdin), each line of stdout its answer. A
child has the environment and directory of its request, and nothing of the requests before; what is saved is
the start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from support.mac_python import become_mac, run_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class MacServer:
    """The other end of it."""

    def __init__(self, tests: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.mac_server"],
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": tests},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, **request: Any) -> subprocess.CompletedProcess[str]:
        """One command line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status, out, errors = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(request["words"], status, out, errors)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()  # type: ignore[union-attr]


def main() -> None:
    """Serve until stdin ends."""
    if sys.platform != "darwin":
        become_mac()
    import corral.cli.run
    import corral.runtime.run
    import corral.sandbox  # noqa: F401 - what every command line needs

    for line in sys.stdin:
        request = json.loads(line)
        streams = [_file(request["stdin"]), _file(""), _file("")]
        child = os.fork()
        if child == 0:
            _be(request, streams)
        _, status = os.waitpid(child, 0)
        answer = (os.waitstatus_to_exitcode(status), *map(_text, streams[1:]))
        for stream in streams:
            os.close(stream)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _file(text: str) -> int:
    handle, path = tempfile.mkstemp()
    os.unlink(path)
    os.write(handle, text.encode())
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _text(handle: int) -> str:
    return os.pread(handle, 1 << 24, 0).decode()


def _be(request: dict[str, Any], streams: list[int]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        run_module(request["program"], "corral", request["words"])
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
