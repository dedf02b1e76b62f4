"""WASM: a WebAssembly module, run by wasmtime in a separate process. Only by name, never by `auto`.

Guarantees   all guarantees for files and processes, net.none, and every limit but those on private areas and
             traffic
Mechanism    a module can only call the functions of WASI preview 1, which corral itself provides and which
             check the policy at every call; memory by the engine's own limits, time by its epochs
Not covered  any network; holes of wasmtime itself; commands that are not modules; limit.disk. limit.memory
             does not include the process around the module (some 60 MB)
Order        irrelevant: for each path the deepest rule decides, and a denial overrides it
"""

from __future__ import annotations

from corral.backends import _gateway as gateway
from corral.model.errors import UnenforceableError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.launch import Launch
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.probe import Dependence, Probe
from corral.wasi.task import PRIVATE, READ, WRITE, GuestPlace, HeldPaths, Task, bounds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.backend import Host
    from corral.model.plan import Plan, ResolvedPolicy

_BY_WASI = "corral's own WASI functions"
_NO_CALL = "there is no such call in WASI"
_MECHANISMS = {
    Feature.FS_READ: f"{_BY_WASI}: paths are walked in the granted directories alone",
    Feature.FS_WRITE: f"{_BY_WASI}: read-only unless granted; no link or move out of a grant",
    Feature.FS_METADATA: f"{_BY_WASI}: times alone can be set, of what is writable",
    Feature.FS_DENY: f"{_BY_WASI}: judged at every call",
    Feature.FS_PROTECT: f"{_BY_WASI}: no such name can be made, changed or moved",
    Feature.FS_PRIVATE: "fresh directories under the same names",
    Feature.NET_NONE: _NO_CALL,
    Feature.PROC_HIDDEN: _NO_CALL,
    Feature.PROC_SHIELDED: _NO_CALL,
    Feature.PROC_CONTAINED: "a module is one process, which ends with corral",
    Feature.PROC_SINGLE: _NO_CALL,
    Feature.IPC_PRIVATE: _NO_CALL,
    Feature.PRIVILEGES: _NO_CALL,
    Feature.SYSCALLS: "a module makes no system calls",
    Feature.DESCRIPTORS: "the module's descriptors are numbers in a table of corral's",
    Feature.TERMINAL: _NO_CALL,
    Feature.LIMIT_MEMORY: "limits of wasmtime's store, for its one memory and its tables",
    Feature.LIMIT_CPU: "one thread, which waits at every tick while it is ahead",
    Feature.LIMIT_CPU_TIME: "wasmtime's epochs, by a thread that ticks",
    Feature.LIMIT_PIDS: _NO_CALL,
    Feature.LIMIT_FILE_SIZE: f"{_BY_WASI}: counted before it is written",
    Feature.LIMIT_OPEN_FILES: f"{_BY_WASI}: the table has no more room",
}
#: The most that it claims on any host.
CLAIMS = RUNNER_FEATURES | frozenset(_MECHANISMS)
CONDITIONS = ()
RUNNER, CACHE, PYTHON = "runner", "cache", "python"
#: Commands that stand for the Python for WASI.
_PYTHONS = frozenset({"python", "python3"})
_SEPARATOR = "\t"


