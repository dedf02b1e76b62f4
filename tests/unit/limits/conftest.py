"""Control groups of both versions, made of ordinary directories, and a manager that plays systemd's."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from corral.limits import _doors, systemd
from corral.model.enforcer import CGROUP1, CGROUP2
from support.control_groups import FakeGroups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.insert(0, str(Path(__file__).parent))  # for `fake_manager`, in whatever way pytest imports the tests

from fake_manager import FakeManager  # noqa: E402  (needs the path above)
from scopes import FILES, NAME, bus_socket, runtime  # noqa: E402


@pytest.fixture
def version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """A tree for each controller."""
    return FakeGroups(tmp_path, CGROUP1, monkeypatch)


@pytest.fixture
def version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    """One tree for all controllers."""
    return FakeGroups(tmp_path, CGROUP2, monkeypatch)


@pytest.fixture
def member() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not end by itself."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with /run, /proc and /sys/fs/cgroup in it; short, as names of sockets must be."""
    with tempfile.TemporaryDirectory() as name:
        for variable in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setattr(_doors, "_RUN", f"{name}/run")
        monkeypatch.setattr(systemd, "_PROC", f"{name}/proc")
        monkeypatch.setattr(systemd, "_GROUPS", f"{name}/groups")
        yield Path(name)


@pytest.fixture
def manager(place: Path) -> Iterator[FakeManager]:
    """The manager behind its own socket."""
    fake = FakeManager(runtime(place) / "systemd/private")
    yield fake
    fake.close()


@pytest.fixture
def bus(place: Path) -> Iterator[FakeManager]:
    """The manager behind a message bus."""
    bus_socket(place).parent.mkdir(parents=True, exist_ok=True)
    fake = FakeManager(bus_socket(place))
    yield fake
    fake.close()


@pytest.fixture
def scope(place: Path) -> Path:
    """What the kernel shows when the scope is there and everything holds."""
    directory = place / "groups/user.slice/manager/app.slice" / NAME
    directory.mkdir(parents=True)
    for name, text in FILES.items():
        (directory / name).write_text(text)
    (place / "proc/4242").mkdir(parents=True)
    (place / "proc/4242/cgroup").write_text(f"0::/user.slice/manager/app.slice/{NAME}\n")
    return directory


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_doors, "_SECONDS", 0.3)
