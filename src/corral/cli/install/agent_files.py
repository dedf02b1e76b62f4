"""Carry out what is to be written for an agent: show the difference, write it whole, take it out exactly."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import shutil

from corral.cli.install.agents import AGENTS, beside, check_version, describe_outside, read_version
from corral.cli.install.install import Installation
from corral.host.state import read_state, write_state
from corral.host.tool import run_tool
from corral.model.errors import SetupError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.cli.install.agents import Edit

_MOST_BYTES = 4 * 1024 * 1024
_VERSION_SECONDS = 60.0


class FileChange(Record):
    """A file, before and after; None where there is none."""

    path: str
    before: str | None
    after: str | None
    without: str | None = None  # what it is to be when corral is taken out again


def plan_agent(name: str, *, remove: bool = False, project: str = "", home: str = "") -> Installation:
    """What is to be written for an agent, or taken out. Raises SetupError, having changed nothing."""
    agent = AGENTS[name]
    if not remove:
        check_programs()
        _check_program(name)
    edits = agent.edits(home or os.path.expanduser("~"), project)
    question = f"Take corral out of {name}?" if remove else f"Write this for {name}?"
    return plan_edits(edits, question, () if remove else tuple(describe_outside(name)), remove=remove)


def plan_edits(
    edits: Iterable[Edit], question: str, outside: tuple[str, ...], *, remove: bool
) -> Installation:
    """What is to be written to some files, or taken out of them, with what there is to say besides.

    Raises SetupError, having changed nothing.
    """
    changes = [change for edit in edits if (change := _change(edit, remove=remove)) is not None]
    words = [line for change in changes for line in _difference(change)]
    if not changes:
        words = [f"nothing to do: corral is {'not there' if remove else 'there already'}"]
    elif outside:
        words += ["", *outside]
    return Installation(tuple(words), question, lambda: _carry_out(changes, remove=remove))


def _change(edit: Edit, *, remove: bool) -> FileChange | None:
    before = _read(edit.path)
    try:
        cleaned = None if before is None else edit.clean(before)
        without = _restored(edit, before, cleaned)
        after = without if remove else edit.add(edit.empty if cleaned is None else cleaned)
    except (ValueError, TypeError, AttributeError, RecursionError) as problem:
        raise SetupError(
            "install-settings",
            f"nothing was changed: {edit.path} cannot be changed",
            why=str(problem),
            fix="fix the file, then try again",
        ) from problem
    return None if after == before else FileChange(edit.path, before, after, without)


def _restored(edit: Edit, before: str | None, cleaned: str | None) -> str | None:
    """What was there before, to the letter, if nobody has changed it since; else the same without corral.

    What another command of corral's has written there before stays, and this one's own part goes.
    """
    if before is None or cleaned == before:
        return before
    with contextlib.suppress(ValueError, KeyError):
        record = json.loads(read_state(_record(edit.path), 2 * _MOST_BYTES))
        original: str | None = record["before"]
        if record["after"] == _digest(before) and (original is None or edit.clean(original) == original):
            return original
    return cleaned if cleaned else None


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError("it is too large")
        return data.decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise SetupError(
            "install-settings",
            f"nothing was changed: {path} cannot be read",
            why=str(problem),
            fix="fix the file, then try again",
        ) from problem


def _difference(change: FileChange) -> Iterator[str]:
    before, after = (change.before or "").splitlines(), (change.after or "").splitlines()
    old = change.path if change.before is not None else "/dev/null"
    new = change.path if change.after is not None else "/dev/null"
    yield from difflib.unified_diff(before, after, old, new, lineterm="")


def _carry_out(changes: list[FileChange], *, remove: bool) -> str:
    for change in changes:
        if _read(change.path) != change.before:
            raise SetupError(
                "install-settings",
                f"nothing was changed: {change.path} was changed in the meantime",
                why="somebody else has written it since it was shown",
                fix="try again",
            )
    try:
        for change in changes:
            _write(change)
    except OSError as problem:
        raise SetupError(
            "install-settings",
            f"{problem.filename or 'a file'} could not be written",
            why=problem.strerror or str(problem),
            fix="check that you may write there, then try again; you can remove what was already written",
        ) from problem
    done = "removed from" if remove else "written to"
    return f"{done} {', '.join(change.path for change in changes)}" if changes else "nothing was changed"


def _write(change: FileChange) -> None:
    real = os.path.realpath(change.path)
    if change.after is None:
        os.unlink(real)
    else:
        os.makedirs(os.path.dirname(real), exist_ok=True)
        temporary = f"{real}.corral-{os.getpid()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(change.after.encode())
                if change.before is not None:
                    shutil.copymode(real, temporary)
            os.rename(temporary, real)
        except OSError:
            os.unlink(temporary)
            raise
    record = {"before": change.without, "after": _digest(change.after or "")}
    with contextlib.suppress(OSError):  # then it is taken out by its structure
        write_state(_record(change.path), json.dumps(record).encode())


def _record(path: str) -> str:
    return f"installed-{_digest(os.path.realpath(path))[:16]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def check_programs(names: Iterable[str] = ("corral", "corral-agent-shell")) -> None:
    """Raise SetupError if an agent could not start one of these."""
    for name in names:
        path = beside(name)
        if not os.access(path, os.X_OK) or " -" in path:
            raise SetupError(
                "install-programs",
                "nothing was changed",
                why=f"{path} is not a program that an agent can start",
                fix="call `corral` by the path where pip has installed it, without ` -` in its name",
            )


def _check_program(name: str) -> None:
    program = shutil.which(AGENTS[name].program)
    said = run_tool((program, "--version"), _VERSION_SECONDS, dict(os.environ)) if program else None
    text = said.output.strip() if said is not None and said.status == 0 else ""
    found = read_version(text)
    if not found:
        raise SetupError(
            "install-program",
            "nothing was changed",
            why=f"there is no `{AGENTS[name].program}` on the PATH that prints its version",
            fix=f"install {name} first: what corral can rely on depends on its version",
        )
    check_version(name, found, text)
