"""`corral wrap -- AGENT`: run an agent itself in a sandbox, with what it needs of its own and no more."""

from __future__ import annotations

import os
import sys

from corral.model.errors import CorralError, PolicyError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

#: Tells corral's own shell and hooks inside that what they would confine is confined already.
WRAPPED = "WRAPPED_BY_CORRAL"  # no variable of the configuration's


class Needs(Record):
    """What an agent needs to do its work."""

    agent: str  # its name in the configuration
    state: tuple[str, ...]  # what it keeps in the home: logins, conversations
    settings: tuple[str, ...]  # of these, what decides what it runs: never written, nor made, inside
    hosts: tuple[str, ...]  # where its model is
    variables: tuple[str, ...]
    programs: tuple[str, ...] = ()  # what it fetches and runs: never written inside, if it is there
    base_url: str = ""  # the variable by which its user names another host


PROGRAMS = {
    "claude": Needs(
        "claude-code",
        ("~/.claude", "~/.claude.json"),
        (
            *("~/.claude/settings.json", "~/.claude/settings.local.json", "~/.claude/hooks"),
            *("~/.claude/commands", "~/.claude/agents", "~/.claude/skills"),
        ),
        ("api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"),
        ("ANTHROPIC_*", "CLAUDE_*", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"),
        programs=("~/.claude/plugins", "~/.claude/local"),
        base_url="ANTHROPIC_BASE_URL",
    ),
    "codex": Needs(
        "codex",
        ("~/.codex",),
        ("~/.codex/config.toml", "~/.codex/hooks.json", "~/.codex/rules", "~/.codex/prompts"),
        ("api.openai.com", "chatgpt.com", "auth.openai.com"),
        ("OPENAI_*", "CODEX_*"),
        base_url="OPENAI_BASE_URL",
    ),
    "gemini": Needs(
        "gemini",
        ("~/.gemini",),
        ("~/.gemini/settings.json", "~/.gemini/commands", "~/.gemini/extensions"),
        ("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com"),
        ("GEMINI_*", "GOOGLE_*"),
        base_url="GOOGLE_GEMINI_BASE_URL",
    ),
}


def wrap(options: Mapping[str, Any], words: Iterable[str]) -> int:
    """Run an agent in a sandbox; returns its exit status."""
    from corral.cli.run import report_error, run_request

    argv = tuple(words)
    try:
        complete = add_needs(options, argv)
    except CorralError as error:
        return report_error(error, as_json=False)
    return run_request(complete, argv)


def add_needs(options: Mapping[str, Any], argv: tuple[str, ...]) -> dict[str, Any]:
    """The options of `corral run` that an agent needs, besides those that were given. Raises PolicyError."""
    needs = PROGRAMS.get(os.path.basename(argv[0])) if argv else None
    if needs is None:
        raise PolicyError(
            "unknown-agent",
            f"{argv[0] if argv else 'nothing'!r} is not an agent that corral knows",
            why=f"what it needs is known of {', '.join(PROGRAMS)}",
            fix="name its needs yourself: `corral run --write ~/.AGENT --allow HOST --env KEY -- AGENT`",
        )
    state = [path for path in map(os.path.expanduser, needs.state) if os.path.exists(path)]
    if not state:
        raise PolicyError(
            "agent-state",
            f"{argv[0]} has nothing in your home yet",
            why=f"there is no {' and no '.join(needs.state)}: what it wrote inside would be lost",
            fix=f"start {argv[0]} once without corral, and log in",
        )
    hosts = needs.hosts if options["net"] is None else ()
    return {
        **options,
        "agent": options["agent"] or _described(options, needs.agent),
        "write": (*options["write"], *state),
        "read": (*options["read"], *_held(needs), *_own_installation()),
        "allow": (*options["allow"], *hosts, *_named_host(needs)),
        "env": (*options["env"], *needs.variables, f"{WRAPPED}=1"),
        "terminal": sys.stdin.isatty() and sys.stdout.isatty(),
    }


def _held(needs: Needs) -> Iterator[str]:
    """What stays as it is, by its path and as a pattern, which holds it also where there is nothing yet.

    TRUST: a link is held and not followed: what it leads to is granted by nobody but the user.
    """
    programs = (name for name in needs.programs if os.path.lexists(os.path.expanduser(name)))
    for name in (*needs.settings, *programs):
        path, (folder, last) = os.path.expanduser(name), os.path.split(name)
        if os.path.exists(path) and not os.path.islink(path):
            yield path
        if os.path.isdir(os.path.dirname(path)):
            yield f"{folder}/[{last[0]}]{last[1:]}"


def _own_installation() -> tuple[str, ...]:
    """Corral itself: the agent's settings may name it as its shell or hook."""
    places = dict.fromkeys(map(os.path.realpath, (sys.prefix, sys.base_prefix)))
    return tuple(place for place in places if not place.startswith(("/usr", "/bin", "/lib")))


def _described(options: Mapping[str, Any], agent: str) -> str | None:
    """The agent's own name, if the configuration has settings for it."""
    from corral.cli.request import is_configured, load_request

    if not is_configured(options):
        return None
    try:
        load_request({**options, "agent": agent})
    except PolicyError as error:
        if error.code == "unknown-agent":
            return None
        raise
    return agent


def _named_host(needs: Needs) -> tuple[str, ...]:
    from urllib.parse import urlsplit

    parts = urlsplit(os.environ.get(needs.base_url, ""))
    if not parts.hostname:
        return ()
    return (f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname,)


def is_wrapped() -> bool:
    """Whether this process runs in such a sandbox.

    TRUST: the variable alone could be anybody's. The first process that a sandbox shows is corral's own, and
    none outside is.
    """
    if os.environ.get(WRAPPED) != "1":
        return False
    try:
        with open("/proc/1/comm", encoding="ascii") as file:
            return file.read() == "corral-launch\n"
    except OSError:
        return False
