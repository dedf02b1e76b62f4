"""A trap: a few lines of Python that a command runs in the workspace, for the user's next git command."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Groups of traps that can lie in one repository at once. After some there are no commits, or no repository.
FILES, DIRECTORIES, STATES, MORE, UNBORN, GONE = "files", "directories", "states", "more", "unborn", "gone"
ALONE = "alone"  # nothing else could be noticed beside it
GROUPS = (FILES, DIRECTORIES, STATES, MORE, UNBORN, GONE)


@dataclass(frozen=True)
class Trap:
    """`commands`, one after the other, spring it with the git that is installed.

    Where `harmless` says why not, they are those that come nearest to it: another git may do otherwise.
    """

    name: str
    code: str
    commands: tuple[str, ...]
    harmless: str = ""
    group: str = FILES
    held: bool = False  # a sandbox does not even let it be planted: what it would write is read-only there
    has_repository: bool = False  # it aims at a repository outside
    is_surrounded: bool = False  # it aims at a repository around the workspace


def sprung(name: str, code: str, *commands: str, **options: object) -> Trap:
    return Trap(name, code, commands, **options)  # type: ignore[arg-type]


def harmless(why: str, name: str, code: str, *commands: str, **options: object) -> Trap:
    return Trap(name, code, commands, why, **options)  # type: ignore[arg-type]


#: What traps are written with. Of the world outside they know names alone, as a command in a sandbox does.
_PRELUDE = '''
import hashlib, os, shutil, socket, struct, subprocess, sys
OUT, WS = sys.argv[1], os.getcwd()

def git(*words, cwd=None, data=None, check=True):
    done = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *words], cwd=cwd,
                          input=data, capture_output=True)
    if check and done.returncode:
        raise RuntimeError(f"git {words}: {done.stderr.decode()}")
    return done.stdout.decode().strip()

def place(path):
    """Where git itself looks for a file of its own: not always below `.git`."""
    if path.startswith(".git/") and os.path.isfile(".git"):
        return git("rev-parse", "--git-path", path[5:])
    return path

def clear(path):
    path = place(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if os.path.islink(path) or os.path.lexists(path) and not os.path.isdir(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)

def write(path, text, mode=0o644):
    path = place(path)
    clear(path)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())

def link(path, target):
    path = place(path)
    clear(path)
    os.symlink(target, path)

def nested(path, config="", hooks=()):
    """A repository of one's own with a commit, whose configuration is anything."""
    os.makedirs(path, exist_ok=True)
    git("init", "-q", "--template=", cwd=path)
    write(f"{path}/file", "text")
    git("add", ".", cwd=path)
    git("commit", "-qm", "nested", cwd=path)
    with open(f"{path}/.git/config", "a") as file:
        file.write(config)
    for hook in hooks:
        write(f"{path}/.git/hooks/{hook}", HOOK, 0o755)

def index_entries():
    with open(place(".git/index"), "rb") as file:
        data = file.read()
    found, at = [], 12
    for _ in range(struct.unpack(">I", data[8:12])[0]):
        end = data.index(b"\\0", at + 62)
        found.append((data[at + 62:end], data[at:at + 60]))
        at += (end - at + 8) // 8 * 8
    return found

def add_to_index(path, mode, content):
    """An entry that git itself would refuse to add."""
    blob = bytes.fromhex(git("hash-object", "-w", "--stdin", data=content.encode()))
    entry = (path.encode(), struct.pack(">10I", 0, 0, 0, 0, 0, 0, mode, 0, 0, 0) + blob)
    entries = sorted([entry, *index_entries()])
    data = b"DIRC" + struct.pack(">II", 2, len(entries))
    for name, head in entries:
        whole = head + struct.pack(">H", len(name)) + name
        data += whole + b"\\0" * (8 - len(whole) % 8)
    write(".git/index", data + hashlib.sha1(data).digest())

def plant(name, code):
    global NAME, AIM, EVIL, VICTIM, DIR, EMPTY, HOOK, MONITOR, CONFIG
    NAME, AIM = name, f"{OUT}/{name}"
    EVIL, VICTIM, DIR, EMPTY = f"{AIM}/evil-{name}", f"{AIM}/startup", f"{AIM}/dir", f"{AIM}/empty"
    HOOK = f"#!/bin/sh\\n{EVIL}\\n"
    MONITOR = f"[core]\\n\\tfsmonitor = {EVIL}\\n"
    CONFIG = f"[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = {EVIL}\\n"
    try:
        exec(code, globals())
        print("planted", name, flush=True)
    except Exception as problem:
        print("refused", name, repr(problem)[:300], flush=True)
    os.chdir(WS)
'''


def script(traps: Iterable[Trap]) -> str:
    """The text of a program in Python that plants traps one by one, and says of each how that went."""
    return _PRELUDE + "".join(f"\nplant({trap.name!r}, {trap.code!r})" for trap in traps)
