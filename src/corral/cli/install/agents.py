"""What is written for each agent so that its commands pass through corral, and how to take it out again."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
import tomllib

from corral.cli.hook.respond import AGENT_SHELL
from corral.cli.install.json_text import append_item, parse, remove, set_member
from corral.model.errors import SetupError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: Until a hook that hangs is ended, and the command refused; agents themselves wait for longer.
_HOOK_SECONDS = 30
_AGENT_SECONDS = 60
_PREFIX = ("env", "CLAUDE_CODE_SHELL_PREFIX")
_MARK = "# Written by `corral install codex`: the hook in this file's directory is trusted as it is."


class Edit(Record):
    """One file of an agent's: what it is to be, and what it is without corral."""

    path: str
    add: Callable[[str], str]
    clean: Callable[[str], str]  # takes out whatever corral has put there
    empty: str = ""  # what a file that is not there is taken for


class Agent(Record):
    """An agent that can be told of corral."""

    program: str
    oldest: tuple[int, int, int]  # that was read or tried; older ones offer less
    edits: Callable[[str, str], tuple[Edit, ...]]  # of a home and a project, which is empty for all projects
    notes: tuple[str, ...] = ()


def _guarded(agent: str) -> str:
    """A shell line that refuses the command whatever becomes of the hook: gone, killed, or hanging.

    Agents run a command whose hook ends with another status than 2, or not in time.
    """
    words = ("timeout", "-k", "1", str(_HOOK_SECONDS), beside("corral"), "hook", agent)
    said = "echo 'corral: without its hook the command is not run' >&2"
    return f"{shlex.join(words)} || {{ {said}; exit 2; }}"


def beside(name: str) -> str:
    """A program of this installation."""
    return os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), name)


def _claude(home: str, project: str) -> tuple[Edit, ...]:
    file = f"{project}/.claude/settings.local.json" if project else f"{home}/.claude/settings.json"
    hook = {"type": "command", "command": "/bin/sh", "args": ["-c", _guarded("claude-code")]}
    group = {"hooks": [{**hook, "timeout": _AGENT_SECONDS}]}

    def add(text: str) -> str:
        found = parse(text).get("env", {}).get(_PREFIX[1])
        if found is not None:
            raise ValueError(f"{'.'.join(_PREFIX)} is set already, to {found!r}")
        text = set_member(text, _PREFIX, beside(AGENT_SHELL))
        text = append_item(text, ("hooks", "PreToolUse"), {"matcher": "Bash", **group})
        return append_item(text, ("hooks", "SessionEnd"), group)

    def clean(text: str) -> str:
        prefix = parse(text).get("env", {}).get(_PREFIX[1])
        if isinstance(prefix, str) and os.path.basename(prefix) == AGENT_SHELL:
            text = remove(text, _PREFIX)
        return _without_hooks(text, ("PreToolUse", "SessionEnd"), "claude-code")

    return (Edit(file, add, clean, "{}\n"),)


def _codex(home: str, project: str) -> tuple[Edit, ...]:
    directory = f"{project}/.codex" if project else os.environ.get("CODEX_HOME") or f"{home}/.codex"
    file = f"{directory}/hooks.json"
    configuration = f"{os.environ.get('CODEX_HOME') or f'{home}/.codex'}/config.toml"
    hook = {"type": "command", "command": _guarded("codex"), "timeout": _AGENT_SECONDS}
    group = {"matcher": "Bash", "hooks": [hook]}

    def add(text: str) -> str:
        return append_item(text, ("hooks", "PreToolUse"), group)

    def clean(text: str) -> str:
        return _without_hooks(text, ("PreToolUse",), "codex")

    def trust(text: str) -> str:
        """Codex runs a hook that its user has reviewed; who says yes to `corral install` has seen it."""
        number = _groups_before(file, clean)
        said = {"event_name": "pre_tool_use", **group, "hooks": [{**hook, "async": False}]}
        canonical = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        key = json.dumps(f"{file}:pre_tool_use:{number}:0", ensure_ascii=False)
        table = f'[hooks.state.{key}]\ntrusted_hash = "sha256:{digest}"\n'
        tomllib.loads(text)
        made = f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}\n{_MARK}\n{table}"
        tomllib.loads(made)
        return made

    return (Edit(file, add, clean, "{}\n"), Edit(configuration, trust, _distrust))


def _distrust(text: str) -> str:
    while (at := text.find(f"\n{_MARK}\n")) >= 0:
        lines = text[at:].split("\n", 4)
        text = text[:at] + (lines[4] if len(lines) > 4 else "")
    return text


def _groups_before(file: str, clean: Callable[[str], str]) -> int:
    try:
        with open(file, encoding="utf-8") as stream:
            return len(parse(clean(stream.read())).get("hooks", {}).get("PreToolUse", ()))
    except FileNotFoundError:
        return 0


