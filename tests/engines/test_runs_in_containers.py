"""Commands in containers of real engines: whose files they make, how starts fail, what is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corral.backends.registry import get_backend
from corral.host.real import RealHost
from corral.limits.ceiling import Ceiling
from corral.model.container import Container
from corral.model.errors import SetupError, UnenforceableError
from corral.model.policy import Limits
from corral.model.result import Outcome
from corral.sandbox import Sandbox
from corral.sessions.pool import Pool
from support.container_runs import ContainerRuns
from support.engines import ENGINES, IMAGE, Engine, why_unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.launch import Launch

SECONDS = 20
HELD_SECONDS = 100
#: Other tests have containers in the same engine.
OURS = ("--filter", "label=corral.run")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, a home and a temporary directory of one's own."""
    for name in ("work", "home", "temporary", "state"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    return tmp_path


@pytest.fixture
def runs(engine: Engine, places: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerRuns]:
    """And nothing is left when the test is over: no container, no volume, no file."""
    monkeypatch.setenv("PATH", f"{engine.install()}:{os.environ['PATH']}")
    yield ContainerRuns(engine.name, places / "work", places / "state")
    assert wait_until(lambda: engine.ask("ps", "--all", "--quiet", *OURS) == [])
    assert engine.ask("volume", "ls", "--quiet") == []
    assert list((places / "temporary").iterdir()) == []


def wait_until(holds, seconds: float = SECONDS) -> bool:
    """The end of a container is not told to anyone here: it is asked for."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def fails(runs: ContainerRuns, script: str = "true", **options) -> SetupError:
    with pytest.raises(SetupError) as caught:
        runs.run(script, **options)
    assert not caught.value.ran
    return caught.value


def test_the_answer_is_the_command_s(runs: ContainerRuns) -> None:
    done = runs.run("cat; echo out; echo err >&2; exit 7", stdin=b"in\n")

    assert (done.outcome, done.exit_code) == (Outcome.EXITED, 7)
    assert (done.stdout, done.stderr) == ("in\nout\n", "err\n")


def test_files_belong_to_the_caller(runs: ContainerRuns, places: Path) -> None:
    runs.run("echo x > made; busybox mkdir -p deep/er").check()

    for name in ("made", "deep", "deep/er"):
        status = (places / "work" / name).stat()
        assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())


def test_what_is_private_is_gone(runs: ContainerRuns, places: Path) -> None:
    done = runs.run("for at in /tmp /var/tmp /dev/shm $HOME; do echo x > $at/made && echo ok; done")

    assert done.stdout == "ok\n" * 4
    assert list((places / "home").iterdir()) == []


def test_what_is_not_granted_is_neither_read_nor_written(runs: ContainerRuns, places: Path) -> None:
    work = places / "work"
    (places / "outside").write_text("the secret")
    (work / "secrets").mkdir()
    (work / "secrets/key").write_text("the secret")
    (work / "key").write_text("the secret")
    (work / "docs").mkdir()
    (work / ".git/hooks").mkdir(parents=True)
    capabilities = [f"filesystem:deny:{work}/{name}" for name in ("secrets", "key")]
    script = (
        f"cat {places}/outside secrets/key key; busybox ls secrets; "
        "for at in docs/x .git/hooks/x secrets/x key /etc/x /dev/x /sys/x /x; do echo x > $at; done; "
        "busybox chmod 777 key secrets .git/hooks /etc; busybox mv .git .tig; busybox ls /sys/devices"
    )
    done = runs.run(script, *capabilities, f"filesystem:read:{work}/docs")

    assert done.stdout == ""
    assert not any((work / name).exists() for name in ("docs/x", ".git/hooks/x", "secrets/x", ".tig"))
    assert (work / "key").read_text() == "the secret"
    assert (work / "key").stat().st_mode & 0o777 == 0o644


NASTY = ("a,b", 'q"x', "e=q", "c:d", "sp ace", "-dash", "$x", "new\nline", "ü", "readonly", "dst=")


def test_paths_with_any_name_are_mounted_and_denied(runs: ContainerRuns, places: Path) -> None:
    capabilities = []
    for name in NASTY:
        (places / "shown" / name).mkdir(parents=True)
        (places / "shown" / name / "file").write_text("shown\n")
        (places / "work" / name).write_text("hidden\n")
        capabilities += [f"filesystem:read:{places}/shown/{name}", f"filesystem:deny:{places}/work/{name}"]
    done = runs.run(f'for at in {places}/shown/*/file /workspace/*; do cat "$at"; done', *capabilities)

    assert done.stdout == "shown\n" * len(NASTY)


def test_the_caller_is_inside_what_he_is_outside_and_sees_nobody(runs: ContainerRuns) -> None:
    done = runs.run(
        "busybox id -u; busybox id -g; busybox ls -d /proc/[0-9]* | busybox wc -l; busybox hostname"
    )
    user, group, processes, name = done.stdout.split()

    assert (int(user), int(group), name) == (os.getuid(), os.getgid(), "corral")
    assert int(processes) <= 4  # the launcher, the shell, ls and wc


def test_a_path_that_is_swapped_before_it_is_mounted_is_noticed(runs: ContainerRuns, places: Path) -> None:
    hooks = places / "work/.git/hooks"
    hooks.mkdir(parents=True)

    def swap(launch: Launch) -> Launch:
        hooks.rename(hooks.parent / "sooner")
        hooks.mkdir()
        return launch

    problem = fails(runs, change=swap)
    assert problem.code == "path-changed"


@pytest.mark.parametrize("word", ["readonly", "/workspace/secret", "/sys"])
def test_an_engine_that_does_not_do_what_it_was_told_runs_nothing(
    runs: ContainerRuns, places: Path, word: str
) -> None:
    """Its arguments are removed one by one, as an engine would that does not know them."""
    (places / "work/.git/hooks").mkdir(parents=True)
    (places / "work/secret").write_text("the secret")

    def forget(launch: Launch) -> Launch:
        if word == "readonly":
            argv = [text.replace(",readonly", "") if "hooks" in text else text for text in launch.argv]
        else:
            at = next(
                number for number, text in enumerate(launch.argv) if word in text.partition("dst=/.c")[0]
            )
            argv = [*launch.argv[: at - 1], *launch.argv[at + 1 :]]
        assert argv != list(launch.argv)
        return launch.replace(argv=tuple(argv))

    deny = f"filesystem:deny:{places}/work/secret"
    with pytest.raises(SetupError) as caught:
        runs.run("echo ran > made", deny, change=forget)
    assert caught.value.code in {"expect", "path-changed"}
    assert not (places / "work/made").exists()


def test_an_image_that_is_not_there(runs: ContainerRuns, engine: Engine) -> None:
    problem = fails(runs, image="nosuch:1")
    assert problem.code == "image-missing" and f"`{engine.name} pull nosuch:1`" in problem.fix

    problem = fails(runs, image="corral/sandbox:python")
    assert (problem.code, problem.fix) == ("image-missing", "`corral image build python`")


def test_an_engine_that_takes_too_long_is_given_up(runs: ContainerRuns) -> None:
    def hurry(launch: Launch) -> Launch:
        return launch.replace(outer=launch.outer.replace(start_seconds=0.02))

    assert fails(runs, change=hurry).code == "start-timeout"


def test_a_caller_who_dies_leaves_no_container(runs: ContainerRuns, engine: Engine, places: Path) -> None:
    ready = places / "work/ready"
    child = os.fork()
    if child == 0:
        try:
            runs.run("echo > ready; busybox sleep 100")
        finally:
            os._exit(0)
    try:
        assert wait_until(ready.exists)
        assert wait_until(lambda: engine.ask("ps", "--quiet", *OURS) != [])  # it may learn so later
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert wait_until(lambda: engine.ask("ps", "--all", "--quiet", *OURS) == [])
    for left in (places / "temporary").iterdir():  # whoever dies cannot tidy up; see `corral doctor`
        subprocess.run(["rm", "-r", str(left)], check=True)


def test_a_container_that_is_taken_away_is_no_answer(
    runs: ContainerRuns, engine: Engine, places: Path
) -> None:
    def take_away() -> None:
        wait_until((places / "work/ready").exists, HELD_SECONDS)
        wait_until(lambda: engine.ask("ps", "--quiet", *OURS) != [])  # an engine may learn later that it runs
        engine.ask("rm", "--force", *engine.ask("ps", "--quiet", *OURS))

    thread = threading.Thread(target=take_away)
    thread.start()
    try:
        with pytest.raises(SetupError) as caught:
            runs.run(f"echo > ready; busybox sleep {HELD_SECONDS}")
    finally:
        thread.join()
    assert caught.value.code == "outer-lost" and caught.value.ran


def test_limits_of_the_tree_hold_and_are_counted(runs: ContainerRuns) -> None:
    capabilities = ("memory:limit:64MiB", "pids:limit:32", "cpu:limit:50%", "time:limit:30s")
    done = runs.run("measure memory 16 16", *capabilities)

    assert done.exit_code == 0
    assert 16 << 20 <= done.usage.peak_memory_bytes <= 64 << 20
    assert runs.run("exec measure memory 64 128", *capabilities).outcome is Outcome.OUT_OF_MEMORY


def test_processor_time_is_held(runs: ContainerRuns) -> None:
    done = runs.run("while :; do :; done", "cpu:time:1s", "time:limit:30s")

    assert done.outcome is Outcome.CPU_LIMIT


@pytest.mark.parametrize("name", ["docker"])
def test_an_engine_that_has_ended(name: str, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = why_unavailable(name)
    if reason:
        pytest.skip(reason)
    engine = ENGINES[name]([])
    try:
        monkeypatch.setenv("PATH", f"{engine.install()}:{os.environ['PATH']}")
        runs = ContainerRuns(name, places / "work", places / "state")
        runs.run("true").check()
        engine.ask("image", "rm", "--force", "corral-test")
        assert fails(runs).code == "image-missing"
        engine._stop()
        assert fails(runs).code == "engine-unreachable"
    finally:
        engine.close()


@pytest.mark.parametrize("name", list(ENGINES))
def test_an_engine_that_has_no_room(name: str, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = why_unavailable(name)
    if reason:
        pytest.skip(reason)

    class Small(ENGINES[name]):
        """Its data lie in a small file system."""

        def _start(self) -> None:
            data = self.folder / "data"
            data.mkdir()
            self.inside("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(data))
            super()._start()

        def inside(self, *command: str, check: bool = True) -> None:
            subprocess.run(self.enclosure.enter(command), check=check, capture_output=True)

    engine = Small([])
    try:
        monkeypatch.setenv("PATH", f"{engine.install()}:{os.environ['PATH']}")
        runs = ContainerRuns(name, places / "work", places / "state")
        runs.run("true").check()
        engine.inside("dd", "if=/dev/zero", f"of={engine.folder}/data/fill", "bs=64k", check=False)
        problem = fails(runs)
        assert problem.code == "engine-disk-full" and "no space left" in problem.why
        engine.inside("rm", f"{engine.folder}/data/fill")
        runs.run("true").check()
        assert engine.ask("ps", "--all", "--quiet", *OURS) == []
    finally:
        engine.close()


@pytest.mark.parametrize("way", ["run", "session", "pool"])
def test_a_ceiling_that_would_not_hold_is_refused(runs: ContainerRuns, places: Path, way: str) -> None:
    """The container lies in a group of the engine's."""
    with Ceiling(Limits(pids=20)) as ceiling:
        sandbox = Sandbox(
            backend=runs.backend.name,
            container=Container(image=IMAGE),
            workspace=places / "work",
            within=ceiling,
        )
        with pytest.raises(UnenforceableError, match="within a ceiling"):
            if way == "pool":
                with Pool(sandbox, size=1) as pool:
                    pool.run(("touch", "ran"))
            else:
                (sandbox.run if way == "run" else sandbox.session().run)(("touch", "ran"))

    assert not (places / "work/ran").exists()


def test_an_engine_is_tried_by_several_at_once_and_nothing_is_left(
    engine: Engine, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{engine.install()}:{os.environ['PATH']}")
    before = engine.ask("images", "--all", "--quiet", "--no-trunc")
    with ThreadPoolExecutor(3) as threads:
        probes = list(threads.map(lambda _: get_backend(engine.name).probe(RealHost()), range(3)))

    assert [probe.reason for probe in probes] == [""] * 3
    assert engine.ask("images", "--all", "--quiet", "--no-trunc") == before
    assert engine.ask("ps", "--all", "--quiet", *OURS) == []


_FEW_FILES = """
import sys
from pathlib import Path
from support.container_runs import ContainerRuns

name, place = sys.argv[1], Path(sys.argv[2])
runs = ContainerRuns(name, place / "work", place / "state")
print(runs.probe.available, runs.run("ulimit -Hn").stdout, end="")
"""


def test_a_caller_who_may_have_few_files_and_cannot_raise_that_has_containers(
    engine: Engine, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman would ask for a million. Root in a container is such a caller, and so is any other user."""
    monkeypatch.setenv("PATH", f"{engine.install()}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    bounded = ("setpriv", "--bounding-set=-sys_resource", "prlimit", "--nofile=3000:4000")
    done = subprocess.run(
        [*bounded, sys.executable, "-c", _FEW_FILES, engine.name, str(places)],
        capture_output=True,
        text=True,
        timeout=5 * SECONDS,
    )

    assert done.returncode == 0, done.stderr
    available, files = done.stdout.split()
    assert available == "True"
    if engine.name == "podman":  # those of docker have what its daemon has
        assert int(files) == 4000
