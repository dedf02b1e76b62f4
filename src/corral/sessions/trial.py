"""Trial: commands that work on a layer over the workspace, which is applied or thrown away."""

from __future__ import annotations

from contextlib import contextmanager

from corral.model.errors import PolicyError, SessionClosed
from corral.model.record import Record
from corral.pipeline.arguments import destinations_of
from corral.trials.apply import Applied, Prefer, apply_trial, undo_trial
from corral.trials.base import Bases, copy_bases
from corral.trials.changes import find_changes
from corral.trials.git.plan import find_git_changes
from corral.trials.git.state import GitBases, copy_git_bases, find_repositories
from corral.trials.record import (
    TrialRecord,
    check_room,
    freeze_layer,
    has_written,
    hold_trial,
    make_trial,
    now_ns,
    put_back,
    reading_trial,
    wait_beyond,
    write_record,
)
from corral.trials.shelf import discard_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Self

    from corral.model.event import Listener
    from corral.model.plan import TrialLayers
    from corral.model.result import Result
    from corral.sandbox import Sandbox
    from corral.sessions.session import Session
    from corral.streams.destinations import Stream
    from corral.trials.change import TrialChange
    from corral.trials.git.plan import GitChanges
    from corral.trials.memory import LayerSocket
    from corral.trials.record import LayerSize


class Snapshot(Record):
    """What a trial had written at some moment."""

    layers: tuple[str, ...]  # frozen, from the top down
    used: tuple[int, int] = (0, 0)  # bytes and files, of a trial that has a size