def _gemini(home: str, project: str) -> tuple[Edit, ...]:
    hook = {
        "type": "command",
        "name": "corral",
        "command": _guarded("gemini"),
        "timeout": _AGENT_SECONDS * 1000,
    }

    def add(text: str) -> str:
        if parse(text).get("hooksConfig", {}).get("enabled") is False:
            raise ValueError("hooksConfig.enabled is false: hooks would not be run")
        return append_item(text, ("hooks", "BeforeTool"), {"matcher": "run_shell_command", "hooks": [hook]})

    def clean(text: str) -> str:
        return _without_hooks(text, ("BeforeTool",), "gemini")

    return (Edit(f"{project or home}/.gemini/settings.json", add, clean, "{}\n"),)


def _without_hooks(text: str, events: tuple[str, ...], agent: str) -> str:
    for event in events:
        groups = parse(text).get("hooks", {}).get(event, ())
        for number in reversed(range(len(groups))):
            said = json.dumps(groups[number])
            if f"corral hook {agent} ||" in said or f"corral' hook {agent} ||" in said:
                text = remove(text, ("hooks", event, number))
    return text


#: Plugins that rewrite the command in the agent's own process: nothing is left that could fail. Without
#: corral the rewritten command does not run.
_QUOTE = 'const quote = (text) => "\'" + String(text).replaceAll("\'", "\'\\\\\'\'") + "\'"\n'
_OPENCODE = """\
// Written by `corral install opencode`: shell commands run in corral's sandbox.
{quote}
export const Corral = async ({{ directory }}) => ({{
  "tool.execute.before": async (input, output) => {{
    if (input.tool !== "bash") return
    const command = output.args.command
    if (typeof command !== "string" || !command.trim() || command.includes("\\0"))
      throw new Error("corral: the command is not a text that a shell accepts")
    const words = [{program}, "hook", "exec", "opencode", input.sessionID, directory, command]
    output.args.command = words.map(quote).join(" ")
  }},
}})
"""
_PI = """\
// Written by `corral install pi`: shell commands run in corral's sandbox.
import {{ createBashTool }} from "@earendil-works/pi-coding-agent"

{quote}
export default function (pi) {{
  const conversation = `${{process.pid}} ${{Date.now()}}`
  const spawnHook = ({{ command, cwd, env }}) => {{
    const words = [{program}, "hook", "exec", "pi", conversation, cwd, command]
    return {{ command: words.map(quote).join(" "), cwd, env }}
  }}
  const bash = createBashTool(process.cwd(), {{ spawnHook }})
  const execute = (id, params, signal, onUpdate) => bash.execute(id, params, signal, onUpdate)
  pi.registerTool({{ ...bash, execute }})
}}
"""


def _plugin(path: str, template: str) -> Edit:
    text = template.format(quote=_QUOTE, program=json.dumps(beside("corral")))
    first = template.partition("\n")[0]

    def add(there: str) -> str:
        if there:
            raise ValueError("there is a file of that name, which is not corral's")
        return text

    return Edit(path, add, lambda there: "" if there.startswith(first) else there)


def _opencode(home: str, project: str) -> tuple[Edit, ...]:
    place = f"{project}/.opencode" if project else f"{home}/.config/opencode"
    return (_plugin(f"{place}/plugins/corral.js", _OPENCODE),)


def _pi(home: str, project: str) -> tuple[Edit, ...]:
    place = f"{project}/.pi" if project else f"{home}/.pi/agent"
    return (_plugin(f"{place}/extensions/corral.ts", _PI),)


AGENTS = {
    "claude-code": Agent("claude", (2, 1, 0), _claude),
    "codex": Agent(
        "codex",
        (0, 166, 0),
        _codex,
        (
            'Codex\'s own sandbox may not let corral make one: set sandbox_mode = "danger-full-access".',
            "Codex skips a hook that it does not trust, and runs the command without it. After an update of",
            "Codex or of its hooks look at /hooks: corral's has to be trusted.",
        ),
    ),
    "gemini": Agent("gemini", (0, 61, 0), _gemini),
    "opencode": Agent("opencode", (1, 18, 0), _opencode),
    "pi": Agent("pi", (1, 5, 0), _pi),
}


def check_version(name: str, found: tuple[int, ...], said: str) -> None:
    """Raise SetupError for a version that may run a command without its hook."""
    agent = AGENTS[name]
    if found < agent.oldest:
        raise SetupError(
            "install-version",
            "nothing was changed",
            why=f"`{agent.program} --version` says {said[:60]!r}; what corral needs is known of "
            f"{'.'.join(map(str, agent.oldest))} and newer",
            fix=f"update {name}",
        )


def describe_outside(name: str) -> Iterator[str]:
    """What of an agent corral does not confine by this."""
    yield "Still outside the sandbox: the agent itself, its tools that read, write and edit files, its MCP"
    yield f"servers, and its network. `corral wrap -- {AGENTS[name].program}` confines these too."
    yield from AGENTS[name].notes


def read_version(text: str) -> tuple[int, ...]:
    """The first three numbers with dots between them; none if there are none."""
    for word in text.replace("v", " ").split():
        numbers: list[Any] = word.split(".")
        if len(numbers) >= 3 and all(number.isdigit() for number in numbers[:2]):
            last = "".join(character for character in numbers[2] if character.isdigit()) or "0"
            return int(numbers[0]), int(numbers[1]), int(last)
    return ()
