"""Trial: commands that work on a layer over the workspace, which is applied or thrown away."""

from __future__ import annotations

from contextlib import contextmanager

from corral.model.errors import SessionClosed
from corral.trials.apply import Applied, Prefer, apply_trial, undo_trial
from corral.trials.base import Bases
from corral.trials.changes import find_changes
from corral.trials.record import hold_trial, make_trial, now_ns, wait_beyond
from corral.trials.shelf import discard_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from corral.model.event import Listener
    from corral.model.result import Result
    from corral.sandbox import Sandbox
    from corral.sessions.session import Session
    from corral.streams.destinations import Stream
    from corral.trials.change import TrialChange
    from corral.trials.record import TrialRecord


class Trial:
    """A layer over the workspace of a sandbox, and what commands wrote there. For one thread at a time."""

    def __init__(self, sandbox: Sandbox, record: TrialRecord) -> None:
        self._sandbox, self.record = sandbox.on_trial(record.mounted), record
        self._is_kept = self._is_gone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        with self.hold():
            output = {"stream": stream, "on_event": on_event}
            return self._sandbox.run(command, cwd=cwd, env=env, stdin=stdin, timeout=timeout, **output)  # type: ignore[arg-type]

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session on this trial, for many commands; nothing else has the trial meanwhile."""
        with self.hold(), self._sandbox.session() as session:
            yield session

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Have it for one command; what that wrote is compared with the workspace in the end."""
        self._check_there()
        with hold_trial(self.record):
            wait_beyond(self.record.began_ns)
            try:
                yield
            finally:
                Bases(self.record).settle()

    def changes(self) -> tuple[TrialChange, ...]:
        """How the workspace would be different, if all of it were applied now."""
        self._check_there()
        return tuple(find_changes(self.record))

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


def begin_trial(sandbox: Sandbox, command: str = "") -> Trial:
    """An empty layer over the workspace of a sandbox. Raises PolicyError, SetupError."""
    began = now_ns()  # ORDER: first; what the host changes from now on is seen
    scope = sandbox.planner.trial_scope()
    record = make_trial(
        *(scope.root, sandbox.workspace),
        began_ns=began,
        command=command,
        protect=tuple(sorted(sandbox.policy.protect)),
        protected=scope.protected,
        direct=scope.direct,
    )
    return Trial(sandbox, record)
