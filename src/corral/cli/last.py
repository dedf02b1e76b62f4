"""The last run that had something to say, for `corral why --last`."""

from __future__ import annotations

import contextlib
import time

from corral.host.real import HIDDEN
from corral.host.state import read_state, write_state
from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.model.result import Result

_FILE = f"{HIDDEN}/last-events"
_MOST_BYTES = 65_536
_LONGEST_COMMAND = 200


def keep_last(command: str | Sequence[str], result: Result) -> None:
    """Write down what there is to say about a run. What cannot be written is not asked for either."""
    text = command if isinstance(command, str) else " ".join(command)
    head = f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {printable(text[:_LONGEST_COMMAND])}: {result.describe()}"
    lines = [head, *(f"{event.evidence.value}: {event.describe()}" for event in result.events)]
    with contextlib.suppress(OSError):
        write_state(_FILE, "\n".join(lines).encode("utf-8", "replace")[:_MOST_BYTES])


def read_last() -> list[str]:
    """These lines; none if there was no such run."""
    return read_state(_FILE, _MOST_BYTES).decode("utf-8", "replace").splitlines()
