"""What is remembered of a probe: believed only while all that it depends on is the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.backends.registry import BUILTIN, get_backend
from corral.host.probes import forget, probe_remembered
from corral.host.real import RealHost
from corral.model.feature import Feature
from corral.model.probe import Dependence, Probe
from support.fake_host import FakeHost


class Asked:
    """A backend that depends on a program and a variable, and counts how often it was asked."""

    name = "asked"
    depends = Dependence(programs=("corral-test-tool",), variables=("CORRAL_TEST_HOST",))

    def __init__(self) -> None:
        self.times = 0
        self.available = True

    def probe(self, host: object) -> Probe:
        self.times += 1
        return Probe(self.name, self.available, frozenset({Feature.FS_READ}), version="1")

    def lower(self, plan, probe):
        raise AssertionError("nobody runs it")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program on the PATH; the state is kept in a directory of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}:{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("CORRAL_TEST_HOST", raising=False)
    path = tmp_path / "bin" / "corral-test-tool"
    make(path, "one")
    return path


def make(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {text}\n")
    path.chmod(0o755)


def ask(backend: Asked) -> Probe:
    return probe_remembered(backend, RealHost())


def test_an_answer_is_asked_for_once(tool: Path) -> None:
    backend = Asked()

    assert ask(backend) == ask(backend)
    assert backend.times == 1


def test_another_program_is_asked_about_anew(tool: Path) -> None:
    backend = Asked()
    ask(backend)
    make(tool.with_name("new"), "another one")
    tool.with_name("new").rename(tool)

    ask(backend)
    assert backend.times == 2


def test_a_program_that_is_gone_or_found_elsewhere_is_asked_about_anew(tool: Path) -> None:
    backend = Asked()
    ask(backend)
    make(tool.parents[1] / "first" / tool.name, "one")
    ask(backend)
    assert backend.times == 2

    (tool.parents[1] / "first" / tool.name).unlink()
    tool.unlink()
    ask(backend)
    assert backend.times == 3


def test_a_variable_with_another_value_is_asked_about_anew(tool: Path, monkeypatch) -> None:
    backend = Asked()
    for value in ("tcp://a", "tcp://a\nb", ""):
        monkeypatch.setenv("CORRAL_TEST_HOST", value)
        ask(backend)
        ask(backend)

    assert backend.times == 3


def test_the_value_of_a_variable_is_not_written_down(tool: Path, monkeypatch) -> None:
    monkeypatch.setenv("CORRAL_TEST_HOST", "tcp://user:secret@host")
    ask(Asked())
    kept = (tool.parents[1] / "state" / "corral" / "probe-asked").read_text()

    assert "secret" not in kept


def test_that_it_does_not_work_is_not_remembered(tool: Path) -> None:
    backend = Asked()
    backend.available = False
    ask(backend)
    backend.available = True

    assert ask(backend).available
    assert backend.times == 2


def test_what_was_forgotten_is_asked_again(tool: Path) -> None:
    backend = Asked()
    ask(backend)
    forget(backend.name)
    ask(backend)

    assert backend.times == 2


class Bounded(RealHost):
    """A host whose caller has another hard limit of open files each time."""

    def __init__(self, open_files: int) -> None:
        super().__init__()
        self._line = f"{'Max open files':<26}{1024:<21}{open_files:<21}files"

    def read_text(self, path: str, limit_bytes: int) -> str:
        return self._line if path == "/proc/self/limits" else super().read_text(path, limit_bytes)


def test_a_backend_that_depends_on_hard_limits_is_asked_anew_with_others(tool: Path, monkeypatch) -> None:
    backend = Asked()
    monkeypatch.setattr(backend, "depends", Dependence(hard_limits=True), raising=False)
    for open_files in (4096, 4096, 20_000):
        probe_remembered(backend, Bounded(open_files))

    assert backend.times == 2


class Seeking(FakeHost):
    """A host that has every program, and notes which were looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.sought: set[str] = set()

    def which(self, name: str) -> str:
        self.sought.add(name)
        return f"/usr/bin/{name}"


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_backend_says_which_programs_its_answer_depends_on(name: str, platform: str) -> None:
    """Otherwise its answer would outlive the program: say `depends = Dependence(programs=(...))`."""
    backend, host = get_backend(name), Seeking()
    host.platform = platform
    backend.probe(host)

    assert host.sought <= set(getattr(backend, "depends", Dependence()).programs)
