"""Functions: the calls of Python functions in one sandbox, each in a fresh worker of its own."""

from __future__ import annotations

import os

from corral.model.decision import Reason
from corral.model.errors import PolicyError
from corral.model.record import Record
from corral.model.rules.capability import Capability, PolicyDraft
from corral.model.rules.pattern import escape
from corral.parallel.calls.answer import Answer
from corral.parallel.calls.codec import Bounds, CodecError, encode
from corral.parallel.calls.interpreter import build_program, describe_place, find_interpreter
from corral.parallel.calls.reference import refer, take_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.parallel.calls.interpreter import Interpreter
    from corral.parallel.calls.reference import Reference
    from corral.sandbox import Sandbox

#: Backends whose sandbox has programs of its own, and not the caller's Python.
_OTHER_SYSTEMS = frozenset({"docker", "podman", "lima"})
#: What a call takes besides its arguments: names and a search path, in bytes, and more than enough in values.
_ENVELOPE = 1 << 20


class Call(Record):
    """One call, ready to be given to a worker."""

    argv: tuple[str, ...]
    stdin: bytes
    answer: Answer


class Functions:
    """Makes calls of functions. `sandbox` is where their workers run: it can read the caller's Python too."""

    def __init__(
        self, sandbox: Sandbox, bounds: Bounds, output: Callable[[bytes], object] | None = None
    ) -> None:
        interpreter = find_interpreter()
        self.sandbox = _open_for(sandbox, interpreter)
        _check_backend(self.sandbox, interpreter)
        self._argv = interpreter.argv
        self._bounds = bounds
        self._output = output
        self._program = build_program()
        self._visible: set[str] = set()

    def prepare(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Bring a call into the form that travels. Raises PolicyError if it cannot."""
        function, args, kwargs = take_apart(function, args, kwargs)
        reference = refer(function)
        self._check_visible(reference)
        token = os.urandom(16)
        bounds = self._bounds
        for_result = (bounds.size, bounds.values, bounds.depth, bounds.seconds)
        call = (token, for_result, describe_place(), reference.to_plain(), args, kwargs)
        try:
            sent = encode(call, Bounds(bounds.size + _ENVELOPE, bounds.values + _ENVELOPE, bounds.depth))
        except CodecError as problem:
            raise PolicyError(
                "argument-refused",
                f"the arguments of {reference.module}.{reference.name} cannot be sent to a worker",
                why=str(problem),
                fix="give plain values: numbers, text, bytes, lists, tuples, dicts, sets, dates, paths",
            ) from None
        return Call(self._argv, self._program + sent, Answer(token, self._bounds, self._output))

    def _check_visible(self, reference: Reference) -> None:
        """Said before a worker is started: what it would say itself is that there is no such module."""
        if not reference.file or reference.file in self._visible:
            return
        if not self.sandbox.decide_path(reference.file).allowed:
            directory = os.path.dirname(reference.file)
            raise PolicyError(
                "function-hidden",
                f"{reference.module}.{reference.name} cannot be found in the sandbox",
                why=f"{reference.file} cannot be read there",
                fix=f"grant filesystem:read:{directory}, or make that directory the workspace",
            )
        self._visible.add(reference.file)


def _open_for(sandbox: Sandbox, interpreter: Interpreter) -> Sandbox:
    """The same sandbox, with read access to what the interpreter consists of; nothing that is denied."""
    lacking = []
    for path in interpreter.reads:
        decision = sandbox.decide_path(path)
        if not decision.allowed and decision.reason is not Reason.DENIED:
            lacking.append(path)
    if not lacking:
        return sandbox
    draft = PolicyDraft(sandbox.policy)
    for path in lacking:
        draft.add(Capability("filesystem", "read", escape(path)))
    return sandbox.with_policy(draft.build())


def _check_backend(sandbox: Sandbox, interpreter: Interpreter) -> None:
    backend = sandbox.explain(interpreter.argv).launch.backend
    if backend in _OTHER_SYSTEMS:
        raise PolicyError(
            "function-backend",
            f"functions cannot be run by the backend {backend}",
            why="its sandbox has its own programs, and not this Python",
            fix="choose another backend, or run a command: `executor.execute(...)`",
        )
