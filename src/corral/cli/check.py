"""`corral check`: what rules have to say about the text of a command; and how `run` and hooks apply them."""

from __future__ import annotations

import os
import sys

from corral.cli.run import print_json, report_error, say
from corral.model.errors import CorralError, PolicyError
from corral.model.printable import printable
from corral.shell_check.apply import apply_check
from corral.shell_check.check import check
from corral.shell_check.verdict import ADVICE, CheckVerdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.config.configuration import Configuration
    from corral.shell_check.verdict import CheckResult

#: By verdict; a mistake of the caller's is 2, as everywhere.
_STATUS = {CheckVerdict.ALLOW: 0, CheckVerdict.ASK: 10, CheckVerdict.DENY: 11}


def check_command(words: Sequence[str], rules: Sequence[str], *, as_json: bool) -> int:
    """Print the verdict; returns the exit status. One word is a text for a shell, several are a command."""
    text = sys.stdin.read() if list(words) == ["-"] else None
    try:
        result = check(text if text is not None else words[0] if len(words) == 1 else words, rules=rules)
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    if as_json:
        print_json(result.to_json())
    else:
        print(result.verdict.value)
        for found in result.reasons:
            print(f"  {found.describe()}")
            print(f"    characters {found.start} to {found.end}")
        if result.unknown:
            count = len(result.unknown)
            print(
                f"  {count} {'word has' if count == 1 else 'words have'} a value that the text does not tell"
            )
        print(f"({ADVICE})")
    return _STATUS[result.verdict]


def check_configured(
    configuration: Configuration, command: str | tuple[str, ...], *, for_agent: bool = False
) -> None:
    """Check what is about to run, as configured. Raises PolicyError if it may not, which is recorded.

    Nobody is asked for an agent: the terminal, if there is one, is the agent's own.
    """
    ask = None if for_agent else ask_at_terminal
    try:
        apply_check(configuration.check_mode, command, rules=configuration.check_rules, say=say, ask=ask)
    except PolicyError as refusal:
        recorder = configuration.recorder()
        if recorder is not None:
            recorder.note_failed("", refusal)
        raise


def ask_at_terminal(result: CheckResult) -> bool:
    """Ask whoever sits at the terminal. TRUST: never by stdin, which may be the author of the command."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return False
    try:
        lines = [f"corral: check: {printable(found.describe())}" for found in result.reasons]
        os.write(terminal, ("\r\n".join([*lines, "run it anyway? [y/N] "])).encode("utf-8", "replace"))
        return os.read(terminal, 16).strip().lower() in {b"y", b"yes"}
    except OSError:  # a job in the background may not read
        return False
    finally:
        os.close(terminal)
