"""Outer programs: started, met by their launcher, explained when they fail, and ended with all they made."""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from corral.host.real import RealHost
from corral.linux.encode import encode
from corral.linux.spec import Spec
from corral.model.errors import SetupError
from corral.model.launch import Fetch, Launch, Outer, StartFailure
from corral.model.plan import Command
from corral.model.result import Outcome
from corral.planning.build import build
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from corral.runtime.run import Run
from corral.streams.destinations import Destinations
from support.gates import Gate

LAUNCHER = RealHost().launcher()[0]
ENV = (("PATH", os.environ.get("PATH", "/usr/bin:/bin")),)

pytestmark = [
    pytest.mark.starts_sandboxes,
    pytest.mark.skipif(not LAUNCHER, reason="the launcher was not built"),
]


def outer_run(
    work: Path,
    program: str,
    *command: str,
    outer: Outer | None = None,
    scratch: str = "",
    capabilities: tuple[str, ...] = (),
) -> Run:
    """A run through a shell script that stands in for the outer program."""
    host = RealHost()
    policy = build_policy("moderate", capabilities)
    resolved = resolve_policy(policy, str(work), host)
    plan = build(
        policy,
        Command(command, str(work)),
        resolved,
        host,
        run_id=os.urandom(8).hex(),
        waived=resolved.requires,
    )
    spec = Spec(argv=command, cwd=str(work), env=ENV, inside=True, wall_ms=20_000, grace_ms=100)
    launch = Launch(
        "stand-in",
        ("/bin/sh", "-c", program, LAUNCHER),
        ENV,
        {},
        spec=encode(spec),
        outer=outer or Outer(start_seconds=10.0),
        scratch=scratch,
    )
    return Run(plan, launch, quarantine=str(work / "quarantine"))


def test_nothing_of_the_command_passes_through_the_program(tmp_path: Path) -> None:
    program = 'echo words; echo more words >&2; exec "$0" --control 3'

    result = outer_run(tmp_path, program, "sh", "-c", "echo out; echo err >&2; exit 5").run()

    assert (result.exit_code, result.stdout, result.stderr) == (5, "out\n", "err\n")


def test_a_program_that_fails_is_never_an_exit_status(tmp_path: Path) -> None:
    with pytest.raises(SetupError) as raised:
        outer_run(tmp_path, "echo no such engine >&2; exit 0", "true").run()

    assert raised.value.code == "outer"
    assert "no such engine" in raised.value.why
    assert not raised.value.ran


def test_its_words_are_explained(tmp_path: Path) -> None:
    failures = (
        StartFailure("something else", "never", "", ""),
        StartFailure("denied on the socket", "engine-denied", "it does not let you in", "join its group"),
    )

    with pytest.raises(SetupError) as raised:
        program = "echo permission denied on the socket >&2; exit 1"
        outer_run(tmp_path, program, "true", outer=Outer(failures=failures)).run()

    assert (raised.value.code, raised.value.fix) == ("engine-denied", "join its group")


def test_a_program_that_is_gone_is_named(tmp_path: Path) -> None:
    run = outer_run(tmp_path, "", "true")
    run._launch = run._launch.replace(argv=(str(tmp_path / "gone"),))

    with pytest.raises(SetupError) as raised:
        run.run()

    assert raised.value.code == "outer"
    assert str(tmp_path / "gone") in str(raised.value)


def test_what_an_engine_makes_late_is_removed_as_well(tmp_path: Path) -> None:
    """It goes on with what it was asked for, whether or not the program lives that asked."""
    container, asked, made = (tmp_path / name for name in ("container", "asked", "made"))
    for fifo in (asked, made):
        os.mkfifo(fifo)
    says = "echo made; echo made"  # to the program, and to this test
    makes = f"read word <{asked}; touch {container}; {{ {says}; }} >{made}"
    engine = f"setsid sh -c '{makes}' & read word <{made}"
    once = f"mkdir {tmp_path}/once 2>/dev/null && echo >{asked}"  # it is made after the first look
    removal = ("/bin/sh", "-c", f"rm -f {container}; {once}")

    with open(made, "r+b", buffering=0) as told:
        with pytest.raises(SetupError) as raised:
            outer_run(tmp_path, engine, "true", outer=Outer(start_seconds=0.1, removal=removal)).run()
        assert told.readline() == b"made\n"

    assert raised.value.code == "start-timeout"
    assert not container.exists()


def test_a_program_that_does_not_come_to_the_point_is_ended_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.runtime.launcher.outer._PARTING_SECONDS", 0.3)
    gate = Gate(tmp_path / "gate")
    removal = ("/bin/sh", "-c", f"echo removed > {tmp_path}/removed")
    outer = Outer(start_seconds=0.5, removal=removal)

    with pytest.raises(SetupError) as raised:
        outer_run(tmp_path, f"exec 9>{tmp_path}/gate; exec sleep 60", "true", outer=outer).run()

    assert raised.value.code == "start-timeout"
    assert gate.is_left()
    assert (tmp_path / "removed").exists()
    gate.close()