class Trial:
    """A layer over the workspace of a sandbox, and what commands wrote there. For one thread at a time."""

    def __init__(self, sandbox: Sandbox, record: TrialRecord) -> None:
        self._base = sandbox
        self._socket: LayerSocket | None = None  # where layers in memory come in, while commands run
        self._become(record)
        self._is_kept = self._is_gone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_kept and not self._is_gone:
            self.discard()

    @property
    def id(self) -> str:
        """By which `corral changes`, `apply` and the others find it, if it is kept."""
        return self.record.identity

    def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | str = b"",
        timeout: float | None = None,
        stream: Stream | None = None,
        on_event: Listener | None = None,
    ) -> Result:
        """Run a command that sees the workspace with all that this trial has written; see `Sandbox.run`.

        Every command has a sandbox of its own, one after the other.
        """
        with self.hold(waits=False):
            sandbox = self.sandbox.narrowed(timeout, env)
            prepared = sandbox.read_command(command, cwd=cwd, stdin=stdin)
            planned = sandbox.prepare(prepared, destinations_of(stream, None, None))
            planned.listen(on_event)
            wait_beyond(self.record.began_ns)  # ORDER: after planning, which takes about as long
            return planned.run()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session on this trial, for many commands; nothing else has the trial meanwhile."""
        with self.hold(), self.sandbox.session() as session:
            yield session

    @contextmanager
    def hold(self, *, waits: bool = True) -> Iterator[None]:
        """Have it for one command; what that wrote is compared with the workspace in the end."""
        self._check_there()
        with hold_trial(self.record), self._receiving():
            if waits:
                wait_beyond(self.record.began_ns)
            try:
                yield
            finally:
                self._keep_layer()
                Bases(self.record).settle(find_changes(self.record))

    @contextmanager
    def _receiving(self) -> Iterator[None]:
        """Be there for layers in memory; what an earlier one had is below the next, and counts."""
        if not self.record.size_bytes:
            yield
            return
        from corral.trials.memory import LayerSocket

        with reading_trial(self.record):
            self._freeze_written()
            self._socket = LayerSocket(self.record)
        try:
            yield
        finally:
            self._socket.close()
            self._socket = None

    def _keep_layer(self) -> None:
        if self._socket is not None:
            record = self._socket.keep(self.record)
            if record is not self.record:
                write_record(record)
                self._become(record)

    def _freeze_written(self) -> None:
        if has_written(self.record):
            self._become(freeze_layer(self.record))
        check_room(self.record)

    def _renew(self) -> TrialLayers:
        """For a sandbox that takes the place of another one: with what commands have written there."""
        if self._socket is not None:
            self._keep_layer()
            self._freeze_written()
        return self.record.mounted

    def changes(self) -> tuple[TrialChange, ...]:
        """How the workspace would be different, if all of it were applied now."""
        self._check_there()
        return tuple(find_changes(self.record))

    def git_changes(self) -> tuple[GitChanges, ...]:
        """What `apply` would do to repositories of the workspace: references, HEAD, stash, index."""
        self._check_there()
        return find_git_changes(self.record)

    def apply(
        self,
        paths: Collection[str] = (),
        *,
        without: Collection[str] = (),
        protected: Collection[str] = (),
        prefer: Prefer | str = Prefer.NEITHER,
    ) -> Applied:
        """Take changes over into the workspace: all, or those at some paths. See `corral apply`."""
        self._check_there()
        return apply_trial(self.record, paths, without=without, protected=protected, prefer=Prefer(prefer))

    def undo(self, prefer: Prefer | str = Prefer.NEITHER) -> tuple[str, ...]:
        """Put back what the last `apply` changed; returns the paths."""
        self._check_there()
        return undo_trial(self.record, Prefer(prefer))

    def fork(self) -> Trial:
        """Another trial that begins with all that this one has written. From now on each goes its own way."""
        self.snapshot()
        record = self.record
        made = make_trial(record)
        copy_bases(record, made)
        copy_git_bases(record, made)
        return Trial(self._base, made)

    def snapshot(self) -> Snapshot:
        """What is written so far, to come back to by `rollback`."""
        self._check_there()
        with reading_trial(self.record), hold_trial(self.record):
            self._become(freeze_layer(self.record))
        return Snapshot(self.record.lowers, (self.record.used_bytes, self.record.used_files))

    def rollback(self, snapshot: Snapshot) -> None:
        """Forget what was written since a snapshot of this trial, or of the one that it was forked from."""
        self._check_there()
        with reading_trial(self.record), hold_trial(self.record):
            if snapshot.layers != self.record.lowers[len(self.record.lowers) - len(snapshot.layers) :]:
                raise PolicyError(
                    "trial-snapshot",
                    f"this snapshot is not of trial {self.id}",
                    why="another trial was frozen for it, or the trial has gone back beyond it",
                    fix="give a snapshot of this very trial",
                )
            self._become(put_back(self.record, snapshot.layers, snapshot.used))

    def _become(self, record: TrialRecord) -> None:
        self.record = record
        self.sandbox = self._base.on_trial(record.mounted, self._renew)

    def keep(self) -> str:
        """Keep it when the block ends, for `corral apply` or a later program; returns its id."""
        self._is_kept = True
        return self.id

    def discard(self) -> None:
        """Throw it away. What was applied stays, and cannot be undone any more."""
        if not self._is_gone:
            discard_trial(self.record)
            self._is_gone = True

    def _check_there(self) -> None:
        if self._is_gone:
            raise SessionClosed()


def begin_trial(sandbox: Sandbox, command: str = "", size: LayerSize | None = None) -> Trial:
    """An empty layer over the workspace of a sandbox. Raises PolicyError, SetupError."""
    began = now_ns()  # ORDER: first; what the host changes from now on is seen
    scope = sandbox.planner.trial_scope()
    wanted = TrialRecord(
        *(scope.root.path, sandbox.workspace, scope.root.device, scope.root.inode, began),
        command=command,
        protect=tuple(sorted(sandbox.policy.protect)),
        protected=scope.protected,
        direct=scope.direct,
        repositories=find_repositories(scope.root.path, scope.worktrees),
        size_bytes=size.size_bytes if size is not None else 0,
        files=size.files if size is not None else 0,
    )
    record = make_trial(wanted)
    GitBases(record).begin(record.repositories)
    return Trial(sandbox, record)


def try_each(
    sandbox: Sandbox, commands: Sequence[str | Sequence[str]], size: LayerSize | None = None
) -> list[tuple[Trial, Result]]:
    """Each command on a trial of its own, all at once. If one cannot be run, all trials are thrown away."""
    from concurrent.futures import ThreadPoolExecutor

    trials: list[Trial] = []
    try:
        trials += [begin_trial(sandbox, size=size) for _ in commands]
        with ThreadPoolExecutor(max_workers=max(1, len(trials))) as pool:
            results = list(pool.map(lambda pair: pair[0].run(pair[1]), zip(trials, commands, strict=True)))
    except BaseException:
        for trial in trials:
            trial.discard()
        raise
    return list(zip(trials, results, strict=True))
