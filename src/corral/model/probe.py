"""Probe: facts about one backend on this host, now."""

from __future__ import annotations

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.feature import Feature


class Dependence(Record):
    """What the answer of a backend depends on besides kernel, user and launcher.

    A probe is remembered. It is asked again when one of the programs is another one, or gone, and when one
    of the variables has another value.
    """

    programs: tuple[str, ...] = ()  # by name, as they are found on the caller's PATH
    variables: tuple[str, ...] = ()  # of the caller's environment
    hard_limits: bool = False  # of the caller's processes (setrlimit(2)), as `read_hard_limits` tells them


class Probe(Record):
    backend: str
    available: bool
    enforces: frozenset[Feature] = frozenset()
    reason: str = ""  # why it is unavailable, in words for the user
    fix: str = ""
    version: str = ""
    details: tuple[tuple[str, str], ...] = ()
    #: Where something is done, but less than is promised, and what. It counts as not enforced.
    approximates: tuple[tuple[Feature, str], ...] = ()

    def detail(self, name: str) -> str:
        """One fact by name, or an empty string."""
        return dict(self.details).get(name, "")


#: The fact of a probe that says what would have limits held that are not held now.
LIMITS_FIX = "limits fix"
#: Where a probe says `yes`: commands reach a limited network by a proxy that they are told of.
PROXIED = "proxy"
#: Where it says `yes`: without a network, what a command asks for can be heard of.
OBSERVED = "observes"
#: Where it says `yes`: what the filter refuses is told when it happens.
LISTENS = "listens"
#: Where it says `yes`: calls on files can be traced.
TRACES = "traces"


class LaunchTrial(Record):
    """What happened when the launcher was tried with a spec."""

    ok: bool
    phase: str = ""
    errno: int = 0
    detail: str = ""


class ModuleRunner(Record):
    """How the process is started that runs a WebAssembly module."""

    argv: tuple[str, ...] = ()
    cache: str = ""  # a directory for what was compiled; empty: none
    python: str = ""  # where a Python for WASI is expected; it need not be there
    reason: str = ""  # why there is none
    fix: str = ""


class ToolRun(Record):
    """What a program of the host said that a probe asked."""

    status: int  # -1: it could not be started, or took too long; `errors` says so
    output: str = ""
    errors: str = ""


class Stat(Record):
    """The part of a file's status that planning needs."""

    is_directory: bool
    is_link: bool
    device: int
    inode: int
    is_socket: bool = False
    names: int = 1  # how many hard links lead to it
    is_unknown: bool = False  # the caller may not look there, so nothing is known about it
    is_executable: bool = False  # a file with a right to be executed, by whomever
    is_closed: bool = False  # its owner is the caller, who took the right to look into it away


class Entries(Record):
    """The names in a directory, in no order."""

    directories: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


#: Where the kernel tells a process its own limits.
LIMITS_FILE = "/proc/self/limits"
_RESOURCES = {"Max open files": "nofile", "Max processes": "nproc"}


def read_hard_limits(text: str) -> tuple[tuple[str, int], ...]:
    """(name, number) of the hard limits that engines set to values of their own; -1 is none (proc(5))."""
    found = []
    for line in text.splitlines():
        name, values = _RESOURCES.get(line[:26].strip(), ""), line[26:].split()
        if name and len(values) > 1:
            found.append((name, int(values[1]) if values[1].isdigit() else -1))
    return tuple(sorted(found))
