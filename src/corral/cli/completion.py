"""Completion of words for a shell. Nothing is started or asked for: names are read from files and tables."""

from __future__ import annotations

import os

import click
from click.shell_completion import CompletionItem, get_completion_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Names = Callable[[], Iterator[tuple[str, str]]]  # each with its help

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_CORRAL_COMPLETE"
_MOST = 500


class _Completer(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """What could stand in a place. It converts nothing."""

    name = "text"


class _Words(_Completer):
    """Names, each with its help."""

    def __init__(self, names: Names, *, or_files: bool = False) -> None:
        self._names = names
        self._or_files = or_files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        is_list = param.name in {"waive", "require"}
        before, comma, word = incomplete.rpartition(",") if is_list else ("", "", incomplete)
        found = [
            CompletionItem(f"{before}{comma}{name}", help=text)
            for name, text in self._names()
            if name.startswith(word)
        ]
        if not found and self._or_files:
            return [CompletionItem(incomplete, type="file")]
        return found[:_MOST]


class _Paths(_Completer):
    """Files or directories, which the shell knows best."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type=self._kind)]


class _Command(_Completer):
    """A command and its arguments: programs on the PATH first, then files."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        if ctx.params.get(param.name or "") or "/" in incomplete or not incomplete:
            return [CompletionItem(incomplete, type="file")]
        names = sorted(name for name in _programs() if name.startswith(incomplete))
        return [CompletionItem(name) for name in names[:_MOST]]


def _programs() -> set[str]:
    found: set[str] = set()
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        try:
            with os.scandir(directory or ".") as entries:
                found.update(entry.name for entry in entries)
        except OSError:
            continue
    return found


def _presets() -> Iterator[tuple[str, str]]:
    from corral.policy.preset import PRESETS, describe_preset

    yield from ((name, describe_preset(name)) for name in PRESETS)


def _backends() -> Iterator[tuple[str, str]]:
    from corral.backends.registry import AUTO_NAME, BUILTIN

    yield AUTO_NAME, "the first that enforces everything"
    yield from ((name, "") for name in BUILTIN)


def _modes() -> Iterator[tuple[str, str]]:
    yield "none", "no network"
    yield "limited", "public addresses, ports 80 and 443"
    yield "full", "the host's network"


def _features() -> Iterator[tuple[str, str]]:
    from corral.model.feature import PROMISES

    yield from ((feature.value, promise) for feature, promise in PROMISES.items())


def _sessions() -> Iterator[tuple[str, str]]:
    from corral.sessions.named.record import list_entries

    yield from ((entry.name, f"{entry.state}, {entry.workspace}") for _, entry in list_entries())


def _trials() -> Iterator[tuple[str, str]]:
    from corral.model.printable import printable
    from corral.trials.shelf import list_trials

    yield from ((record.identity, printable(record.command)) for record in list_trials())


def _bundles() -> Iterator[tuple[str, str]]:
    from corral.model.network.bundles import DEFAULT_HOSTS

    yield from ((f"@{name}", "the hosts of a package manager") for name in DEFAULT_HOSTS)


def _variants() -> Iterator[tuple[str, str]]:
    from corral.images.recipe import ALIASES, VARIANTS

    yield from ((name, "") for name in (*VARIANTS, *ALIASES))


def _probes() -> Iterator[tuple[str, str]]:
    from corral.selftest.catalogue import PROBES

    yield from ((probe.name, probe.title) for probe in PROBES)


def _fixed(*names: str) -> Names:
    return lambda: iter([(name, "") for name in names])


#: By the name of an option, wherever it is.
_OPTIONS: dict[str, _Completer] = {
    "profile": _Words(_presets),
    "backend": _Words(_backends),
    "net": _Words(_modes),
    "network": _Words(_modes),
    "waive": _Words(_features),
    "require": _Words(_features),
    "allow": _Words(_bundles),
    "session": _Words(_sessions),
    "on_refusal": _Words(_fixed("deny", "terminate")),
    "engine": _Words(_fixed("docker", "podman")),
    "word": _Words(_fixed("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "KILL")),
    "only": _Words(_probes),
    **dict.fromkeys(("cwd", "directory"), _Paths("dir")),
    **dict.fromkeys(
        ("read", "write", "deny", "deny_from", "config", "output", "show", "rules", "key", "anchor", "sign"),
        _Paths("file"),
    ),
}
_SESSION = _Words(_sessions)
_TRIAL = _Words(_trials)
_TRIAL_OR_PATH = _Words(_trials, or_files=True)
#: By the path of a command and the name of an argument.
_ARGUMENTS: dict[tuple[str, str], _Completer] = {
    **{
        (f"session {name}", "name"): _SESSION
        for name in ("start", "shell", "status", "stop", "reset", "logs", "network")
    },
    **{(f"session {name}", "last"): _SESSION for name in ("kill", "allow", "revoke")},
    ("session exec", "words"): _SESSION,
    ("status", "name"): _SESSION,
    **{(name, "identity"): _TRIAL for name in ("changes", "undo")},
    ("discard", "identities"): _TRIAL,
    **{(name, "words"): _TRIAL_OR_PATH for name in ("diff", "apply")},
    **{(name, "command"): _Command() for name in ("run", "explain", "check", "learn", "try")},
    ("wrap", "words"): _Words(_fixed("claude", "codex", "gemini")),
    ("policy show", "name"): _Words(_presets, or_files=True),
    **{("policy diff", name): _Words(_presets, or_files=True) for name in ("first", "second")},
    ("policy validate", "files"): _Paths("file"),
    **{(f"policy {name}", "file"): _Paths("file") for name in ("trust", "distrust")},
    **{(f"module {name}", "file"): _Paths("file") for name in ("inspect", "run", "call")},
    ("image build", "variant"): _Words(_variants),
    ("image inspect", "name"): _Words(_variants, or_files=True),
    ("why", "operation"): _Words(_fixed("read", "write", "exec", "connect")),
    ("why", "target"): _Paths("file"),
    ("selftest", "gate"): _Words(_fixed("isolation", "limits", "capabilities", "violations")),
}


def teach(command: click.Command, path: str = "") -> None:
    """Tell a command and all beneath it what could stand where."""
    for parameter in command.params:
        name = parameter.name or ""
        is_option = isinstance(parameter, click.Option) and not parameter.is_flag
        known = _OPTIONS.get(name) if is_option else _ARGUMENTS.get((path, name))
        if known is not None:
            parameter.type = known
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            teach(inner, f"{path} {name}".strip())


def script_for(shell: str) -> str:
    """What a shell has to read once, so that it completes `corral`."""
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.Group("corral"), {}, "corral", VARIABLE).source()
    for old, new in _CORRECTIONS.get(shell, ()):
        script = script.replace(old, new)
    return script


#: Of click's scripts. A value has commas of its own (`--waive A,B`), and may stand behind `--net=`.
#: bash takes `--net=full` and `@npm` apart, and then replaces what is behind the `=`, but the `@` as well.
_CORRECTIONS = {
    "bash": (
        (
            "    response=",
            "    local -a words=()\n"
            "    local word before='' current=${COMP_WORDS[COMP_CWORD]}\n"
            '    [[ $current == --*=* ]] && before="${current%%=*}="\n'
            '    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do\n'
            "        if ((${#words[@]})) &&\n"
            "            [[ ${words[-1]} == --* && $word == =* || ${words[-1]} == @(--*=|--*=@|@) ]]; then\n"
            "            words[-1]+=$word\n"
            "        else\n"
            '            words+=("$word")\n'
            "        fi\n"
            "    done\n\n"
            "    response=",
        ),
        (
            'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD',
            'COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1))',
        ),
        ("COMPREPLY+=($value)", 'COMPREPLY+=("$before$value")'),
    ),
    "fish": (
        ('string split "," $completion', 'string split --max 1 "," $completion'),
        (
            "    for completion in",
            "    set -l before (string match --regex -- '^--[^=]+=' (commandline -t));\n"
            "    for completion in",
        ),
        (
            "__fish_complete_directories $metadata[2];",
            "__fish_complete_directories $metadata[2] | string replace --regex -- '^' \"$before\";",
        ),
        (
            "__fish_complete_path $metadata[2];",
            "__fish_complete_path $metadata[2] | string replace --regex -- '^' \"$before\";",
        ),
        ("echo $metadata[2];", 'echo "$before$metadata[2]";'),
    ),
    "zsh": (
        (
            "    for type key",
            "    local before=''\n"
            '    [[ $words[CURRENT] == --*=* ]] && before="${words[CURRENT]%%=*}="\n'
            "    for type key",
        ),
        ('("$key")', '("$before$key")'),
        ('("$key":', '("$before$key":'),
        ("_path_files", "compset -P '*='; _path_files"),
    ),
}
