"""`corral hook AGENT`: read a call on stdin, answer with the rewritten command, or refuse it.

INVARIANT: whatever happens here, the agent does not run the command as it was. An answer is written whole or
not at all, and everything else ends with the status by which agents refuse a call.
"""

from __future__ import annotations

import os
import sys

from corral.cli.hook.answer import REFUSED, ask, replace_command, rewritten
from corral.cli.hook.call import MOST_INPUT_BYTES, BadCall, read_call, read_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.cli.hook.call import AgentCall

#: The program that Claude Code runs all its shell commands by; see `install`.
AGENT_SHELL = "corral-agent-shell"
_PREFIX = "CLAUDE_CODE_SHELL_PREFIX"


def respond(agent: str) -> int:
    """Answer one call; returns the exit status."""
    try:
        data = _read()
        ended = read_end(agent, data)
        if ended:
            return _end(agent, ended)
        call = read_call(agent, data)
        if agent == "claude-code" and os.environ.get(_PREFIX) == _beside(AGENT_SHELL):
            # The agent's shell is corral's own, and confines the command as it is.
            return _ask_to_leave(call) if call.without_sandbox else 0
        _write(replace_command(call, rewritten(call, _beside("corral"))))
    except BadCall as problem:
        return refuse(str(problem))
    except Exception as problem:
        return refuse(f"the hook failed: {type(problem).__name__}: {problem}")
    return 0


def _ask_to_leave(call: AgentCall) -> int:
    """Have the user asked, if he wants to be; else the command runs in the sandbox like any other."""
    from corral.cli.hook.unconfined import QUESTION, may_ask, with_ticket

    if may_ask(call.agent, call.directory):
        _write(ask(call, with_ticket(call.command), QUESTION))
    return 0


def refuse(why: str) -> int:
    """Tell the agent that its command does not run, and why. Returns the exit status."""
    text = f"corral: the command did not run\n  because: {why}\n"
    os.write(2, text.encode("utf-8", "backslashreplace"))
    return REFUSED


def _read() -> bytes:
    pieces, size = [], 0
    while size <= MOST_INPUT_BYTES:
        piece = os.read(0, 1 << 20)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _write(text: str) -> None:
    data = memoryview(text.encode("ascii"))
    while data:
        data = data[os.write(1, data) :]


def _beside(name: str) -> str:
    """Another program of this installation."""
    return os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), name)


def _end(agent: str, session: str) -> int:
    from corral.cli.hook.execute import end_session

    return end_session(agent, session)
