"""ModuleSandbox: a WebAssembly module, with what it asks for as far as its parent has it, to be called."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref

from corral.model.errors import CallError, ModuleTrap, PolicyError, UnenforceableError
from corral.model.event import event_of
from corral.model.feature import Feature
from corral.model.policy import Policy, Response
from corral.model.record import Record
from corral.model.rules.inheritance import Inheritance
from corral.model.violation import Evidence, Violation
from corral.policy.preset import load_preset
from corral.runtime.scratch import Scratch
from corral.sandbox import Sandbox
from corral.wasi.answer import wrong_call
from corral.wasi.task import PRIVATE, decode
from corral.wasm.manifest import load_module
from corral.wasm.offers import Offered
from corral.wasm.place import InlinePlace, ModulePlace, WorkerPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Self

    from corral.model.event import Event, Listener
    from corral.model.launch import Launch
    from corral.model.rules.capability import Capability
    from corral.model.rules.inheritance import Cut
    from corral.wasi.task import Task

_MOST_EVENTS = 256
#: What nobody looks into afterwards, as the runner of commands does. With a HEAD, git takes a directory of
#: any name for a repository, and runs what its settings say.
_NEVER_MADE = (".git", "HEAD")


#: Nothing is left behind by one that its owner forgot to close.
_open: weakref.WeakSet[ModuleSandbox] = weakref.WeakSet()


def _close_all() -> None:
    for each in tuple(_open):
        each.close()


atexit.register(_close_all)


class ModuleRun(Record):
    """What became of a command that a module is."""

    exit_status: int
    stdout: bytes
    stderr: bytes


class ModuleSandbox:
    """A module in a process of its own, or with `inline=True` in the caller's.

    `module` is bytes, or the path of a .wasm or .wat file. What it may do is `policy & request`: the request
    is what its manifest asks for, unless `request` says otherwise, and `cuts` has what was refused of it.
    With `as_parent` it may do all that the policy permits, whatever it asks for.
    `functions` are Python callables for its imports from `host`, each under the capability
    `module:call:host.NAME`; `modules` are others whose functions it may call, under `module:call:NAME`.

    One instance is kept: what a call leaves in its memory, the next one finds. After a trap, a limit or
    `reset()` there is a new one. Limits of time count for each call. With `fuel` a run is bounded by what it
    computes, with `seed` its random numbers are the same each time, and so is its clock with
    `clock="frozen"`.

    A worker costs some 100 ms when it starts and 0.2 ms for each call. Inline a call costs microseconds; but
    a fault of the engine is then a fault of the caller, and a call of the host that hangs cannot be ended.
    """

    def __init__(
        self,
        module: bytes | str | os.PathLike[str],
        *,
        policy: Policy | str = "strict",
        request: Iterable[str | Capability] | None = None,
        name: str = "",
        workspace: str | os.PathLike[str] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        modules: Mapping[str, ModuleSandbox] | None = None,
        inline: bool = False,
        fuel: int | None = None,
        seed: int | None = None,
        clock: str = "host",
        as_parent: bool = False,
        on_event: Listener | None = None,
    ) -> None:
        loaded = load_module(module, name)
        parent = policy if isinstance(policy, Policy) else load_preset(policy)
        asked = loaded.request if request is None else tuple(request)
        inheritance = Inheritance(parent) if as_parent else parent.grant(asked)
        self.name, self.manifest = loaded.name, loaded.source
        self.policy: Policy = inheritance.policy
        self.cuts: tuple[Cut, ...] = inheritance.cuts
        self._binary, self._listener = loaded.binary, on_event
        self._events: list[Event] = []
        self._lock, self._caller = threading.RLock(), 0
        _check_options(clock, fuel)
        _check_response(self.policy.response)
        self._offered = Offered(functions or {}, modules or {}, self.policy.modules)
        sandbox = Sandbox(self.policy, backend="wasm", workspace=workspace)
        explained = sandbox.explain((loaded.name,))
        _check_patterns(explained.plan.searches)
        self._launch = explained.launch
        task = decode(explained.launch.spec or b"")
        self._task = task.replace(
            bounds=task.bounds.replace(fuel=fuel, output_bytes=self.policy.limits.output_bytes),
            held=task.held.replace(names=_NEVER_MADE),
            seed=seed,
            clock=clock,
        )
        self._inline = inline
        self._place: ModulePlace | None = None
        self._scratch: Scratch | None = None
        self.output = b""  # what the last call printed
        self.fuel_left: int | None = fuel

    # Calling

    def call(self, function: str, *arguments: float) -> Any:
        """Call a function that the module exports, with numbers.

        Raises PolicyError for what it does not export or take, and for an import that nobody offers;
        ModuleTrap if it does not return; SetupError if there is nothing to run it.
        """
        return self.call_within(function, arguments, None)

    def call_within(self, function: str, arguments: Iterable[Any], seconds: float | None) -> Any:
        """The same, and within so many seconds: what a module has left that calls another."""
        with self._lock:
            answer = self._turn(function, lambda place: place.call(function, list(arguments), seconds))
            return self._read(function, answer)

    def run(self, *arguments: str, timeout: float | None = None) -> ModuleRun:
        """Run a WASI command from its beginning to its end, in an instance of its own. Raises as `call`."""
        with self._lock:
            words = [self.name, *arguments]
            answer = self._turn("_start", lambda place: place.run(words, timeout))
            status = answer.pop("exit", 0)
            self._read("_start", answer)
            streams = {1: b"", 2: b""}
            for number, text in answer.get("output", ()):
                streams[number] += text.encode("latin-1")
            return ModuleRun(status, streams[1], streams[2])

    def _turn(self, function: str, act: Callable[[ModulePlace], dict[str, Any]]) -> dict[str, Any]:
        """One call at a time; a second one by the same thread is the module calling itself."""
        if self._caller:
            raise CallError(
                "module-busy",
                f"{self.name}.{function} was not called",
                why="the module is in the middle of a call",
                fix="let a module call others, and not itself by way of them",
            )
        self._caller = threading.get_ident()
        try:
            return act(self._opened())
        finally:
            self._caller = 0

    def _read(self, function: str, answer: dict[str, Any]) -> Any:
        self.output = b"".join(text.encode("latin-1") for _, text in answer.get("output", ()))
        self.fuel_left = answer.get("fuel", self.fuel_left)
        if "refused" in answer:
            raise _refused(answer["refused"])
        if "wrong" in answer:
            raise self._trap(function, *answer["wrong"])
        if "exit" in answer and answer["exit"] != 0:
            ended = wrong_call("module-exit", f"it ended with status {answer['exit']}")
            raise self._trap(function, *ended["wrong"])
        return answer.get("value")

    def _trap(self, function: str, code: str, why: str, backtrace: str) -> ModuleTrap:
        limit = why if code == "module-limit" else ""
        if limit:
            feature = _LIMITS.get(limit, Feature.LIMIT_CPU_TIME)
            self.hear(Violation(feature, self.name, Evidence.OBSERVED, f"its limit was reached: {limit}"))
            why = f"its limit was reached: {limit}"
        fix = "raise the limit, or let it do less" if limit else "read `error.backtrace`, and fix the module"
        what = f"{self.name}.{function} did not return"
        return ModuleTrap(code, what, why=why, fix=fix, backtrace=backtrace, limit=limit, output=self.output)

    def reset(self) -> None:
        """Forget the instance: the next call has a new one, with a memory of its own."""
        with self._lock:
            if self._place is not None:
                self._place.reset()

    # What it is

    def describe(self) -> dict[str, Any]:
        """Imports and exports with their types, as plain values."""
        with self._lock:
            return self._opened().description

    @property
    def events(self) -> tuple[Event, ...]:
        """What was refused and which limits were met, in order."""
        return tuple(self._events)

    def hear(self, violation: Violation) -> None:
        """Something was refused, just now."""
        event = event_of(violation)
        if len(self._events) < _MOST_EVENTS:
            self._events.append(event)
        if self._listener is not None:
            self._listener(event)

    def private_directory(self, path: str) -> str:
        """Where on the host the module's private directory of that name lies; empty if it has none."""
        found = [each.source for each in self._task.places if each.path == path and each.access == PRIVATE]
        return found[0] if found else ""

    def launch_and_task(self) -> tuple[Launch, Task]:
        """How its process is started and what it is told: for who only wants to look at the module."""
        return self._launch, self._task

    # From its beginning to its end

    def _opened(self) -> ModulePlace:
        if self._place is None:
            _open.add(self)
            self._scratch = Scratch(self._launch)
            self._scratch.__enter__()
            try:
                place = InlinePlace if self._inline else WorkerPlace
                self._place = place(
                    self._launch,
                    self._task,
                    self._binary,
                    name=self.name,
                    offered=self._offered,
                    hear=self.hear,
                )
            except BaseException:
                self.close()
                raise
        return self._place

    def close(self) -> None:
        """End its process, and remove what it kept in private directories."""
        place, self._place = self._place, None
        scratch, self._scratch = self._scratch, None
        if place is not None:
            place.close()
        if scratch is not None:
            scratch.__exit__(None, None, None)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # it may not even have been made
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_LIMITS = {
    "wall": Feature.LIMIT_WALL,
    "cpu-time": Feature.LIMIT_CPU_TIME,
    "fuel": Feature.LIMIT_CPU_TIME,
    "output": Feature.LIMIT_OUTPUT,
}


