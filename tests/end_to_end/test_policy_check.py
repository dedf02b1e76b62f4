"""`corral policy check`: the table, its verdict, and that what it calls approximated is true."""

from __future__ import annotations

import json
import os

import pytest

from corral.backends.registry import BUILTIN, get_backend
from corral.host.real import RealHost
from corral.model.feature import Feature
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Corral


def test_a_policy_that_can_be_enforced_begins_with_the_backend_that_is_taken(corral: Corral) -> None:
    done = corral("policy", "check", "-v")
    lines = done.stdout.decode().splitlines()

    assert (done.returncode, done.stderr) == (0, b"")
    heads = [line for line in lines if line.startswith("clause ")]
    assert [name for line in heads for name in line.split()[2:]] == _available()
    assert lines[0] == "yes: native enforces all of moderate"
    assert corral("policy", "check").stdout.decode().splitlines()[0] == lines[0]
    assert "native enforces all" in {" ".join(line.split()) for line in lines}


def test_a_policy_that_cannot_be_enforced_begins_with_the_refusal(corral: Corral, project: Path) -> None:
    done = corral(
        *("policy", "check", "-v", "--net", "full", "--cap", "network:deny:example.com"),
        *("--cap", "disk:limit:1g"),
    )
    text = done.stdout.decode()

    assert done.returncode == 3
    assert "`corral run` would refuse\n  because: native: cannot enforce" in text
    assert _row(text, "disk:limit:1GiB").split()[2:4] == ["enforced", "no"]
    assert any("proc.hidden" in line and "approx." in line for line in text.splitlines())
    assert (
        corral("run", "--net", "full", "--cap", "network:deny:example.com", "--", "touch", "ran").returncode
        == 3
    )
    assert not (project / "ran").exists()


def test_the_verdict_is_that_of_run_with_the_same_options(corral: Corral) -> None:
    for options in (
        [],
        ["--backend", "landlock"],
        ["--backend", "none"],
        ["--cap", "cpu:time:9s"],
        ["--cap", "cpu:time:9s", "--waive", "limit.cpu-time"],
        ["--cap", "filesystem:reed:/docs"],
        ["--backend", "magic"],
    ):
        checked, ran = corral("policy", "check", *options), corral("run", *options, "--", "true")

        assert checked.returncode == ran.returncode, options


def test_no_line_is_longer_than_a_hundred_columns(corral: Corral) -> None:
    for more in ([], ["-v"], ["-p", "strict", "--net", "limited", "--cap", "network:tcp:example.org:22"]):
        done = corral("policy", "check", *more)

        assert max(map(len, done.stdout.decode().splitlines())) <= 100


def test_verbosely_every_mechanism_is_named(corral: Corral) -> None:
    text = corral("policy", "check", "-v", "--cap", "process:none").stdout.decode()

    assert "  proc.single      enforced  seccomp: threads and exec only" in text
    assert "  environment      enforced  corral's own runner" in text
    assert "  fs.protect       no        not held:" in text


def test_as_json_each_clause_has_an_answer_of_each_backend(corral: Corral) -> None:
    found = json.loads(corral("policy", "check", "--json").stdout)
    clauses = {clause["clause"]: clause for clause in found["clauses"]}

    assert (found["v"], found["chosen"], found["refusal"]) == (1, "native", "")
    assert [backend["backend"] for backend in found["backends"]] == list(BUILTIN)
    assert clauses["network:none"]["features"] == ["net.none"]
    assert clauses["network:none"]["fidelity"]["native"] == "enforced"
    assert clauses["network:none"]["fidelity"]["none"] == "not enforceable"
    assert clauses["process:spawn"]["fidelity"] == dict.fromkeys(BUILTIN)
    native = found["backends"][0]
    assert native["enforces_all"]
    assert native["features"]["net.none"]["how"] == "net namespace with loopback only"


def test_explain_has_a_line_for_each_backend(corral: Corral) -> None:
    text = corral("explain", "-v").stdout.decode()
    _, _, section = text.partition("\nbackends\n")

    lines = [" ".join(line.split()) for line in section.partition("\nlaunch\n")[0].splitlines()]
    assert lines[0] == "native enforces all"
    assert lines[1].startswith("landlock lacks ")
    assert lines[-1] == "none confines nothing; only if you ask for it by name"
    backends = json.loads(corral("explain", "--json").stdout)["backends"]
    assert backends["native"] == {"available": True, "lacks": []}


def test_landlock_shows_that_a_process_is_there_and_nothing_of_it(project: Path, victim_pid: int) -> None:
    probe = get_backend("landlock").probe(RealHost())
    if not probe.available:
        pytest.skip(f"landlock is not available: {probe.reason}")
    assert Feature.PROC_HIDDEN in dict(probe.approximates)
    lacking = Sandbox(workspace=project).explain("true").plan.requires - probe.enforces
    sandbox = Sandbox(workspace=project, backend="landlock", waive=lacking)
    there = sandbox.run(["test", "-d", f"/proc/{victim_pid}"])
    looks = [
        sandbox.run(["cat", f"/proc/{victim_pid}/{part}"])
        for part in ("cmdline", "comm", "environ", "maps", "stat", "status")
    ]

    assert there.exit_code == 0
    assert [(look.exit_code, look.stdout) for look in looks] == [(1, "")] * len(looks)
    assert sandbox.run(["ls", "/proc"]).exit_code != 0


@pytest.fixture
def victim_pid() -> int:
    """A process of the host: the very one that runs the tests."""
    return os.getpid()


def _available() -> list[str]:
    host = RealHost()
    return [name for name in BUILTIN if get_backend(name).probe(host).available]


def _row(text: str, clause: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(clause))
