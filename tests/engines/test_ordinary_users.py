"""Containers of ordinary users: by the socket of root's docker, and by a rootless podman."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import corral
from support.engines import IMAGE, Docker, Podman, why_unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.engines import Engine

TESTS = Path(__file__).resolve().parents[1]
USER, NAME, FIRST_SUBORDINATE = 61234, "corral-user", 700_000
OWNED = ("work", "home", "temporary", "state", "run")
SECONDS = 100

_PROGRAM = """
import sys
from pathlib import Path
from corral.model.errors import PolicyError
from support.container_runs import ContainerRuns

name, place = sys.argv[1], Path(sys.argv[2])
(place / "work/.git/hooks").mkdir(parents=True)
(place / "work/secret").write_text("the secret")
(place / "work/secrets").mkdir()
(place / "work/secrets/key").write_text("the secret")
runs = ContainerRuns(name, place / "work", place / "state")
hidden = [f"filesystem:deny:{place}/work/{name}" for name in ("secret", "secrets")]
script = (
    "echo user $(busybox id -u) $(busybox id -g); echo x > made; busybox mkdir deep; "
    "cat secret secrets/key; echo x > .git/hooks/x; busybox chmod 777 secret secrets .git/hooks; "
    "echo x > $HOME/f && echo home; echo x > /tmp/f && echo tmp"
)
done = runs.run(script, *hidden)
print(done.outcome.value, done.exit_code, done.stdout, sep="\\n", end="")
print(runs.run("echo $(busybox id -u) $(busybox id -g); echo x > by-other", user="7:8").stdout, end="")
try:
    done = runs.run("echo root $(busybox id -u); echo x > /etc/x && echo x > by-root", root="writable")
    print(done.stdout, end="")
except PolicyError as problem:
    print(problem.code)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Corral and what runs it, where another user can read it; and directories of his own."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    place = Path(tempfile.mkdtemp(prefix="corral-user-"))
    place.chmod(0o755)
    ignore = shutil.ignore_patterns("*.pyc.*")  # compiled files are kept, but for unfinished ones
    shutil.copytree(Path(corral.__file__).parent, place / "src/corral", ignore=ignore)
    shutil.copytree(TESTS / "support", place / "src/support", ignore=ignore)
    (place / "program.py").write_text(_PROGRAM)
    for path in place.rglob("*"):
        path.chmod(path.stat().st_mode | 0o444 | (0o111 if path.is_dir() else 0))
    for name in OWNED:
        (place / name).mkdir(mode=0o700)
        os.chown(place / name, USER, USER)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def docker() -> Iterator[Engine]:
    """One that lets the user in."""
    reason = why_unavailable("docker")
    if reason:
        pytest.skip(reason)
    engine = Docker([])
    engine.folder.chmod(0o755)
    os.chown(engine.folder / "socket", USER, USER)
    yield engine
    engine.close()


@pytest.fixture
def podman() -> Iterator[Engine]:
    """An enclosure in which the user has ids to give away."""
    reason = why_unavailable("podman")
    missing = [program for program in ("newuidmap", "setpriv") if shutil.which(program) is None]
    if reason or missing:
        pytest.skip(reason or f"podman: {', '.join(missing)} not installed")
    engine = Podman([])
    engine.folder.chmod(0o755)
    lines = {
        "passwd": f"{NAME}:x:{USER}:{USER}::/:/bin/sh",
        "group": f"{NAME}:x:{USER}:",
        "subuid": f"{NAME}:{FIRST_SUBORDINATE}:65536",
        "subgid": f"{NAME}:{FIRST_SUBORDINATE}:65536",
    }
    for name, line in lines.items():
        subprocess.run(engine.enclosure.enter(["sh", "-c", f"echo {line} >> /etc/{name}"]), check=True)
    yield engine
    engine.close()


def _as_user(place: Path, path: str, command: list[str]) -> list[str]:
    variables = {
        "HOME": f"{place}/home",
        "TMPDIR": f"{place}/temporary",
        "XDG_RUNTIME_DIR": f"{place}/run",
        "STORAGE_DRIVER": "vfs",
        "PATH": path,
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{place}/src",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    return [*become, "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *command]


def _interpreter() -> str:
    """This interpreter, if others may run it; the system's otherwise."""
    real = Path(sys.executable).resolve()
    is_open = all(path.stat().st_mode & 0o001 for path in (real, *real.parents))
    return str(real) if is_open else "/usr/bin/python3"


def _call(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _judge(place: Path, answer: str, root: str, made: tuple[str, ...]) -> None:
    assert answer.split("\n") == ["exited", "0", f"user {USER} {USER}", "home", "tmp", "7 8", root, ""]
    for name in ("made", "deep", "by-other", *made):
        status = (place / "work" / name).stat()
        assert (status.st_uid, status.st_gid) == (USER, USER)
    assert list((place / "work/.git/hooks").iterdir()) == []
    assert (place / "work/secret").stat().st_mode & 0o777 == 0o644
    assert list((place / "temporary").iterdir()) == []
    assert not (place / "state/quarantine").exists()


def test_a_user_of_root_s_docker(docker: Engine, place: Path) -> None:
    path = f"{docker.install()}:/usr/bin:/bin"
    program = [_interpreter(), str(place / "program.py"), "docker", str(place)]

    _judge(place, _call(_as_user(place, path, program)), "container-root", ())
    assert docker.ask("ps", "--all", "--quiet") == []


def test_a_rootless_podman(podman: Engine, place: Path) -> None:
    path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

    def inside(command: list[str]) -> str:
        return _call(podman.enclosure.enter(_as_user(place, path, command)))

    inside(["podman", "import", str(podman.folder / "image.tar"), IMAGE])
    answer = inside([_interpreter(), str(place / "program.py"), "podman", str(place)])
    _judge(place, answer, "root 0", ("by-root",))
    assert inside(["podman", "ps", "--all", "--quiet"]) == ""