def test_whoever_wants_no_more_does_not_wait_for_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    run = outer_run(tmp_path, f"echo begun > {tmp_path}/begun; exec sleep 60", "true")

    def give_up() -> None:
        (tmp_path / "begun").read_text()
        run.kill()

    thread = threading.Thread(target=give_up)
    thread.start()
    result = run.run()
    thread.join()

    assert result.outcome is Outcome.SIGNALLED
    assert not run.has_started


def test_a_program_that_is_lost_takes_everything_along(tmp_path: Path) -> None:
    """The launcher lives on without it, for a moment: until corral has noticed."""
    gate = Gate(tmp_path / "gate")
    os.mkfifo(tmp_path / "begun")
    program = f'"$0" --control 3 & cat {tmp_path}/begun; exit 1'
    command = f"exec 9>{tmp_path}/gate; echo > {tmp_path}/begun; sleep 60"
    removal = ("/bin/sh", "-c", f"echo removed > {tmp_path}/removed")

    with pytest.raises(SetupError) as raised:
        outer_run(tmp_path, program, "sh", "-c", command, outer=Outer(removal=removal)).run()

    assert raised.value.code == "outer-lost"
    assert raised.value.ran
    assert gate.is_left()
    assert (tmp_path / "removed").exists()
    gate.close()


def test_a_socket_in_the_scratch_directory_is_found_by_its_path(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    scratch = tmp_path / ("long" * 30)  # more than an address has room for
    program = f'cd {scratch} && exec "$0" --control /proc/self/cwd/control'

    result = outer_run(
        work, program, "sh", "-c", "echo found", outer=Outer(control="control"), scratch=str(scratch)
    ).run()

    assert result.stdout == "found\n"
    assert not scratch.exists()


def test_a_program_in_the_workspace_makes_no_sandbox(tmp_path: Path) -> None:
    run = outer_run(tmp_path, "", "true")
    planted = run._launch.replace(argv=(str(tmp_path / "bin/bwrap"),))

    with pytest.raises(SetupError) as raised:
        Run(run._plan, planted, quarantine="")

    assert raised.value.code == "outer"
    assert "commands may write" in raised.value.why


def test_only_the_launcher_is_equipped(tmp_path: Path) -> None:
    """Another program inside that speaks its language gets nothing."""
    impostor = "import socket; s = socket.socket(fileno=3); s.send(b'corral-launch 1'); print(s.recv(1))"
    program = f'{sys.executable} -c "{impostor}" > {tmp_path}/words'

    with pytest.raises(SetupError) as raised:
        outer_run(tmp_path, program, "true", outer=Outer(LAUNCHER)).run()

    assert raised.value.code == "outer"
    assert "another program" in raised.value.why
    assert "g" not in (tmp_path / "words").read_text()


def test_a_private_directory_within_reach_of_commands_is_refused(tmp_path: Path) -> None:
    run = outer_run(tmp_path, "", "true")

    with pytest.raises(SetupError) as raised:
        Run(run._plan, run._launch.replace(scratch=str(tmp_path / "corral-x")), quarantine="")

    assert raised.value.code == "scratch"
    assert "TMPDIR" in raised.value.fix


def test_a_program_that_hangs_at_the_end_does_not_hold_up_whoever_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.runtime.launcher.starter.END_SECONDS", 0.3)
    gate = Gate(tmp_path / "gate")
    removal = ("/bin/sh", "-c", f"echo removed > {tmp_path}/removed")
    program = f'exec 9>{tmp_path}/gate; "$0" --control 3; exec sleep 60'
    run = outer_run(tmp_path, program, "sh", "-c", "echo out", outer=Outer(removal=removal))

    def refuse(_name: str, _data: bytes) -> None:
        raise ValueError("no more")

    run._output = Destinations(refuse, None, None)
    with pytest.raises(ValueError, match="no more"):
        run.run()

    assert gate.is_left()
    assert (tmp_path / "removed").exists()
    gate.close()


def test_a_slow_start_is_not_the_commands_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.runtime.run.BACKSTOP_SECONDS", 0.0)
    program = 'sleep 3; exec "$0" --control 3'  # more than the limit and the grace

    result = outer_run(tmp_path, program, "sh", "-c", "sleep 0.1", capabilities=("time:limit:500ms",)).run()

    assert (result.outcome, result.exit_code) == (Outcome.EXITED, 0)


MEETS = 'exec "$0" --control 3'


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize(
    ("bound", "asked"),
    [
        *(("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")),
        *(("::1", "::1"), ("::ffff:127.0.0.1", "127.0.0.1")),
    ],
)
def test_a_published_port_has_to_listen_before_the_command_runs(
    tmp_path: Path, protocol: str, bound: str, asked: str
) -> None:
    """An engine without a network of its own publishes nothing, and says nothing."""
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET6 if ":" in bound else socket.AF_INET, kind) as engine:
        engine.bind((bound, 0))
        if protocol == "tcp":
            engine.listen()
        port = engine.getsockname()[1]
        outer = Outer(listens=(f"{protocol} {asked} {port}",))
        assert outer_run(tmp_path, MEETS, "true", outer=outer).run().ok

    with pytest.raises(SetupError) as raised:
        outer_run(tmp_path, MEETS, "touch", str(tmp_path / "ran"), outer=outer).run()

    assert raised.value.code == "port-closed" and str(port) in str(raised.value)
    assert not raised.value.ran and not (tmp_path / "ran").exists()


