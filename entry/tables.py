"""Write tables.h: what the entry program knows of the Python part. A test holds the file to what this makes.

.venv/bin/python entry/tables.py
"""

from __future__ import annotations

from pathlib import Path

from corral.cli import advice
from corral.cli.options import OPTIONS
from corral.cli.session.options import EXEC_OPTIONS
from corral.cli.stored import LEFT_OUT
from corral.runtime import discarded, inference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD = """/* Made by entry/tables.py from the Python part: do not change it by hand. */
#ifndef CORRAL_TABLES_H
#define CORRAL_TABLES_H

#include <stdbool.h>

/* src/corral/cli/options.py */
struct option_entry {
    const char *flag;
    bool takes_value, is_line;
};

/* src/corral/cli/session/options.py */
enum exec_kind { EXEC_OF_PYTHON, EXEC_LINE, EXEC_STATEFUL, EXEC_ENV, EXEC_CWD, EXEC_TIMEOUT };

struct exec_option {
    const char *flag;
    bool takes_value;
    enum exec_kind kind;
};

"""
#: The options of `corral session exec` that need no Python.
_OF_PYTHON = "EXEC_OF_PYTHON"
_EXEC_KINDS = {name: f"EXEC_{name.upper()}" for name in ("line", "stateful", "env", "cwd", "timeout")}
#: Python's `lower` makes a plain `k` of this sign, and the C part folds ASCII alone.
_KELVIN = "\u212a"


def denials() -> tuple[str, ...]:
    """All the words from which something is guessed, whatever the plan grants."""
    every = (
        *(inference._DENIALS, inference._NO_SUDO, inference._NO_PROCESS, inference._NO_TRACING),
        *(inference._NO_ENGINE, inference._NO_BROWSER, inference._NO_NETWORK),
    )
    return (*dict.fromkeys(word for words in every for word in words), _KELVIN)


def advised() -> tuple[str, ...]:
    """Parts of every command that there is advice on. Of git's the second word will do."""
    return tuple(sorted({*advice._ADVICE, *(words[0] for words in advice._GIT)}))


def _literal(text: str) -> str:
    return (
        '"'
        + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in text.encode())
        + '"'
    )


def _list(name: str, place: str, entries: Iterable[str]) -> str:
    lines = "\n".join(f"    {_literal(entry)}," for entry in entries)
    return f"/* {place} */\nstatic const char *const {name}[] __attribute__((unused)) = {{\n{lines}\n}};\n\n"


def _truth(value: object) -> str:
    return "true" if value else "false"


def _exec_flags() -> str:
    return "\n".join(
        f"    {{{_literal(flag)}, {_truth(option.metavar)}, {_EXEC_KINDS.get(option.name, _OF_PYTHON)}}},"
        for option in EXEC_OPTIONS
        for flag in option.flags
    )


def render() -> str:
    """The whole file."""
    flags = "\n".join(
        f"    {{{_literal(flag)}, {_truth(option.metavar)}, {_truth(option.name == 'line')}}},"
        for option in OPTIONS
        for flag in option.flags
    )
    return (
        HEAD
        + f"static const struct option_entry OPTIONS[] __attribute__((unused)) = {{\n{flags}\n}};\n\n"
        + "static const struct exec_option EXEC_OPTIONS[] __attribute__((unused)) = {\n"
        + f"{_exec_flags()}\n}};\n\n"
        + _list("LEFT_OUT", "src/corral/cli/stored.py", LEFT_OUT)
        + _list("DENIALS", "src/corral/runtime/inference.py", denials())
        + _list("ADVISED", "src/corral/cli/advice.py", advised())
        + _list("CACHES", "src/corral/runtime/discarded.py", sorted(discarded._CACHES))
        + "#endif\n"
    )


if __name__ == "__main__":
    Path(__file__).with_name("tables.h").write_text(render(), encoding="ascii")
