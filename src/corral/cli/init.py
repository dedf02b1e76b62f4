"""`corral policy init`: ask a few questions, or take flags, and write a commented file."""

from __future__ import annotations

import os
import sys

import click

from corral.cli.effective import shorten
from corral.config.find import FILE_NAMES
from corral.config.keys import BY_NAME
from corral.config.template import render_toml
from corral.config.values import WrongValue
from corral.host import config_directory
from corral.model.errors import PolicyError
from corral.policy.preset import DEFAULT_PRESET, PRESETS, describe_preset

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
    asked = not any(value is not None for value in given.values()) and sys.stdin.isatty() and not to_stdout
    chosen = _check(_ask() if asked else {FLAGS[name]: value for name, value in given.items()})
    text = render_toml(chosen, for_user=for_user)
    if to_stdout:
        return 0, text.splitlines(), {"text": text}
    path = _target(for_user=for_user)
    _write(path, text, force=force)
    lines = [f"wrote {shorten(path)}"]
    if not for_user:
        lines.append(
            "It narrows what your own configuration allows; `corral policy trust` lets it allow more."
        )
    return 0, lines, {"file": path}


def _ask() -> dict[str, object]:
    """Four questions; Enter takes what is in brackets."""
    for name in PRESETS:
        click.echo(f"  {name:<13} {describe_preset(name)}", err=True)
    profiles = click.Choice(PRESETS)
    modes = click.Choice(("none", "limited", "full"))
    return {
        "profile": click.prompt("Profile", DEFAULT_PRESET, type=profiles, show_choices=False, err=True),
        "network": click.prompt("Network", "none", type=modes, err=True),
        "mounts.workspace_writable": click.confirm("May commands write to the workspace", True, err=True),
        "resources.memory": click.prompt("Memory limit (empty for none)", "", show_default=False, err=True)
        or None,
    }


def _check(chosen: dict[str, object]) -> dict[str, object]:
    """Only what was said, and only what a file may say."""
    for name, value in chosen.items():
        if value is None:
            continue
        try:
            BY_NAME[name].kind.read(value)
        except WrongValue as problem:
            raise PolicyError(
                "not-a-setting", f"{name} cannot be {value!r}", why=problem.what, fix=problem.fix
            ) from None
    return {name: _number(value) for name, value in chosen.items() if value is not None}


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _target(*, for_user: bool) -> str:
    directory = config_directory() if for_user else os.getcwd()
    if not directory:
        raise PolicyError(
            "no-directory",
            "your configuration has no place",
            why="you have no home directory",
            fix="set XDG_CONFIG_HOME",
        )
    return os.path.join(directory, FILE_NAMES[0])


def _write(path: str, text: str, *, force: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_TRUNC if force else os.O_EXCL)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(os.open(path, flags, 0o644), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise PolicyError(
            "file-exists",
            f"{path} was not written",
            why="it is there already",
            fix="--force replaces it",
        ) from None
    except OSError as problem:
        raise PolicyError(
            "not-writable",
            f"{path} could not be written",
            why=problem.strerror or str(problem),
            fix="choose a directory you can write to",
        ) from problem
