"""The host changes what an apply that was killed has just changed: neither side is lost without a word."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from corral.model.errors import PolicyError, SetupError
from corral.trials import carry_out, exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.sessions.trial import Trial


def _die(*_: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _killed_at(owner: object, name: str, trial: Trial, die: Callable[..., Any] = _die) -> None:
    """Apply in a process that is killed where it calls this."""
    child = os.fork()
    if child == 0:
        setattr(owner, name, die)
        trial.apply()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@pytest.mark.parametrize("verb", ["undo", "apply"])
@pytest.mark.parametrize("name", ["README", "new"])
def test_what_the_host_writes_into_what_was_just_applied_stays(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch, verb: str, name: str
) -> None:
    """That the file is in its place is not written down yet."""
    monkeypatch.setattr(exchange, "_LEAST", 1)
    assert trial.run(f"echo more >> {name}").ok
    _killed_at(carry_out, "stamp_of", trial)
    assert (work / name).read_text().endswith("more\n")
    with (work / name).open("a") as file:
        file.write("the host's\n")

    if verb == "apply":
        with pytest.raises(PolicyError, match="workspace has changed"):
            trial.apply()
    with pytest.raises(PolicyError, match="workspace has changed"):
        trial.undo()

    assert (work / name).read_text().endswith("more\nthe host's\n")


def test_what_an_exchange_brought_out_by_chance_is_put_back(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before it could look what that was."""
    monkeypatch.setattr(exchange, "_LEAST", 1)
    real = exchange.load_exchange(1)
    assert real is not None
    assert trial.run("echo more >> README").ok
    (work / "new").write_text("the host's\n")

    def swap(*places: Any) -> None:
        (work / "new").rename(work / "README")
        real(*places)
        _die()

    _killed_at(carry_out, "load_exchange", trial, lambda _: swap)
    assert (work / "README").read_text() == "read me\nmore\n"

    with pytest.raises(PolicyError, match="workspace has changed"):
        trial.apply()

    assert (work / "README").read_text() == "the host's\n"
    trial.undo()
    assert (work / "README").read_text() == "the host's\n"


def test_what_the_host_removes_before_it_is_kept_stops_no_undo(trial: Trial, work: Path) -> None:
    assert trial.run("rm old/notes; echo n > new").ok
    _killed_at(carry_out.Carrier, "_keep", trial)
    (work / "old/notes").unlink()

    assert trial.apply().left == ()  # there is nothing to apply at that path any more
    assert (work / "new").exists()
    trial.undo()

    assert not (work / "new").exists()


def test_a_note_that_was_cut_off_is_not_written_upon(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk takes a part of it; when the file that was being made has gone, there is room again."""
    real, cut = os.write, [b'"staged", 1,']

    def write(handle: int, data: bytes) -> int:
        if cut and cut[0] in data:
            cut.pop()
            return real(handle, data[:-7])
        return real(handle, data)

    assert trial.run("for n in 1 2 3; do echo more > new$n; done").ok
    with monkeypatch.context() as patched, pytest.raises(SetupError, match="stopped"):
        patched.setattr(os, "write", write)
        trial.apply()
    assert not cut

    trial.apply()
    assert [(work / f"new{n}").read_text() for n in (1, 2, 3)] == ["more\n"] * 3
    trial.undo()
    assert not any((work / f"new{n}").exists() for n in (1, 2, 3))


def test_what_is_written_while_it_is_copied_is_seen_whatever_time_it_claims(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever has a descriptor of the file in the layer."""
    assert trial.run("echo more > new").ok
    layer = Path(trial.record.layers[0], "new")
    real = carry_out.copy_content

    def copy(*arguments: Any) -> None:
        real(*arguments)
        found = layer.stat()
        layer.write_text("evil\n")
        os.utime(layer, ns=(found.st_atime_ns, found.st_mtime_ns))

    monkeypatch.setattr(carry_out, "copy_content", copy)
    with pytest.raises(SetupError, match="changes while it is copied"):
        trial.apply()

    assert not (work / "new").exists()
