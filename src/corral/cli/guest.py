"""`corral guest`: carry out a request of a corral outside of this machine, and tell it what became of it.

The exit status alone cannot say whether the command ran. So there is a note in the state directory, which no
command is granted; the other side asks for it when the status is there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from corral.cli.run import passed_on, report_error
from corral.host.real import state_directory
from corral.host.state import read_state, write_state
from corral.model.errors import CorralError, SetupError
from corral.model.plan import StdioMode
from corral.policy.remote_request import decode_request
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.policy.remote_request import RemoteRequest

#: What a note can say. BEGUN is left when this corral was killed: then nobody knows.
BEGUN, RAN, REFUSED, NOTHING = "begun", "ran", "refused", "nothing"
_MOST_NOTE_BYTES = 16


def carry_out(text: str) -> int:
    """Run what the request says; returns the exit status."""
    try:
        request = decode_request(text)
        _note(request.run_id, BEGUN)
    except CorralError as error:
        return report_error(error, as_json=False)
    try:
        status = _run(request)
    except CorralError as error:
        _note(request.run_id, RAN if error.ran else REFUSED)
        return report_error(error, as_json=False)
    _note(request.run_id, RAN)
    return status


def tell(run_id: str) -> int:
    """Print the note of a run, once."""
    name = _name(run_id)
    note = read_state(name, _MOST_NOTE_BYTES).decode("ascii", "replace") or NOTHING
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(state_directory(), name))
    sys.stdout.write(f"{note}\n")
    return 0


def _run(request: RemoteRequest) -> int:
    sandbox = Sandbox(request.policy, workspace=request.workspace, waive=request.waived)
    stdio = StdioMode.TERMINAL if request.terminal else StdioMode.INHERIT
    prepared = sandbox.read_command(request.argv, cwd=request.cwd, stdin=None, stdio=stdio)
    planned = sandbox.prepare(prepared)
    for name in passed_on():
        signal.signal(getattr(signal, name), lambda number, _frame: planned.send(number))
    return planned.run().exit_status


def _note(run_id: str, what: str) -> None:
    try:
        write_state(_name(run_id), what.encode())
    except OSError as problem:
        raise SetupError(
            "remote-note",
            "the request cannot be carried out",
            why=f"nothing can be noted in {state_directory() or 'the state directory'}: {problem.strerror}",
            fix="give the user of this machine a home directory that can be written to",
        ) from problem


def _name(run_id: str) -> str:
    return f"guest-{''.join(char for char in run_id if char.isalnum())}"
