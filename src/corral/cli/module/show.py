"""What `corral module` does, and what it prints."""

from __future__ import annotations

import os
import sys

from corral.cli.options import defaults
from corral.cli.request import is_configured, load_request
from corral.cli.run import EventLines, print_json, report_error, say
from corral.model.errors import CorralError, PolicyError
from corral.model.plan import StdioMode
from corral.model.printable import printable
from corral.model.record import Record
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from corral.wasm.manifest import load_module
from corral.wasm.module_sandbox import ModuleSandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from corral.audit.recorder import Recorder
    from corral.model.policy import Policy
    from corral.model.rules.inheritance import Cut


class Parent(Record):
    """What may be granted to a module at most, as the command line says it."""

    profile: str
    cap: tuple[str, ...]
    cwd: str | None

    def policy(self) -> Policy:
        """Raises PolicyError."""
        return build_policy(self.profile, self.cap)


def inspect_module(file: str, parent: Parent, *, as_json: bool) -> int:
    """Everything that is known of a module before it runs. Nothing of it does."""
    try:
        loaded = load_module(file)
        cuts = parent.policy().grant(loaded.request).cuts
        described = _describe(file, parent.cwd)
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    asked = [str(each) for each in loaded.request]
    if as_json:
        refused = [{"capability": str(cut.capability), "why": cut.why} for cut in cuts]
        print_json({"v": 1, **described, "manifest": loaded.source, "asks": asked, "refused": refused})
        return 0
    lines = [f"{file}: {len(loaded.binary)} bytes", "imports:"]
    lines += [f"  {module}.{name} {kind}" for module, name, kind in described["imports"]] or ["  nothing"]
    lines += ["exports:", *(f"  {name} {kind}" for name, kind in described["exports"].items())]
    lines += [
        f"asks for ({loaded.source or 'no manifest'}):",
        *(f"  {each}" for each in asked or ["nothing"]),
    ]
    lines += [f"refused under {parent.profile}:", *(_cut_lines(cuts) or ["  nothing"])]
    sys.stdout.writelines(f"{printable(line)}\n" for line in lines)
    return 0


def _describe(file: str, cwd: str | None) -> dict[str, Any]:
    """By a worker: bytes that nobody has read are not compiled in this process."""
    from corral.wasi.imports import SIGNATURES, WASI_MODULE
    from corral.wasm.describe import describe_module

    described = describe_module(file, cwd)
    described["unknown"] = [
        f"{module}.{name}"
        for module, name, _ in described["imports"]
        if module == WASI_MODULE and name not in SIGNATURES
    ]
    return described


def _cut_lines(cuts: Iterable[Cut]) -> list[str]:
    return [f"  {cut.capability}: {cut.why}" for cut in cuts]


def run_module(file: str, arguments: tuple[str, ...], parent: Parent, *, as_json: bool) -> int:
    """Run a WASI command under `parent & request`."""
    from corral.cli.run import describe_result

    lines = EventLines()
    try:
        loaded = load_module(file)
        inheritance = parent.policy().grant(loaded.request)
        for cut in inheritance.cuts:
            say(f"refused to {loaded.name}: {cut.capability}: {cut.why}")
        audit = _recorder(parent.cwd)
        sandbox = Sandbox(inheritance.policy, backend="wasm", workspace=parent.cwd, audit=audit)
        stdio = StdioMode.CAPTURE if as_json else StdioMode.INHERIT
        words = (os.path.abspath(file), *arguments)
        planned = sandbox.prepare(sandbox.read_command(words, stdin=None, stdio=stdio))
        planned.listen(None if as_json else lines)
        result = planned.run()
    except CorralError as error:
        return report_error(error, as_json=as_json)
    if as_json:
        print_json(result.to_json())
    else:
        for line in describe_result(result, verbose=False, told=lines.told):
            say(line)
    return result.exit_status


def _recorder(cwd: str | None) -> Recorder | None:
    """What records runs, if the user's file says so. Nothing else of it counts. Raises CorralError."""
    options = {**defaults(), "cwd": cwd}
    return load_request(options).recorder() if is_configured(options) else None


def call_module(
    file: str,
    function: str,
    arguments: tuple[str, ...],
    parent: Parent,
    *,
    as_json: bool,
) -> int:
    """Call one function, in a worker."""
    lines = EventLines()
    try:
        numbers = [_number(text) for text in arguments]
        policy = parent.policy()
        with ModuleSandbox(
            file, policy=policy, workspace=parent.cwd, on_event=None if as_json else lines
        ) as module:
            for cut in module.cuts:
                say(f"refused to {module.name}: {cut.capability}: {cut.why}")
            value = module.call(function, *numbers)
            output = module.output
    except CorralError as error:
        status = report_error(error, as_json=as_json, about_command=False)
        trace = getattr(error, "backtrace", "")
        if trace and not as_json:
            sys.stderr.writelines(f"  {printable(line)}\n" for line in trace.splitlines())
        return status
    if as_json:
        print_json({"v": 1, "value": value, "output": output.decode("utf-8", "replace")})
        return 0
    sys.stdout.write(output.decode("utf-8", "replace"))
    if value is not None:
        sys.stdout.write(f"{value}\n")
    return 0


def _number(text: str) -> float:
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise PolicyError(
            "module-arguments",
            f"{text!r} is not a number",
            why="functions take numbers",
            fix="pass one: 7, 0x1f, 2.5",
        ) from None
