"""Corral inside a container: `doctor` names one flag after the other, and with them `native` works."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

import corral
from support.engines import IMAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.engines import Engine

_PROGRAM = """
from corral.backends.native import NativeBackend
from corral.host.real import RealHost

probe = NativeBackend().probe(RealHost())
print(probe.fix or "works")
"""
#: What the interpreter needs of this machine, at the same paths.
_TREES = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    sys.prefix,
    sys.base_prefix,
    Path(corral.__file__).parent,
)


@pytest.mark.parametrize("user", ["0", "1000"])
def test_the_flags_that_doctor_names_let_native_work_inside(engine: Engine, user: str) -> None:
    places = dict.fromkeys(str(tree) for tree in _TREES if os.path.isdir(tree))
    binds = [f"--volume={os.path.realpath(place)}:{place}:ro" for place in places]
    flags: list[str] = []
    for _ in range(4):
        line = [*engine._run_options([]), *binds, "--user", user, "--env", "HOME=/tmp", *flags, IMAGE]
        said = engine._check(["run", "--rm", *line, sys.executable, "-c", _PROGRAM]).strip()
        if said == "works":
            break
        named = re.search(rf"`{engine.name} run ([^`]*)`", said)
        assert named, said
        assert named[1] not in " ".join(flags), said
        flags += shlex.split(named[1])

    assert said == "works"
    assert flags  # without any it does not: else nothing was named
