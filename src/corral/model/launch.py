"""Launch: how one backend carries out a plan. Data only; the runner acts on it."""

from __future__ import annotations

from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.model.feature import Feature
    from corral.model.plan import ConfigCopy, PrivateFile


class GroupRequest(Record):
    """A control group that the runner makes before the launch and removes after it."""

    enforcer: str  # who makes it: CGROUP1, CGROUP2 or SYSTEMD of model.enforcer
    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None
    cpu_seconds: float | None = None
    launcher_pids: int = 0  # processes of the launcher itself that live in the group, and do not count
    ends_by_group: bool = False  # nothing else ends all processes at once

    @property
    def is_needed(self) -> bool:
        """Whether it holds a limit. If not it counts only, and a run can do without."""
        return (self.memory_bytes, self.cpus, self.pids, self.cpu_seconds) != (None, None, None, None)


class StartFailure(Record):
    """How to read the words of an outer program that ended before the sandbox was there."""

    needle: str  # what its output holds; an empty one fits every output
    code: str  # of the error
    message: str
    fix: str


class Fetch(Record):
    """An image that an outer program fetches before it is started, if it does not have it."""

    image: str
    look: tuple[str, ...]  # prints the identity of the image, and fails where there is none
    pull: tuple[str, ...]


class Outer(Record):
    """A program that makes the sandbox. The launcher is started inside, and asks corral for the rest."""

    launcher: str = ""  # the file that the first process inside must be running; empty: it is not looked at
    control: str = ""  # the name of the control socket in the scratch directory; empty: inherited
    start_seconds: float = 60.0  # until the launcher must have said that it is there
    removal: tuple[str, ...] = ()  # a command that removes what the program may have left
    finding: tuple[str, ...] = ()  # prints what `removal` is to be given, a line each; empty: nothing more
    kept: str = ""  # the name by which what the program made stays there, if a command ran in it
    has_network: bool = False  # its first process has a network of its own, with more than a loopback
    listens: tuple[str, ...] = ()  # "tcp 127.0.0.1 8080": on this machine, before the command runs
    fetch: Fetch | None = None
    failures: tuple[StartFailure, ...] = ()  # the first that fits counts


class Inside(Record):
    """What the commands of a kept sandbox are told, where that differs from what is so outside."""

    env: tuple[tuple[str, str], ...]  # complete
    prefix: tuple[str, ...] = ()  # comes before the arguments of every command: an image's entry point
    places: tuple[tuple[str, str], ...] = ()  # (path of the host, path inside); others are as outside
    has_own_root: bool = True  # what its first process sees as the root directory is the sandbox's own


class CopyMount(Record):
    """A configuration that the command sees as a link to its copy."""

    copy: ConfigCopy
    inside: str  # the directory that holds the copy, and what git makes beside it


#: What the copy is called in its directory.
COPY_NAME = "config"

#: What the machine is called inside.
HOSTNAME = "corral"


class Front(StrEnum):
    """How the connections of a command come to the gateway."""

    SOCKETS = "sockets"  # listening sockets out of the sandbox's own network: no program knows of it
    PROXY = "proxy"  # a proxy that programs are told of, where there is no network of their own


class GatewayRequest(Record):
    """Connections that corral makes in the command's stead."""

    front: Front
    addresses: str = ""  # the range from which names get addresses inside


class Launch(Record):
    backend: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]  # complete; nothing is inherited
    enforced: Mapping[Feature, str]  # feature -> mechanism
    spec: bytes | None = None  # for the launcher, on descriptor 3; None: argv is the command itself
    outer: Outer | None = None  # argv is a program that starts the launcher, somewhere inside
    scratch: str = ""  # a private directory to make before and to remove after
    scratch_files: tuple[PrivateFile, ...] = ()  # to write there
    profile: PrivateFile | None = None  # says what is permitted: made before, gone after, out of all reach
    copies: tuple[CopyMount, ...] = ()  # to make before, to mount in the spec, and to take over after
    group: GroupRequest | None = None
    gateway: GatewayRequest | None = None  # its sockets come on the status channel
    cwd: str = "/"
    ulimits: tuple[tuple[str, int], ...] = ()  # options of the shell's `ulimit`, where there is no launcher
    inside: Inside | None = None  # for commands that are started later; None: it cannot be kept
    holds_descriptors: bool = False  # a file that is open for reading cannot be reopened for writing
    guards_names: bool = False  # its launcher can watch over protected names itself: it is on the host
    started: str = ""  # a file that appears when a sandbox without a launcher stands; else nothing has run