class WasmBackend:
    name = "wasm"
    depends = Dependence(variables=("CORRAL_PYTHON_WASM", "XDG_DATA_HOME", "HOME"))

    def probe(self, host: Host) -> Probe:
        """Run a module that never ends, and one that wants too much memory."""
        if host.platform != "linux":
            fix = "use corral on Linux, or the instance `default` of Lima"
            return Probe(self.name, False, reason="the process that runs modules is for Linux", fix=fix)
        runner = host.module_runner()
        if runner.reason:
            return Probe(self.name, False, reason=runner.reason, fix=runner.fix)
        tried = host.run_tool((*runner.argv, "--probe"), seconds=60.0)
        words = tried.output.split()
        if tried.status != 0 or words[:1] != ["wasmtime"] or words[2:] != ["bounded"]:
            why = tried.errors.strip().rpartition("\n")[2] or f"exit status {tried.status}"
            fix = "pip install --upgrade --force-reinstall 'corral[wasm]'"
            return Probe(self.name, False, reason=f"wasmtime does not work here: {why}", fix=fix)
        return Probe(
            self.name,
            True,
            CLAIMS,
            version=f"wasmtime {words[1]}",
            details=((RUNNER, _SEPARATOR.join(runner.argv)), (CACHE, runner.cache), (PYTHON, runner.python)),
        )

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """The module with its task, for the process that runs it."""
        resolved = plan.resolved
        _refuse(plan)
        gateway.refuse_published(resolved, self.name)
        scratch = f"{resolved.scratch}/corral-{plan.run_id}" if resolved.private else ""
        command = plan.command
        task = Task(
            module=probe.detail(PYTHON)
            if command.argv[0] in _PYTHONS
            else _joined(command.cwd, command.argv[0]),
            arguments=command.argv,
            environment=plan.env,
            places=(*_grants(resolved), *_private(resolved, scratch)),
            held=_held(plan),
            links=tuple((link.path, link.text) for link in resolved.links),
            directory=command.cwd,
            bounds=bounds_of(resolved.limits),
            cache=probe.detail(CACHE),
        )
        return Launch(
            backend=self.name,
            argv=tuple(probe.detail(RUNNER).split(_SEPARATOR)),
            env=(),
            enforced=dict(_MECHANISMS),
            spec=task.encode(),
            scratch=scratch,
        )


def _refuse(plan: Plan) -> None:
    resolved = plan.resolved
    if plan.command.keeps:
        raise UnenforceableError(
            "unenforceable",
            "the backend wasm keeps no sandbox for commands",
            why="it runs one module from its beginning to its end",
            fix="keep a module instead: corral.ModuleSandbox, or corral.wasm.PythonSandbox",
        )
    if resolved.deny_syscalls:
        raise UnenforceableError(
            "unenforceable",
            "the policy's system calls cannot be denied to a module",
            why=f"a module makes none, so none can be denied: {', '.join(sorted(resolved.deny_syscalls))}",
            fix="leave syscall:deny out: a module reaches nothing but what its capabilities grant",
            lacking=frozenset({Feature.SYSCALLS}),
        )


def _joined(directory: str, path: str) -> str:
    return path if path.startswith("/") else f"{directory.rstrip('/')}/{path}"


def _grants(resolved: ResolvedPolicy) -> Iterator[GuestPlace]:
    """What was granted by somebody; programs of the system are of no use to a module."""
    areas = frozenset(resolved.private)
    for grant in resolved.grants:
        target = grant.target
        if grant.is_system or target.kind is PathKind.MISSING or target.path in areas:
            continue
        access = WRITE if grant.access is FsAccess.WRITE else READ
        is_file = target.kind is PathKind.FILE
        yield GuestPlace(target.path, target.path, access, target.device, target.inode, is_file)


def _private(resolved: ResolvedPolicy, scratch: str) -> Iterator[GuestPlace]:
    for number, area in enumerate(resolved.private):
        yield GuestPlace(area, f"{scratch}/{number}", PRIVATE)


def _held(plan: Plan) -> HeldPaths:
    resolved = plan.resolved
    watched = [watch for watch in plan.watches if not watch.is_repository]
    return HeldPaths(
        denied=(*(target.path for target in resolved.denied), *resolved.denied_links),
        read_only=(
            *(shield.target.path for shield in plan.shields),
            *(f"{watch.directory}/{watch.name}" for watch in watched if watch.link_text),
        ),
        absent=tuple(f"{watch.directory}/{watch.name}" for watch in watched if not watch.link_text),
        pinned=tuple(pin.path for pin in plan.pins),
    )
