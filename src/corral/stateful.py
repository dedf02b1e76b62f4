"""Commands that begin where the last one ended: working directory and exported variables.

All of it happens inside the sandbox, in the shell that runs the command: corral never reads what a command
says its state is. Nothing is printed for it, and the status is the command's own.
"""

from __future__ import annotations

#: $1 is the file that holds the state, $2 a shell line; or $2 is empty, and a program with its arguments
#: follows. The shell itself quotes the values (`export -p`).
_SCRIPT = r"""
CORRAL_STATE=$1; CORRAL_LINE=$2; shift 2
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
trap 'corral_status=$?; trap - EXIT; corral_save; exit "$corral_status"' EXIT
if [ -n "$CORRAL_LINE" ]; then eval "$CORRAL_LINE"; else "$@"; fi
"""


def remember(argv: tuple[str, ...], line: str, state: str) -> tuple[str, ...]:
    """The command that restores the state in a file, runs a shell line or a program, and saves it again."""
    return ("/bin/sh", "-c", _SCRIPT, "sh", state, line, *argv)
