"""`corral doctor`: the matrix fits where it is printed, and nothing that hangs hangs it."""

from __future__ import annotations

import json
import threading

import pytest

from corral.cli import doctor
from corral.cli.doctor import examine
from corral.cli.matrix import render_matrix
from corral.model.feature import Feature
from corral.model.probe import Probe
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

ALL = frozenset(Feature)
NAMES = ("native", "landlock", "bubblewrap", "firejail", "podman", "docker", "seatbelt", "lima")


class Told:
    """A backend with one answer."""

    def __init__(self, answer: Probe) -> None:
        self.name = answer.backend
        self._answer = answer

    def probe(self, host: object) -> Probe:
        return self._answer


class Hanging:
    """A backend whose daemon never answers."""

    name = "docker"

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def probe(self, host: object) -> Probe:
        self._released.wait()
        return Probe(self.name, True)


class Broken:
    name = "docker"

    def probe(self, host: object) -> Probe:
        raise RuntimeError("it should never raise")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch):
    def register(*backends) -> None:
        known = {backend.name: backend for backend in backends}
        monkeypatch.setattr(doctor, "RealHost", FakeHost)
        monkeypatch.setattr(doctor, "BUILTIN", known)
        monkeypatch.setattr(doctor, "get_backend", known.__getitem__)

    return register


def probes(*names: str) -> list[Probe]:
    near = ((Feature.FS_DENY, "almost"),)
    return [Probe(name, True, ALL - {Feature.FS_DENY}, version="1.0", approximates=near) for name in names]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_the_matrix_fits_and_has_every_feature_of_every_backend(width: int, count: int) -> None:
    lines = list(render_matrix(probes(*NAMES[:count]), width))
    heads = [line for line in lines if line.startswith(" ")]

    assert max(map(len, lines)) <= width
    assert " ".join(heads).split() == list(NAMES[:count])
    for feature in Feature:
        rows = [line for line in lines if line.split(" ")[0] == feature.value]
        assert len(rows) == len(heads)
        marks = "".join(row[len(feature.value) :] for row in rows).split()
        assert marks == ["near" if feature is Feature.FS_DENY else "yes"] * count


def test_six_backends_are_one_table_on_a_wide_terminal_and_two_on_a_narrow_one() -> None:
    for width, tables in ((120, 1), (60, 2)):
        lines = list(render_matrix(probes(*NAMES[:6]), width))
        assert sum(line.startswith(" ") for line in lines) == tables


def test_a_report_is_plain_and_no_wider_than_80_in_a_pipe(here, capsys: pytest.CaptureFixture[str]) -> None:
    long = "x " * 100
    here(
        *map(Told, probes("native", "bubblewrap")),
        Told(Probe("docker", False, reason=f"no daemon {long}", fix=f"start it {long}")),
        Told(Probe("none", True, version="unconfined")),
    )

    assert examine(as_json=False, verbose=True) == 0
    shown = capsys.readouterr()
    body = shown.out.splitlines()[5:]
    assert max(map(len, body)) <= 80
    assert "\x1b" not in shown.out and "\r" not in shown.out and shown.err == ""
    assert "docker      does not work" in body
    assert any(line.startswith("  because: no daemon") for line in body)
    assert any(line.startswith("  fix: start it") for line in body)


def test_inside_corral_that_is_said_first_and_nothing_of_the_host_is_to_be_changed(
    here, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here(Told(Probe("native", False, reason="user namespaces are forbidden", fix="as root: `sysctl -w x=1`")))
    monkeypatch.setattr(doctor, "RealHost", lambda: FakeHost(env={"CORRAL_SANDBOX": "1"}))

    for verbose in (False, True):
        assert examine(as_json=False, verbose=verbose) == 3
        lines = capsys.readouterr().out.splitlines()

        assert lines[0].startswith("This is already inside corral")
        assert not any("sysctl" in line or "fix:" in line for line in lines)
    examine(as_json=True)
    assert json.loads(capsys.readouterr().out)["nested"] is True


def test_the_verdict_is_about_what_the_default_profile_requires(
    here, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An ordinary user has no use for `proc.identity`, and no run needs trials."""
    plan = Sandbox("moderate", workspace=tmp_path).explain("true").plan
    required = frozenset(each for each in plan.requires if not each.value.startswith("limit."))
    here(Told(Probe("native", True, required)))

    examine(as_json=False)
    assert capsys.readouterr().out.startswith("Sandboxes work here: native enforces all.")
    for missing in required:
        here(Told(Probe("native", True, required - {missing})))
        examine(as_json=False)
        assert f"--waive {missing.value}`" in capsys.readouterr().out


def test_a_known_hole_is_a_note(here, capsys: pytest.CaptureFixture[str]) -> None:
    here(Told(probes("bubblewrap")[0].replace(version="0.8.0")))

    examine(as_json=False, verbose=True)
    assert "  note: CVE-2026-87766" in capsys.readouterr().out


def test_json_has_all_of_it(here, capsys: pytest.CaptureFixture[str]) -> None:
    details = (("program", "/usr/bin/bwrap"), ("env DOCKER_HOST", "tcp://ann:secret@host"))
    found = probes("bubblewrap")[0].replace(version="0.8.0", details=details)
    here(Told(found), Told(Probe("docker", False, reason="no daemon", fix="start it")))

    assert examine(as_json=True) == 0
    text = capsys.readouterr().out
    report = json.loads(text)
    first, second = report["backends"]
    assert set(first["features"]) == {feature.value for feature in Feature}
    assert first["features"]["fs.deny"] == "approximated"
    assert first["features"]["fs.read"] == "enforced"
    assert first["known_holes"][0]["reference"] == "CVE-2026-87766"
    assert first["program"] == "/usr/bin/bwrap"
    assert "secret" not in text
    assert (second["reason"], second["fix"]) == ("no daemon", "start it")
    assert set(second["features"].values()) == {"not enforceable"}


def test_a_backend_that_never_answers_is_not_waited_for(here, capsys: pytest.CaptureFixture[str]) -> None:
    released = threading.Event()
    here(Hanging(released), *map(Told, probes("native")))
    try:
        assert examine(as_json=False, verbose=True, probe_seconds=0.2) == 0
    finally:
        released.set()

    shown = capsys.readouterr().out
    assert "because: no answer within 0.2 seconds" in shown
    assert "native      works" in shown


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_probe_that_raises_is_told_and_the_others_are_asked(here, capsys) -> None:
    here(Broken(), *map(Told, probes("native")))

    assert examine(as_json=False, verbose=True) == 0
    assert "because: its probe failed" in capsys.readouterr().out
