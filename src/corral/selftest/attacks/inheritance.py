"""Attacks that use what a command gets from its caller, or leaves for the next one."""

from __future__ import annotations

import os
import socket
from functools import partial

from corral.model.feature import Feature
from corral.selftest.judge import leaked, written
from corral.selftest.probe import EscapeProbe, python_probe
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.stage import Stage

_RUNNER = "the runner passes on the permitted variables only"


def _secret_in_environment(stage: Stage) -> None:
    stage.environment.update(AWS_SECRET_ACCESS_KEY=stage.secret, GITHUB_TOKEN=stage.secret)


def _poisoned_variables(stage: Stage) -> None:
    path = f"/nonexistent/{stage.secret}"
    stage.environment.update(BASH_ENV=path, PYTHONSTARTUP=path)


def _open_directory(stage: Stage) -> None:
    descriptor = os.open(stage.at("out"), os.O_RDONLY | os.O_DIRECTORY)
    os.set_inheritable(descriptor, True)
    stage.on_leaving(lambda: os.close(descriptor))
    stage.inherited.append(descriptor)


def _shared_directory(stage: Stage) -> None:
    """Without a sandbox the command is told that /tmp is its own: what it leaves is ours to remove."""
    stage.on_leaving(partial(remove_tree, "/tmp", f"left-{stage.token}"))


def _start_file(stage: Stage) -> None:
    stage.write("ws/.envrc", "export A=1\n")


def _door(stage: Stage) -> None:
    """Somebody in the same workspace to whom a descriptor can be sent: another sandbox, or a service."""
    stage.repository()
    stage.write("ws/keys/private", stage.secret)
    stage.listen("door", socket.AF_UNIX, socket.SOCK_STREAM, stage.at("ws/door"))


def _opened_through_the_door(stage: Stage, name: str, flags: int) -> int:
    """Open a file beneath the directory that was sent, after its sender has ended; -1 if that fails."""
    directory = stage.received_descriptor("door")
    if directory < 0:
        return -1
    try:
        return os.open(name, flags, 0o755, dir_fd=directory)
    except OSError:
        return -1
    finally:
        os.close(directory)


def _plants_through_the_door(stage: Stage, _output: str) -> str:
    hook = ".git/hooks/pre-commit"
    descriptor = _opened_through_the_door(stage, hook, os.O_WRONLY | os.O_CREAT)
    if descriptor >= 0:
        os.write(descriptor, stage.token.encode())
        os.close(descriptor)
    return f"{hook} was written" if stage.token in stage.read(f"ws/{hook}") else ""


def _reads_through_the_door(stage: Stage, _output: str) -> str:
    descriptor = _opened_through_the_door(stage, "keys/private", os.O_RDONLY)
    if descriptor < 0:
        return ""
    with open(descriptor, encoding="utf-8") as file:
        return "keys/private was read" if stage.secret in file.read() else ""


_SEND_DIRECTORY = """
import socket
door = socket.socket(socket.AF_UNIX)
door.connect('door')
socket.send_fds(door, [b'.'], [os.open('.', os.O_RDONLY | os.O_DIRECTORY)])
"""


def _leftovers(stage: Stage, _output: str) -> str:
    places = (stage.at("tmp"), f"/tmp/left-{stage.token}")
    left = [place for place in places if os.path.isdir(place) and (place != places[0] or os.listdir(place))]
    return f"something is left in {left[0]}" if left else ""


PROBES = (
    python_probe(
        "environment-secrets",
        "Print the secrets in the environment.",
        Feature.ENVIRONMENT,
        "SECURITY P4",
        "print(dict(os.environ))\n",
        leaked(),
        _secret_in_environment,
        _RUNNER,
    ),
    python_probe(
        "poison-next-command",
        "Leave variables behind that the next command of the same workspace would obey.",
        Feature.ENVIRONMENT,
        "B24, CVE-2026-22708",
        "print([os.environ.get(name) for name in ('LD_PRELOAD', 'BASH_ENV', 'PYTHONSTARTUP')])\n",
        leaked(),
        _poisoned_variables,
        _RUNNER,
    ),
    python_probe(
        "inherited-descriptor",
        "Use a directory that the caller left open: openat(fd, ...) leads outside.",
        Feature.DESCRIPTORS,
        "A11, CVE-2024-21626",
        """
for fd in range(3, 64):
    try: os.write(os.open('pwn', os.O_CREAT | os.O_WRONLY, dir_fd=fd), TOKEN.encode())
    except OSError: pass
""",
        written("out/pwn"),
        _open_directory,
        "the runner closes descriptors when it starts a bare command",
    ),
    EscapeProbe(
        "write-through-stdin",
        "Open the protected file that the caller gave as stdin once more, for writing.",
        Feature.FS_PROTECT,
        "corral (streams/doors.py)",
        'echo "$TOKEN" > /proc/self/fd/0',
        written("ws/.envrc"),
        _start_file,
        stdin="ws/.envrc",
    ),
    python_probe(
        "outlive-shields",
        "Send the working directory to somebody else and end: the shields in it end too.",
        Feature.FS_PROTECT,
        "corral (launcher/lock.c)",
        _SEND_DIRECTORY,
        _plants_through_the_door,
        _door,
    ),
    python_probe(
        "outlive-denials",
        "Send the working directory to somebody else and end: what was denied in it can be read.",
        Feature.FS_DENY,
        "corral (launcher/lock.c)",
        _SEND_DIRECTORY,
        _reads_through_the_door,
        _door,
    ).replace(capabilities=("filesystem:deny:${workspace}/keys/private",)),
    EscapeProbe(
        "leave-temporary-files",
        "Leave files in the temporary directory that nobody may remove: a tree without any rights.",
        Feature.FS_PRIVATE,
        "corral (runtime/scratch.py)",
        'd=$TMPDIR/left-$TOKEN; mkdir -p "$d/b/c/d"; touch "$d/b/c/d/e";'
        ' chmod 000 "$d/b/c/d" "$d/b/c" "$d/b" "$d"',
        _leftovers,
        _shared_directory,
    ),
)
