"""Commands that begin where the last one ended: working directory and exported variables.

All of it happens inside the sandbox, in the shell that runs the command: corral never reads what a command
says its state is. Nothing is printed for it, and the status is the command's own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: $1 is the file that holds the state, $2 what this call asks for besides, $3 a shell line; or that is empty,
#: and a program with its arguments follows. The shell itself quotes the values (`export -p`).
_SCRIPT = r"""
CORRAL_STATE=$1; CORRAL_GIVEN=$2; CORRAL_LINE=$3; shift 3
corral_save() {
    CORRAL_DIRECTORY=$(pwd -P) && export CORRAL_DIRECTORY && export -p > "$CORRAL_STATE.new" &&
        mv -f "$CORRAL_STATE.new" "$CORRAL_STATE"
    unset CORRAL_DIRECTORY
} 2>/dev/null
if [ -f "$CORRAL_STATE" ]; then
    . "$CORRAL_STATE" 2>/dev/null
    cd -- "$CORRAL_DIRECTORY" 2>/dev/null
    unset CORRAL_DIRECTORY
fi
eval "$CORRAL_GIVEN"
trap 'corral_status=$?; trap - EXIT; corral_save; exit "$corral_status"' EXIT
if [ -n "$CORRAL_LINE" ]; then eval "$CORRAL_LINE"; else "$@"; fi
"""


def remember(
    argv: tuple[str, ...],
    line: str,
    state: str,
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """The command that restores the state in a file, runs a shell line or a program, and saves it again.

    What the caller asks for now, a directory inside and variables, is newer than the state, and wins.
    """
    given = [f"export {name}={_quote(value)}" for name, value in (env or {}).items() if _is_name(name)]
    if cwd is not None:
        given.append(f"cd -- {_quote(cwd)}")
    return ("/bin/sh", "-c", _SCRIPT, "sh", state, "\n".join(given), line, *argv)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _is_name(text: str) -> bool:
    """Whether a shell can have a variable of this name; others are passed on by it, or not."""
    return text.isascii() and text.isidentifier()
