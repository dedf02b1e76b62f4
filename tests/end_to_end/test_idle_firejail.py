"""A firejail that makes no sandbox and says nothing: what it was told to do is looked for, and nothing runs.

That is what firejail does where it takes itself to be in a sandbox already.
"""

from __future__ import annotations

import stat

import pytest

from corral.backends.firejail import FirejailBackend
from corral.host.real import RealHost
from corral.model.errors import SetupError
from corral.runtime.launcher.outer import OuterHandshake
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

# Passes its own options over and becomes the program.
_IDLE = """#!/bin/sh
[ "$1" = --version ] && { echo firejail version 0.9.72; exit; }
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"""


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin/firejail"
    program.parent.mkdir()
    program.write_text(_IDLE)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return program


def test_the_probe_finds_that_it_does_nothing(idle: Path) -> None:
    if RealHost().landlock_abi() < 3:
        pytest.skip("without Landlock the backend is not tried at all")

    probe = FirejailBackend().probe(RealHost())

    assert not probe.available
    assert "phase expect failed" in probe.reason


def test_a_run_finds_it_as_well_and_nothing_runs(
    idle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it worked when it was probed, and does not any more."""
    if RealHost().landlock_abi() < 3:
        pytest.skip("without Landlock the backend is not tried at all")
    work = tmp_path / "work"
    work.mkdir()
    host = RealHost()
    backend = FirejailBackend()
    believed = backend._found(host, str(idle), "0.9.72", host.landlock_abi())
    monkeypatch.setattr(FirejailBackend, "probe", lambda *_: believed)
    met = []
    monkeypatch.setattr(OuterHandshake, "hold", _noting(met, OuterHandshake.hold))

    with pytest.raises(SetupError) as caught:
        Sandbox(workspace=str(work), backend="firejail", waive=["fs.metadata"]).run(["touch", "ran"])

    assert met, "the launcher was never there"
    assert caught.value.code == "expect"
    assert not caught.value.ran
    assert not (work / "ran").exists()


def _noting(met: list[bool], hold):
    def noted(self: OuterHandshake, *arguments):
        process = hold(self, *arguments)
        met.append(True)
        return process

    return noted
