"""Python code in WebAssembly: a CPython for WASI that is kept, with a fresh interpreter for each script."""

from __future__ import annotations

import contextlib
import json
import os

from corral.host.modules import find_python
from corral.model.errors import CallError, PolicyError
from corral.model.policy import Policy
from corral.model.record import Record
from corral.policy.preset import load_preset
from corral.wasm.module_sandbox import ModuleSandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from corral.model.event import Listener

_AREA, _NAME = "/tmp", ".corral-result"
_MOST_RESULT_BYTES = 16 << 20
#: The value of `result` comes back as JSON, by a file in the private directory.
_PROGRAM = """
_names = {"__name__": "__main__"}
exec(compile(%r, "<code>", "exec"), _names)
if "result" in _names:
    import json
    with open("/tmp/.corral-result", "w") as _file:
        json.dump(_names["result"], _file)
"""


class PythonRun(Record):
    """What became of a script. `value` is what it left in `result`, as JSON has it."""

    exit_status: int
    stdout: str
    stderr: str
    value: Any = None

    @property
    def ok(self) -> bool:
        return self.exit_status == 0


class PythonSandbox:
    """Runs Python code under a policy. The first script waits for the worker, the others only for Python."""

    def __init__(
        self,
        policy: Policy | str = "strict",
        *,
        workspace: str | os.PathLike[str] | None = None,
        on_event: Listener | None = None,
    ) -> None:
        granted = policy if isinstance(policy, Policy) else load_preset(policy)
        if _AREA not in granted.private:
            raise PolicyError(
                "python-area",
                "Python code cannot be run under this policy",
                why=f"its results come back by a private {_AREA}, which the policy does not have",
                fix=f"add filesystem:private:{_AREA}",
            )
        self._module = ModuleSandbox(
            find_python(),
            policy=granted,
            name="python",
            workspace=workspace,
            on_event=on_event,
            as_parent=True,
        )

    def run(self, code: str, *, timeout: float | None = None) -> PythonRun:
        """Run a script in a fresh interpreter. Raises ModuleTrap if a limit ended it."""
        place = os.path.join(self._module.private_directory(_AREA), _NAME)
        with contextlib.suppress(OSError):
            os.unlink(place)
        done = self._module.run("-I", "-S", "-c", _PROGRAM % code, timeout=timeout)
        texts = (done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))
        return PythonRun(done.exit_status, *texts, _read_value(place) if done.exit_status == 0 else None)

    def close(self) -> None:
        """End the worker."""
        self._module.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_python(
    code: str,
    *,
    policy: Policy | str = "strict",
    workspace: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> PythonRun:
    """Run one script; for several, a `PythonSandbox` is quicker."""
    with PythonSandbox(policy, workspace=workspace) as sandbox:
        return sandbox.run(code, timeout=timeout)


def _read_value(place: str) -> Any:
    """TRUST: what is there was written by the script: no link is followed, and it is data of a plain kind."""
    try:
        with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(_MOST_RESULT_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _unreadable(str(problem)) from problem
    if len(data) > _MOST_RESULT_BYTES:
        raise _unreadable("it has more than 16 MiB")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise _unreadable(str(problem)) from problem


def _unreadable(why: str) -> CallError:
    return CallError(
        "python-result",
        "what the script left in `result` cannot be read",
        why=why,
        fix="leave plain values",
        ran=True,
    )
