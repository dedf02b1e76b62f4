"""What the backend `wasm` claims, proved with modules; and the same capabilities on `wasm` and on `native`.

Commands cannot be run there, so its proofs are not among those of the other backends. The legs are the same:
the module does its harm with wasmtime's own functions (`run_unconfined`), it says that it is alive, and the
effect is judged on the host.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest

from corral.backends.registry import MODULES, get_backend
from corral.backends.wasm import CLAIMS
from corral.model.feature import Feature
from corral.model.result import Outcome
from corral.wasi.imports import SIGNATURES
from support.confinement import Case, Stage, confine
from support.module_runs import TOOL, run_unconfined
from support.probed import probe_of, require
from support.summary import CLAIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.result import Result

    Run = Callable[..., Result]

#: Nothing in WASI does any of this: the list of its functions is the proof, with what is shown below.
BY_ABSENCE = frozenset(
    {
        Feature.NET_NONE,
        Feature.PROC_HIDDEN,
        Feature.PROC_SHIELDED,
        Feature.PROC_SINGLE,
        Feature.IPC_PRIVATE,
        Feature.PRIVILEGES,
        Feature.SYSCALLS,
        Feature.DESCRIPTORS,
        Feature.TERMINAL,
        Feature.LIMIT_PIDS,
    }
)
BY_EFFECT = CLAIMS - BY_ABSENCE


@pytest.fixture
def run(request: pytest.FixtureRequest, stage: Stage) -> Run:
    """Runs the tool on `wasm`, with a feature to prove."""
    require(request, MODULES)

    def run_tool(feature: Feature, *words: str, capabilities: tuple[str, ...] = ()) -> Result:
        request.node.user_properties.append((CLAIM, f"{MODULES} {feature.value}"))
        case = Case(get_backend(MODULES), probe_of(MODULES), feature)
        result = confine(case, stage, (str(TOOL), *words), capabilities=capabilities)
        if not result.stdout_bytes.startswith(b"alive\n"):
            raise RuntimeError(f"the module never ran: {result.describe()}: {result.stderr}")
        return result

    return run_tool


def test_every_claim_has_a_proof_here() -> None:
    words = open(__file__, encoding="utf-8").read()

    assert {each for each in BY_EFFECT if f"run(Feature.{each.name}" not in words} == set()


def test_the_functions_of_wasi_are_those_that_were_looked_at() -> None:
    """None of them starts a process, opens a socket, or says anything about another process."""
    kinds = {name.partition("_")[0] for name in SIGNATURES}

    assert kinds == {"args", "clock", "environ", "fd", "path", "poll", "proc", "random", "sched", "sock"}
    assert {name for name in SIGNATURES if name.startswith("proc_")} == {"proc_exit", "proc_raise"}
    assert len(SIGNATURES) == 46


def test_nothing_outside_can_be_read(run: Run, stage: Stage) -> None:
    (stage.outside / "key").write_text("the secret")
    assert b"the secret" in run_unconfined(("r", "outside/key"), stage.work, stage.work.parent)

    done = run(Feature.FS_READ, "r", "../outside/key")

    assert b"the secret" not in done.stdout_bytes and done.exit_code != 0


def test_nothing_outside_can_be_written(run: Run, stage: Stage) -> None:
    run_unconfined(("w", "outside/control", "x"), stage.work, stage.work.parent)
    assert (stage.outside / "control").exists()

    run(Feature.FS_WRITE, "w", "../outside/new", "x")

    assert not (stage.outside / "new").exists()


def test_times_outside_stay_as_they_are(run: Run, stage: Stage) -> None:
    kept = stage.outside / "kept"
    kept.touch()
    granted = (f"filesystem:read:{stage.outside}",)
    before = kept.stat().st_mtime_ns

    done = run(Feature.FS_METADATA, "t", "../outside/kept", capabilities=granted)

    assert kept.stat().st_mtime_ns == before and done.exit_code != 0


def test_what_is_denied_inside_a_grant_stays_so(run: Run, stage: Stage) -> None:
    (stage.work / "key").write_text("the secret")

    done = run(Feature.FS_DENY, "r", "key", capabilities=(f"filesystem:deny:{stage.work}/key",))

    assert b"the secret" not in done.stdout_bytes
    assert Feature.FS_DENY in [violation.feature for violation in done.violations]


def test_what_the_host_runs_later_is_not_planted(run: Run, stage: Stage) -> None:
    done = run(Feature.FS_PROTECT, "w", ".bashrc", "planted")

    assert not (stage.work / ".bashrc").exists()
    assert Feature.FS_PROTECT in [violation.feature for violation in done.violations]
    assert {event.kind.value for event in done.events} == {"refused"}


def test_private_areas_vanish_with_the_run(run: Run, stage: Stage) -> None:
    done = run(Feature.FS_PRIVATE, "w", f"../../../../../../../..{stage.home}/new", "x")

    assert done.exit_code == 0 and not (stage.home / "new").exists()
    assert os.listdir(stage.temporary) == []


def test_only_permitted_variables_are_passed_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "the secret")

    done = run(Feature.ENVIRONMENT, "e", capabilities=("env:set:SEEN=yes",))

    assert b"SEEN=yes" in done.stdout_bytes and b"the secret" not in done.stdout_bytes


def test_time_ends_a_loop_and_a_sleep(run: Run) -> None:
    for op in ("i", "z"):
        done = run(Feature.LIMIT_WALL, op, capabilities=("time:limit:1s",))
        assert done.outcome is Outcome.TIMED_OUT


def test_output_ends_at_its_limit(run: Run) -> None:
    done = run(Feature.LIMIT_OUTPUT, "p", capabilities=("output:limit:1MB",))

    assert done.outcome is Outcome.OUTPUT_LIMIT and len(done.stdout_bytes) <= 1_000_000


def test_memory_is_exact(run: Run) -> None:
    done = run(Feature.LIMIT_MEMORY, "g", capabilities=("memory:limit:1MiB",))

    assert done.stdout_bytes == b"alive\n" + bytes((ord("A") + 16,))


def test_a_share_of_a_processor_is_kept(run: Run) -> None:
    granted = ("cpu:limit:25%", "cpu:time:300ms")

    done = run(Feature.LIMIT_CPU, "i", capabilities=granted)

    assert done.outcome is Outcome.CPU_LIMIT and done.usage.wall_seconds >= 1.0


def test_processor_time_ends_a_loop(run: Run) -> None:
    done = run(Feature.LIMIT_CPU_TIME, "i", capabilities=("cpu:time:300ms",))

    assert done.outcome is Outcome.CPU_LIMIT and done.usage.cpu_seconds >= 0.3


def test_a_file_grows_to_its_limit(run: Run, stage: Stage) -> None:
    run(Feature.LIMIT_FILE_SIZE, "f", "big", capabilities=("file:limit:100KB",))

    assert (stage.work / "big").stat().st_size == 100_000


def test_no_more_files_are_opened_than_permitted(run: Run, stage: Stage) -> None:
    (stage.work / "file").touch()

    assert run(Feature.LIMIT_OPEN_FILES, "o", "file", capabilities=("files:limit:20",)).exit_code == 33


def test_a_module_ends_with_corral_whatever_ends_that(run: Run, stage: Stage) -> None:
    assert run(Feature.PROC_CONTAINED, "l", ".").exit_code == 0
    command = [sys.executable, "-m", "corral", "run", "--backend", MODULES, "--", str(TOOL), "i"]
    with subprocess.Popen(command, cwd=stage.work, stdout=subprocess.PIPE) as corral:
        assert corral.stdout is not None
        assert corral.stdout.readline() == b"alive\n"
        (child,) = map(int, open(f"/proc/{corral.pid}/task/{corral.pid}/children").read().split())
        ending = os.pidfd_open(child)
        corral.send_signal(signal.SIGKILL)
        corral.wait()
    poller = select.poll()
    poller.register(ending, select.POLLIN)
    assert poller.poll(60_000)
    os.close(ending)


#: Name -> capabilities, the shell's way, the module's way, a path that is there afterwards if it was allowed.
SAME: dict[str, tuple[tuple[str, ...], str, tuple[str, ...], bool]] = {
    "read-granted": (("filesystem:read:OUT",), "cat OUT/key >made", ("r", "../outside/key"), True),
    "read-refused": ((), "cat OUT/key >made", ("r", "../outside/key"), False),
    "write-granted": (("filesystem:write:OUT",), "echo x >OUT/new", ("w", "../outside/new", "x"), True),
    "write-refused": (("filesystem:read:OUT",), "echo x >OUT/new", ("w", "../outside/new", "x"), False),
    "deny": (("filesystem:deny:WORK/key",), "cat key >made", ("r", "key"), False),
    "deny-within": (
        ("filesystem:read:OUT", "filesystem:deny:OUT/key"),
        "cat OUT/key >made",
        ("r", "../outside/key"),
        False,
    ),
    "protect": (("filesystem:protect:name",), "echo x >name", ("w", "name", "x"), False),
    "file-limit": (("file:limit:1KB",), "head -c 2000 /dev/zero >big", ("f", "big"), False),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("backend", ["native", MODULES])
def test_the_same_capabilities_allow_and_refuse_the_same(
    backend: str, name: str, stage: Stage, request: pytest.FixtureRequest
) -> None:
    require(request, backend)
    texts, script, words, is_allowed = SAME[name]
    (stage.outside / "key").write_text("the secret")
    (stage.work / "key").write_text("the secret")
    texts = tuple(text.replace("OUT", str(stage.outside)).replace("WORK", str(stage.work)) for text in texts)
    shell = ("/bin/sh", "-c", script.replace("OUT", str(stage.outside)))
    argv = shell if backend == "native" else (str(TOOL), *words)

    result = confine(
        Case(get_backend(backend), probe_of(backend), Feature.FS_WRITE), stage, argv, capabilities=texts
    )

    read = stage.work / "made"
    seen = b"the secret" in result.stdout_bytes or (read.exists() and "secret" in read.read_text())
    made = any(
        (directory / new).exists() for directory in (stage.outside, stage.work) for new in ("new", "name")
    )
    large = stage.work / "big"
    assert (seen or made or (large.exists() and large.stat().st_size > 1000)) is is_allowed


@pytest.mark.parametrize(
    "text", ["network:https:example.org", "disk:limit:1MiB", "syscall:deny:@mknod", "network:publish:8080"]
)
def test_what_cannot_be_held_for_a_module_is_refused(
    text: str, stage: Stage, request: pytest.FixtureRequest
) -> None:
    import corral

    require(request, MODULES)
    policy = corral.build_policy("moderate", [text])

    with pytest.raises(corral.UnenforceableError):
        corral.Sandbox(policy, backend=MODULES, workspace=stage.work).run([str(TOOL), "l", "."])
