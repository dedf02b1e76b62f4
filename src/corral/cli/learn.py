"""`corral learn`: run a command in an observed sandbox, and print or write the policy that would do."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys

from corral.cli.options import defaults
from corral.cli.request import build_command, build_request
from corral.cli.run import report_error, say
from corral.config.find import working_directory
from corral.config.setting import shorten
from corral.host.real import config_directory
from corral.learning.learn import keep_observation, learn, load_observation
from corral.learning.observation import Observation
from corral.learning.proposal import propose
from corral.learning.render import MARK, render
from corral.model.errors import CorralError, PolicyError
from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


def learn_policy(
    options: Mapping[str, Any],
    words: Sequence[str],
    *,
    forget: bool,
    apply: bool,
    for_user: bool,
    yes: bool,
) -> int:
    """Observe a run, if there is a command; print what is known by now, or write it. Returns the status."""
    asked = {**defaults(), **options}
    status = 0
    try:
        command = build_command(asked, words)
        workspace = os.path.realpath(os.path.join(working_directory(), asked["cwd"] or ""))
        seen = Observation() if forget else load_observation(workspace)
        if command:
            request = build_request(asked, command)
            with _printing_on_stderr():
                result, found = learn(request.sandbox, command, say)
            seen = seen | found
            status = result.exit_status
            with contextlib.suppress(OSError):  # then the next run begins anew
                keep_observation(workspace, seen)
            if not result.ok:
                say(f"the command ended with {result.describe()}: what it needs beyond that was not seen")
        if not seen.commands:
            raise PolicyError(
                "learn-nothing",
                "nothing was learned in this workspace yet",
                why="no run was observed",
                fix="write `corral learn -- COMMAND`",
            )
        text = render(propose(seen, workspace), seen)
        if not apply:
            sys.stdout.write(text)
            return status
        return _apply(text, _target(workspace, for_user=for_user), yes=yes) or status
    except CorralError as error:
        return report_error(error, as_json=False)


@contextlib.contextmanager
def _printing_on_stderr() -> Iterator[None]:
    """Where the policy goes to a file or a pipe, what the command prints does not."""
    if os.isatty(1):
        yield
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _target(workspace: str, *, for_user: bool) -> str:
    return os.path.join(config_directory() if for_user else workspace, "corral.toml")


def _apply(text: str, path: str, *, yes: bool) -> int:
    """Show the difference, ask, and write the file whole."""
    before = ""
    if os.path.lexists(path):
        with open(path, encoding="utf-8") as file:
            before = file.read()
        if before and not before.startswith(MARK):
            raise PolicyError(
                "learn-file",
                f"{shorten(path)} is not written over",
                why="somebody has written it by hand",
                fix="take what you want from `corral learn`, which prints it",
            )
    names = (path if before else os.devnull, path)
    lines = difflib.unified_diff(before.splitlines(), text.splitlines(), *names, lineterm="")
    shown = [printable(line) for line in lines]
    if not shown:
        print(f"{shorten(path)} says that already")
        return 0
    print("\n".join(shown))
    if not yes and not _agreed(path):
        print("nothing was changed")
        return 1
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "x", encoding="utf-8") as file:
        file.write(text)
    os.rename(temporary, path)
    print(f"wrote {shorten(path)}; `corral policy show --effective` says what comes of it")
    return 0


def _agreed(path: str) -> bool:
    if not sys.stdin.isatty():
        return False
    sys.stdout.write(f"write {shorten(path)}? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
