"""Fixtures: `corral image` with tools of the test's own, and nothing of the machine's engines."""

from __future__ import annotations

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support import scripted_engine
from support.images import link_programs

FILES = {
    "usr/bin/bash": (b"#!", 0o755),
    "etc/passwd": (b"root:*:0:0:root:/root:/bin/bash\n", 0o644),
    "usr/share/corral/manifest": (b"bash 5.2 amd64\n", 0o644),
}


class Workshop:
    """A PATH, a TMPDIR and a working directory; and scripts in the place of mmdebstrap and the engines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs, self.temporary, self.here = folder / "bin", folder / "tmp", folder / "here"
        link_programs(self.programs, "sh", "cat", "sleep", "unshare", "mount", "true")
        self.temporary.mkdir()
        self.here.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """What corral gets to know."""
        return {
            "PATH": str(self.programs),
            "TMPDIR": str(self.temporary),
            "HOME": str(self.folder),
            "CORRAL_CONFIG": "",
        }

    def script(self, name: str, text: str) -> None:
        """Put a program on the PATH."""
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    def mmdebstrap(self, before: str = "", **files: tuple[bytes, int]) -> None:
        """One that does something, and then writes an archive to its second argument after `--`."""
        archive = self.folder / "root.tar"
        with tarfile.open(archive, "w") as tar:
            for path, (data, mode) in {**FILES, **files}.items():
                member = tarfile.TarInfo(f"./{path}")
                member.size, member.mode = len(data), mode
                tar.addfile(member, io.BytesIO(data))
        find = 'cat >/dev/null\nwhile [ "$1" != -- ]; do shift; done'
        self.script("mmdebstrap", f'{find}\n{before}\ncat {archive} >"$3"')

    def engine(self, name: str, **state: object) -> None:
        """An engine that pretends; `images` reads what it has."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"images": {}, **state}))
        line = [sys.executable, scripted_engine.__file__, str(path), name]
        self.script(name, f'exec {shlex.join(line)} "$@"')

    def images(self, name: str) -> dict[str, dict[str, object]]:
        """identity -> names and labels."""
        return json.loads((self.folder / f"{name}.json").read_text())["images"]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """`corral image ARGUMENTS`, not waited for."""
        return subprocess.Popen(
            [sys.executable, "-m", "corral", "image", *arguments],
            cwd=self.here,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`corral image ARGUMENTS`, to its end."""
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def run_until(self, fifo: Path, number: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same, with a signal as soon as the FIFO says so; afterwards nobody may hold it any more."""
        process = self.start(*arguments)
        with open(fifo) as said:
            assert said.readline() == "begun\n"
            os.kill(process.pid, number)
            output, errors = process.communicate(timeout=60)
            assert said.read() == ""
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def left(self) -> list[str]:
        """What lies about where there was nothing."""
        return [str(path) for place in (self.temporary, self.here) for path in place.iterdir()]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def ending(request: pytest.FixtureRequest) -> int:
    """A signal that asks to end."""
    return int(request.param)
