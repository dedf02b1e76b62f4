"""Gates: what modules must not be able to do, tried on real ones. `corral selftest isolation` and the like.

Each check runs a module and looks at the host, or at what corral itself has told; never at what the module
says.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import closing, suppress

from corral.model.errors import CorralError, ModuleTrap
from corral.model.feature import Feature
from corral.model.record import Record
from corral.model.result import Outcome
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from corral.wasm.module_sandbox import ModuleSandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from corral.model.result import Result

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tool.wat")
_CALLER = b"""(module (import "parser" "double" (func $double (param i32) (result i32)))
  (func (export "twice") (param i32) (result i32) (call $double (call $double (local.get 0)))))"""
_PARSER = b'(module (func (export "double") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2))))'
_LOGGER = (
    b'(module (import "host" "log" (func $log (param i32))) (func (export "say") (call $log (i32.const 7))))'
)
_CONTENT = "a secret of the host"
_MEMORY_BYTES, _PAGE_BYTES = 1 << 20, 1 << 16


class GateReport(Record):
    title: str
    held: bool
    detail: str = ""


class _Stage:
    """Directories of one check: one that is granted, and what lies around it."""

    def __init__(self, directory: str) -> None:
        self.work, self.outside = os.path.join(directory, "work"), os.path.join(directory, "outside")
        for path in (self.work, self.outside, os.path.join(self.work, "kept")):
            os.mkdir(path)
        with open(os.path.join(self.outside, "key"), "w", encoding="ascii") as file:
            file.write(_CONTENT)

    def run(self, *words: str, grants: tuple[str, ...] = (), writes: bool = True) -> Result:
        """Run the tool with a policy of its own: the directory, and what else is granted."""
        access = "write" if writes else "read"
        policy = build_policy("strict", [f"filesystem:{access}:{self.work}", "time:limit:20s", *grants])
        return Sandbox(policy, backend="wasm", workspace=self.work).run([TOOL, *words])

    def read(self, *names: str) -> str:
        """What a file of the host holds; empty if it is not there."""
        try:
            with open(os.path.join(*names), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""


def _isolation(stage: _Stage) -> Iterator[GateReport]:
    done = stage.run("r", "../outside/key")
    yield GateReport("a file outside cannot be read", _CONTENT not in done.stdout)
    os.symlink(stage.outside, os.path.join(stage.work, "link"))
    done = stage.run("r", "link/key")
    yield GateReport("a link does not lead outside", _CONTENT not in done.stdout)
    stage.run("w", "../outside/new", "planted")
    yield GateReport("nothing outside can be written", not stage.read(stage.outside, "new"))
    stage.run("w", "new", "planted", writes=False)
    yield GateReport("what may only be read cannot be written", not stage.read(stage.work, "new"))
    kept = os.path.join(stage.work, "kept")
    with open(os.path.join(kept, "file"), "w", encoding="ascii") as file:
        file.write("original")
    grants = (f"filesystem:read:{kept}",)
    stage.run("h", "kept/file", "second", grants=grants)
    stage.run("a", "second", "changed", grants=grants)
    stage.run("n", "kept/file", "moved", grants=grants)
    is_kept = stage.read(kept, "file") == "original" and not os.path.lexists(
        os.path.join(stage.work, "second")
    )
    yield GateReport("no second name makes a read-only file writable", is_kept)
    stage.run("s", "/etc", "out")
    yield GateReport("no link out can be made", not os.path.lexists(os.path.join(stage.work, "out")))
    stage.run("w", ".bashrc", "planted")
    yield GateReport("files that the host runs later are not planted", not stage.read(stage.work, ".bashrc"))
    done = stage.run("e", grants=("env:set:SEEN=yes",))
    is_clean = "SEEN=yes" in done.stdout and "CORRAL_LAUNCHER" not in done.stdout
    yield GateReport("only permitted variables are passed", is_clean)


def _limits(stage: _Stage) -> Iterator[GateReport]:
    done = stage.run("i", grants=("time:limit:1s",))
    yield GateReport("a loop ends when the time is over", done.outcome is Outcome.TIMED_OUT)
    done = stage.run("z", grants=("time:limit:1s",))
    yield GateReport("so does a sleep", done.outcome is Outcome.TIMED_OUT)
    done = stage.run("i", grants=("cpu:time:500ms",))
    yield GateReport("a loop ends when its processor time is used up", done.outcome is Outcome.CPU_LIMIT)
    done = stage.run("g", grants=("memory:limit:1MiB",))
    pages = ord(done.stdout[-1:] or "\0") - ord("A")
    detail = f"{pages} pages of {_MEMORY_BYTES // _PAGE_BYTES}"
    yield GateReport("memory is exact, to the page", pages * _PAGE_BYTES == _MEMORY_BYTES, detail)
    stage.run("f", "big", grants=("file:limit:100KB",))
    size = len(stage.read(stage.work, "big"))
    yield GateReport("a file grows to its limit, to the byte", size == 100_000, f"{size} bytes")
    done = stage.run("o", "kept", grants=("files:limit:20",))
    yield GateReport("the table of files has an end", done.outcome is Outcome.EXITED)
    done = stage.run("p", grants=("output:limit:1MB",))
    yield GateReport("output ends at its limit", done.outcome is Outcome.OUTPUT_LIMIT)
    done = stage.run("R")
    yield GateReport("recursion ends in a trap", done.exit_code == 134)


def _capabilities(stage: _Stage) -> Iterator[GateReport]:
    done = stage.run("w", "new", "text")
    yield GateReport("what is granted works", done.ok and stage.read(stage.work, "new") == "text")
    policy = build_policy("strict", ["module:call:parser", "module:call:host.log"])
    with closing(ModuleSandbox(_PARSER, name="parser")) as parser:
        yield GateReport("a module calls another that it was granted", _calls(parser, policy) == 12)
        yield GateReport("it cannot link to one that it was not granted", _refusal(parser) == "module-import")
    heard: list[int] = []
    offered: dict[str, Callable[..., Any]] = {"log": heard.append}
    with closing(
        ModuleSandbox(_LOGGER, policy=policy, request=["module:call:host.log"], functions=offered)
    ) as one:
        one.call("say")
    yield GateReport("a function of the host is called where it was granted", heard == [7])
    asked = ModuleSandbox(_PARSER, policy=policy, request=[f"filesystem:read:{stage.outside}"])
    is_cut = bool(asked.cuts) and not any(rule.path == stage.outside for rule in asked.policy.fs)
    yield GateReport("a module gets no more than its parent has", is_cut)


def _calls(parser: ModuleSandbox, policy: Any) -> int:
    with closing(
        ModuleSandbox(_CALLER, policy=policy, request=["module:call:parser"], modules={"parser": parser})
    ) as caller:
        return int(caller.call("twice", 3))


def _refusal(parser: ModuleSandbox) -> str:
    with closing(ModuleSandbox(_CALLER, request=[], modules={"parser": parser})) as caller:
        try:
            caller.call("twice", 3)
        except CorralError as problem:
            return problem.code
    return ""


def _violations(stage: _Stage) -> Iterator[GateReport]:
    done = stage.run("w", "new", "planted", writes=False)
    told = [each.feature for each in done.violations]
    yield GateReport("a refused call is a violation, observed", Feature.FS_WRITE in told)
    done = stage.run("N")
    yield GateReport("so is a socket", Feature.NET_NONE in [each.feature for each in done.violations])
    heard: list[Any] = []
    caller = ModuleSandbox(_CALLER, request=[], on_event=heard.append)
    with closing(caller), suppress(CorralError):
        caller.call("twice", 3)
    hints = [event.hint for event in heard]
    yield GateReport("so is an import that no capability grants", hints == ["module:call:parser"])
    done = stage.run("x")
    yield GateReport(
        "a trap names the functions it was in", "fall_over" in done.stderr and done.exit_code == 134
    )
    with closing(
        ModuleSandbox(b'(module (func $deep unreachable) (func (export "go") (call $deep)))')
    ) as one:
        yield GateReport("also where one is called", "deep" in _backtrace(one))


def _backtrace(module: ModuleSandbox) -> str:
    try:
        module.call("go")
    except ModuleTrap as trap:
        return trap.backtrace
    return ""


GATES: dict[str, Callable[[_Stage], Iterator[GateReport]]] = {
    "isolation": _isolation,
    "limits": _limits,
    "capabilities": _capabilities,
    "violations": _violations,
}


def run_gate(name: str) -> Iterator[GateReport]:
    """The checks of one gate, as they are done. Raises CorralError if modules cannot be run here."""
    with tempfile.TemporaryDirectory(prefix="corral-gate-") as directory:
        yield from GATES[name](_Stage(os.path.realpath(directory)))
