"""Shelf: the trials that are kept, found by their id or their workspace, listed and thrown away."""

from __future__ import annotations

import contextlib
import os

from corral.model.errors import PolicyError, SetupError
from corral.trials.changes import MOST_DEPTH
from corral.trials.record import hold_trial, read_record, remove_unused_layers, trials_directory
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.trials.record import TrialRecord


def list_trials(workspace: str | None = None) -> list[TrialRecord]:
    """All, or those of one workspace, the latest first."""
    place = trials_directory()
    try:
        names = os.listdir(place)
    except FileNotFoundError:
        return []
    found = [record for name in names if (record := read_record(os.path.join(place, name))) is not None]
    if workspace is not None:
        found = [record for record in found if record.workspace == workspace]
    return sorted(found, key=lambda record: record.began_ns, reverse=True)


def find_trial(identity: str | None, workspace: str) -> TrialRecord:
    """The trial with an id, which may be abbreviated; without one the last of the workspace."""
    if identity is None:
        own = list_trials(workspace)
        if own:
            return own[0]
        raise PolicyError(
            "trial-unknown",
            "there is no trial of this workspace",
            why=f"none was kept for {workspace}",
            fix="run `corral try -- COMMAND` here; `corral trials --all` lists those of other workspaces",
        )
    fitting = [record for record in list_trials() if record.identity.startswith(identity)]
    if len(fitting) == 1:
        return fitting[0]
    why = f"there are {len(fitting)} whose id begins so" if fitting else "no id begins with that"
    raise PolicyError(
        "trial-unknown", f"no trial {identity!r}", why=why, fix="`corral trials --all` lists all trials"
    )


def discard_trial(record: TrialRecord) -> None:
    """Throw a trial away, with what is needed to undo its applies. Raises PolicyError if it is in use."""
    with hold_trial(record):
        place, name = os.path.split(record.directory)
        try:
            remove_tree(place, name)
            if record.lowers:
                remove_unused_layers(place)
        except OSError as problem:
            raise SetupError(
                "trial-place",
                f"trial {record.identity} could not be removed",
                why=f"{record.directory}: {problem.strerror or problem}",
                fix="remove the directory by hand",
                ran=True,
            ) from None


def measure_trial(record: TrialRecord) -> int:
    """Bytes on the disk that its own layer takes. A file with many names counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for status in _statuses(record.layers[0]):
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            total += status.st_blocks * 512
    return total


def _statuses(top: str) -> Iterator[os.stat_result]:
    """Without what lies deeper than anybody works: to go there takes a call for each level."""
    for directory, directories, names, handle in os.fwalk(top, follow_symlinks=False):
        if directory.count("/") - top.count("/") >= MOST_DEPTH:
            directories.clear()
        for name in names:
            with contextlib.suppress(OSError):
                yield os.stat(name, dir_fd=handle, follow_symlinks=False)
