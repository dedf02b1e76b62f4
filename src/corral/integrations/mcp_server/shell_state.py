"""Shell commands that begin where the last one ended, in bash and without a process more.

All of it happens inside the sandbox, as in `sessions.stateful`, which is for any shell: that starts programs
to keep the state whole, and they take longer than most commands. Here commands come one after the other, and
a state that was cut off is known by its end, and not taken.
"""

from __future__ import annotations

from corral.integrations.bash_tool import SHELL, stateful_shell

#: $1 is the name of the file that holds the state, in a private area that all commands of a session share,
#: and $2 the command. The shell itself quotes the values.
_SCRIPT = r"""
CORRAL_STATE=${TMPDIR:-/tmp}/$1 CORRAL_LINE=$2; shift 2
{
    IFS= read -r -d '' CORRAL_SAVED < "$CORRAL_STATE"
    [[ $CORRAL_SAVED == *$'\n# whole\n' ]] && eval "$CORRAL_SAVED"
} 2>/dev/null
unset CORRAL_SAVED
trap 'corral_status=$?; trap - EXIT
{ export -p; printf "cd -- %q\n# whole\n" "$PWD"; } >| "$CORRAL_STATE"
exit "$corral_status"' EXIT
eval "$CORRAL_LINE"
"""


def stateful_command(command: str, name: str) -> tuple[str, ...]:
    """A command for a session: a shell that restores the state in a file, runs a text, and saves it again."""
    if not SHELL.endswith("/bash"):
        return stateful_shell(command, f"/tmp/{name}", joined=False)
    return (SHELL, "--norc", "--noprofile", "-c", _SCRIPT, "bash", name, command)
