"""Why a command may have failed in the sandbox, in words that a model can act on.

They say what the sandbox shows and permits, never what the host has: a command could ask for that by failing.
"""

from __future__ import annotations

import os

from corral.model.errors import CorralError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.sessions.named.client import ClientConnection

#: Programs whose work is the network, as far as one sees from their names.
_NETWORKED = frozenset(
    {"curl", "wget", "pip", "pip3", "npm", "npx", "yarn", "pnpm", "ssh", "scp", "rsync", "apt-get"}
)
_BETWEEN = " \t\n'\"`=;|&<>(){}[],"
_MOST_PATHS = 4


def absolute_paths(line: str, workspace: str) -> list[str]:
    """The paths outside of the workspace that a shell line names, as it seems; the first few."""
    home = os.path.expanduser("~")
    found = []
    for word in _words(line):
        path = f"{home}{word[1:]}" if word == "~" or word.startswith("~/") else word
        if not path.startswith("/") or len(path) < 2 or not path.isprintable() or "$" in path or "*" in path:
            continue
        normal = os.path.normpath(path)
        if normal != workspace and not normal.startswith(f"{workspace.rstrip('/')}/") and normal not in found:
            found.append(normal)
    return found[:_MOST_PATHS]


def wants_network(line: str) -> bool:
    """Whether a shell line is about the network, as it seems."""
    words = _words(line)
    return "://" in line or any(os.path.basename(word) in _NETWORKED for word in words)


def pipes_network(line: str) -> bool:
    """Whether a shell line ends with another status than that of a program that is about the network.

    The status of a pipe is its last program's: `curl … | tail -1` succeeds without a network, too.
    """
    for command in line.replace("&&", ";").replace("||", ";").replace("\n", ";").split(";"):
        *stages, _ = command.split("|")
        for words in filter(None, (stage.split() for stage in stages)):
            if os.path.basename(words[0]) in _NETWORKED:
                return True
    return False


def describe_hidden(paths: Iterable[str]) -> Iterator[str]:
    """That the sandbox does not show these."""
    for path in paths:
        yield (
            f"{path} is not visible in the sandbox: outside the workspace the policy shows what it grants"
            " and no more. Do without it, or ask the user to grant it in corral.toml"
        )


def describe_network(connection: ClientConnection) -> Iterator[str]:
    """That there is no network, if so; which host was refused is said by the session itself."""
    try:
        permitted = connection.ask("network").get("permitted")
    except CorralError:
        permitted = None  # the session has none
    if not permitted:
        yield (
            "the sandbox has no network: no host outside can be reached."
            " Do without it, or ask the user to permit the host in corral.toml"
        )


def _words(line: str) -> list[str]:
    return line.translate({ord(character): " " for character in _BETWEEN}).split(" ")
