"""proc.hidden: the host's processes cannot be seen."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.bystanders import Victim
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.PROC_HIDDEN)


def test_no_arguments_of_a_host_process_can_be_read(backend: Case, stage: Stage, victim: Victim) -> None:
    listing = stage.work / "listing"

    done = attempt(
        backend,
        stage,
        shell("cat /proc/[0-9]*/cmdline > listing; true"),
        effect=lambda _: listing.exists() and victim.secret in listing.read_text(errors="replace"),
        reset=listing.unlink,
    )

    assert not done.worked


def test_no_environment_of_a_host_process_can_be_read(backend: Case, stage: Stage, victim: Victim) -> None:
    listing = stage.work / "listing"

    done = attempt(
        backend,
        stage,
        shell("cat /proc/$(cat pid)/environ > listing; true"),
        effect=lambda _: listing.exists() and victim.secret in listing.read_text(errors="replace"),
        reset=listing.unlink,
    )

    assert not done.worked


def test_a_host_process_has_no_entry_in_proc(backend: Case, stage: Stage, victim: Victim) -> None:
    """Not even its name: a process identifier tells that something runs."""
    mark = stage.work / "mark"

    done = attempt(
        backend,
        stage,
        shell("test -d /proc/$(cat pid) && touch mark"),
        effect=lambda _: mark.exists(),
        reset=mark.unlink,
    )

    assert not done.worked