def _refused(told: list[Any]) -> PolicyError:
    code, what, why, fix, _ = told
    return PolicyError(str(code), str(what), why=str(why), fix=str(fix))


def _check_options(clock: str, fuel: int | None) -> None:
    if clock not in {"host", "frozen"}:
        raise PolicyError(
            "argument", f"clock={clock!r} means nothing", why="it is host or frozen", fix="choose one"
        )
    if fuel is not None and (not isinstance(fuel, int) or isinstance(fuel, bool) or fuel < 1):
        raise PolicyError(
            "argument", f"fuel={fuel!r} means nothing", why="it is a number", fix="fuel=1_000_000"
        )


def _check_response(response: Response) -> None:
    if response not in {Response.DENY, Response.WARN}:
        raise PolicyError(
            "refusal-module",
            f"refusal:{response.value} cannot be held for a module that is kept",
            why="a refused call fails, and the module continues; nothing slows, ends or freezes it",
            fix="leave it out and use on_event, or run it as a command: corral run --backend wasm",
        )


def _check_patterns(searches: tuple[object, ...]) -> None:
    if searches:
        raise UnenforceableError(
            "unenforceable",
            "patterns in writable directories cannot be held for a module that is kept",
            why="what a module makes is judged by its path alone",
            fix="name the paths, or run it as a command: corral run --backend wasm",
            lacking=frozenset({Feature.FS_DENY, Feature.FS_PROTECT}),
        )
