"""Why a kept sandbox could not be made comes on another way than its end, and perhaps later."""

from __future__ import annotations

import os
import socket
from _thread import allocate_lock
from types import SimpleNamespace

import pytest

from corral.model.errors import SetupError
from corral.runtime.launcher import server as module
from corral.runtime.launcher.server import SandboxServer
from corral.runtime.status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Ending:
    """A sandbox whose server is gone already, and whose supervisor has said nothing yet."""

    def __init__(self) -> None:
        status, self._supervisor = os.pipe()
        os.set_blocking(status, False)
        requests, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server.close()
        self.kept = SandboxServer.__new__(SandboxServer)
        self.kept._lock, self.kept._areas, self.kept.root = allocate_lock(), -1, -1
        self.kept._requests, self.kept.status = requests, Status()
        self.kept._process = SimpleNamespace(status=status)  # type: ignore[assignment]

    def say(self, words: bytes) -> None:
        if words:
            os.write(self._supervisor, words)
        elif self._supervisor >= 0:
            os.close(self._supervisor)
            self._supervisor = -1

    def close(self) -> None:
        self.say(b"")
        os.close(self.kept._process.status)  # type: ignore[union-attr]
        self.kept._requests.close()  # type: ignore[union-attr]


@pytest.fixture
def ending() -> Iterator[Ending]:
    made = Ending()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param((b"failed land", b"lock 13 rule for /x\n"), "landlock", id="said"),
        pytest.param((b"",), "launcher", id="silent"),
    ],
)
def test_the_reason_is_waited_for(
    ending: Ending, monkeypatch: pytest.MonkeyPatch, words: tuple[bytes, ...], code: str
) -> None:
    left = list(words)
    monkeypatch.setattr(module.time, "sleep", lambda _: ending.say(left.pop(0)))

    with pytest.raises(SetupError) as refused:
        ending.kept._await_root()

    assert refused.value.code == code and not left


def test_it_is_not_waited_for_without_end(ending: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LAST_WORDS_SECONDS", 0.0)

    with pytest.raises(SetupError) as refused:
        ending.kept._await_root()

    assert refused.value.code == "launcher"
