"""What a hook answers: the rewritten command, or why there is none. Each agent has its own words for it."""

from __future__ import annotations

from corral.cli.hook.call import AGENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.cli.hook.call import AgentCall

#: The status by which all three agents know that a call is not to be made; the reason is on stderr.
REFUSED = 2


def rewritten(call: AgentCall, program: str) -> str:
    """The shell line that runs the command in the sandbox of this conversation."""
    words = (program, "hook", "exec", call.agent, call.session, call.directory, call.command)
    return " ".join(map(quote, words))


def replace_command(call: AgentCall, line: str) -> str:
    """The answer that makes an agent run another line.

    Who has to be asked about the call is still asked: Claude Code gets no decision. Codex takes a line only
    with "allow", which for it means that the hook does not object; its own approvals come after.
    """
    event, _ = AGENTS[call.agent]
    if call.agent == "gemini":
        changed = f'"tool_input":{{"command":{_text(line)}}}'
    elif call.agent == "codex":
        changed = f'"permissionDecision":"allow","updatedInput":{{"command":{_text(line)}}}'
    else:
        import json  # it takes the whole input, or loses the rest

        changed = f'"updatedInput":{json.dumps({**dict(call.others), "command": line})}'
    return f'{{"hookSpecificOutput":{{"hookEventName":{_text(event)},{changed}}}}}'


def ask(call: AgentCall, command: str, question: str) -> str:
    """The answer that has Claude Code ask its user about a command, whatever it would permit by itself."""
    import json  # such a call is rare

    changed = {**dict(call.others), "command": command}
    decision = {"permissionDecision": "ask", "permissionDecisionReason": question, "updatedInput": changed}
    event, _ = AGENTS[call.agent]
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, **decision}})


def quote(text: str) -> str:
    """A word for sh, bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _text(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        import json

        return json.dumps(text)
    return str(encode_basestring_ascii(text))
