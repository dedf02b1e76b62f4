"""`corral policy init`: ask a few questions, or take flags, and write a commented file."""

from __future__ import annotations

import os
import sys

import click

from corral.config.find import working_directory
from corral.config.keys import BY_NAME
from corral.config.setting import shorten
from corral.config.template import render_toml
from corral.config.values import WrongValue
from corral.host.directory import no_directory, not_writable
from corral.host.real import CONFIG_NAMES, config_directory
from corral.model.errors import PolicyError
from corral.model.policy import FsAccess, NetMode
from corral.policy.preset import DEFAULT_PRESET, PRESETS, describe_preset, load_preset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

#: Flag of `init` -> key.
FLAGS = {
    "profile": "profile",
    "backend": "backend",
    "network": "network",
    "writable": "mounts.workspace_writable",
    "memory": "resources.memory",
    "pids": "resources.pids",
    "time": "resources.time",
}


def write_file(
    given: Mapping[str, Any], *, for_user: bool, force: bool, to_stdout: bool
) -> tuple[int, Iterable[str], dict[str, Any]]:
    """Write the file, or print it; returns the exit status, lines for a person, JSON."""
    path = "" if to_stdout else _target(for_user=for_user, force=force)
    asked = not to_stdout and sys.stdin.isatty() and all(value is None for value in given.values())
    said = _ask() if asked else {FLAGS[name]: value for name, value in given.items() if value is not None}
    for name, value in said.items():
        _check(name, value)
    text = render_toml({name: _number(value) for name, value in said.items()}, for_user=for_user)
    if to_stdout:
        return 0, text.splitlines(), {"text": text}
    _write(path, text, force=force)
    lines = [f"wrote {shorten(path)}; `corral policy show --effective` says what comes of it"]
    if not for_user:
        lines.append(
            "It narrows what your own configuration allows; `corral policy trust` lets it allow more."
        )
    return 0, lines, {"file": path}


def _ask() -> dict[str, object]:
    """A few questions; Enter takes what is in brackets, which is what the profile does by itself.

    Only answers that differ from the profile are written: the rest stays as the preset has it.
    """
    for name in PRESETS:
        click.echo(f"  {name:<13} {describe_preset(name)}", err=True)
    profile = _choose("Profile", PRESETS, DEFAULT_PRESET, show=False)
    policy = load_preset(profile)
    mode = policy.net.mode.value
    writes = any(rule.access is FsAccess.WRITE and rule.path == "${workspace}" for rule in policy.fs)
    network = _choose("Network", tuple(mode.value for mode in NetMode), mode)
    writable = click.confirm("May commands write to the workspace", writes, err=True)
    memory = click.prompt(
        "Memory limit (empty: as the profile)", "", show_default=False, value_proc=_memory, err=True
    )
    answers: dict[str, object] = {"profile": profile}
    answers |= {"network": network} if network != mode else {}
    answers |= {"mounts.workspace_writable": writable} if writable != writes else {}
    return answers | ({"resources.memory": memory} if memory else {})


def _choose(question: str, words: tuple[str, ...], default: str, *, show: bool = True) -> str:
    kind = click.Choice(words, case_sensitive=False)
    return str(click.prompt(question, default, type=kind, show_choices=show, err=True))


def _memory(text: str) -> str:
    """What was typed, if it is a size; otherwise click asks again."""
    try:
        return text if not text else str(BY_NAME["resources.memory"].kind.read(text))
    except WrongValue as problem:
        raise click.BadParameter(f"{problem.what}; {problem.fix}") from None


def _check(name: str, value: object) -> None:
    """Refuse what a file may not say."""
    try:
        BY_NAME[name].kind.read(value)
    except WrongValue as problem:
        raise PolicyError(
            "not-a-setting", f"{name} cannot be {value!r}", why=problem.what, fix=problem.fix
        ) from None


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _target(*, for_user: bool, force: bool) -> str:
    directory = config_directory() if for_user else working_directory()
    if not directory:
        raise no_directory("your configuration", "you have no home directory", "set XDG_CONFIG_HOME")
    path = os.path.join(directory, CONFIG_NAMES[0])
    # Two files of the user's own would be one too many; a project may have both.
    for name in CONFIG_NAMES if for_user else CONFIG_NAMES[:1]:
        other = os.path.join(directory, name)
        if os.path.lexists(other) and not (force and other == path):
            raise _exists(other)
    return path


def _exists(path: str) -> PolicyError:
    fix = "--force replaces it" if path.endswith(CONFIG_NAMES[0]) else "remove it first, or edit it"
    return PolicyError("file-exists", f"{path} is there already", why="refusing to overwrite it", fix=fix)


def _write(path: str, text: str, *, force: bool) -> None:
    """Beside it first, then in its place: what is there now, be it a FIFO, is not opened."""
    temporary = f"{path}.{os.getpid()}"
    is_made = False
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        is_made = True
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if force:
            os.rename(temporary, path)
            is_made = False
        else:
            os.link(temporary, path)  # fails if something has appeared there meanwhile
    except FileExistsError as problem:
        raise _exists(path if is_made else str(problem.filename)) from None
    except OSError as problem:
        raise not_writable(path, problem, "choose a directory you can write to") from problem
    finally:
        if is_made:
            os.unlink(temporary)