def test_a_port_of_another_address_does_not_count(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as engine:
        listens = (f"tcp 127.0.0.1 {engine.getsockname()[1]}",)
        with pytest.raises(SetupError) as raised:
            outer_run(tmp_path, MEETS, "true", outer=Outer(listens=listens)).run()

    assert raised.value.code == "port-closed"


def test_a_network_that_the_engine_did_not_make_is_noticed(tmp_path: Path) -> None:
    """The host's own has more than a loopback, or the test is void; a new one has nothing else."""
    if len(list(Path("/sys/class/net").iterdir())) < 2:
        pytest.skip("this machine has no network but a loopback")
    outer = Outer(has_network=True)
    assert outer_run(tmp_path, MEETS, "true", outer=outer).run().ok

    with pytest.raises(SetupError) as raised:
        outer_run(tmp_path, MEETS.replace("exec", "exec unshare -rn"), "true", outer=outer).run()

    assert raised.value.code == "engine-network" and not raised.value.ran


def fetching(store: Path, pull: str) -> Outer:
    """An engine that has an image once it was fetched, and notes how often it was asked to."""
    store.mkdir(exist_ok=True)
    look = ("/bin/sh", "-c", f"cat {store}/image")
    pull = f"echo x >> {store}/pulls; {pull}"
    return Outer(fetch=Fetch("alpine:3", look, ("/bin/sh", "-c", pull, str(store))))


def test_an_image_that_is_missing_is_fetched_once_and_that_is_recorded(tmp_path: Path) -> None:
    outer = fetching(tmp_path / "store", 'echo sha256:abc > "$0/image"')
    said: list[str] = []
    runs = [outer_run(tmp_path, MEETS, "true", outer=outer) for _ in range(2)]
    for run in runs:
        run.say = said.append
    first, second = (run.run() for run in runs)

    assert said == ["stand-in has no image alpine:3, and fetches it"]
    assert first.notes == ("the image alpine:3 was fetched by stand-in: sha256:abc",)
    assert second.notes == ()
    assert (tmp_path / "store/pulls").read_text() == "x\n"


@pytest.mark.parametrize("pull", ["echo no such manifest >&2; exit 1", "echo done"])
def test_an_image_that_cannot_be_fetched_starts_nothing(tmp_path: Path, pull: str) -> None:
    program = f"touch {tmp_path}/started; {MEETS}"
    with pytest.raises(SetupError) as raised:
        outer_run(tmp_path, program, "true", outer=fetching(tmp_path / "store", pull)).run()

    assert raised.value.code == "image-pull" and not raised.value.ran
    assert "No such file" in raised.value.why or raised.value.why == "no such manifest"
    assert not (tmp_path / "started").exists()


def test_a_fetch_that_is_not_wanted_any_more_is_ended(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    pull = f"exec 9>{tmp_path}/gate; echo > {begun}; exec sleep 60"
    run = outer_run(tmp_path, MEETS, "true", outer=fetching(tmp_path / "store", pull))
    thread = threading.Thread(target=lambda: (begun.read_text(), run.kill()))
    thread.start()
    result = run.run()
    thread.join()

    assert result.outcome is Outcome.SIGNALLED
    assert gate.is_left()
    gate.close()


def test_what_is_kept_is_not_removed_and_is_named(tmp_path: Path) -> None:
    removal = ("/bin/sh", "-c", f"touch {tmp_path}/removed")
    program = f"{MEETS.removeprefix('exec ')}; exit 1"
    result = outer_run(tmp_path, program, "true", outer=Outer(removal=removal, kept="review")).run()

    assert result.notes == ("the container review is kept: `stand-in rm --volumes review` removes it",)
    assert not (tmp_path / "removed").exists()


def test_what_was_to_be_kept_is_removed_where_nothing_ran(tmp_path: Path) -> None:
    removal = ("/bin/sh", "-c", f"touch {tmp_path}/removed")
    with pytest.raises(SetupError):
        outer_run(tmp_path, "exit 1", "true", outer=Outer(removal=removal, kept="review")).run()

    assert (tmp_path / "removed").exists()


@pytest.mark.parametrize(("found", "removed"), [("", None), ("a1\\nb2", "a1 b2\n")])
def test_only_what_is_found_is_removed(tmp_path: Path, found: str, removed: str | None) -> None:
    """A container of the same name may be somebody else's."""
    words = tmp_path / "removed"
    removal = ("/bin/sh", "-c", f'echo "$0 $@" > {words}')
    outer = Outer(removal=removal, finding=("/usr/bin/printf", found))
    with pytest.raises(SetupError):
        outer_run(tmp_path, "exit 1", "true", outer=outer).run()

    assert (words.read_text() if words.exists() else None) == removed
