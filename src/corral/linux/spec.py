"""The launcher's spec: what corral-launch is told to do, as one flat run of bytes.

    header   8 bytes magic, u32 total length, u32 number of records
    record   u32 type, u32 payload length, payload

All integers are little-endian and unaligned. A string is its bytes and one NUL; a blob is a u32
length and its bytes. A payload is read to its last byte. Whatever does not fit this description to
the letter is refused by both decoders (`decode` here, `spec.c` in the launcher), never guessed at.
The order of records has no meaning, except among records of one type.
"""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag

from corral.model.record import Record

MAGIC = b"CORRAL\x00\x01"
MAX_BYTES = 8 * 1024 * 1024
MAX_RECORDS = 1_000_000
MAX_PORTS = 128  # of a gateway

HEADER = struct.Struct("<8sII")
RECORD = struct.Struct("<II")
U32 = struct.Struct("<I")
U64 = struct.Struct("<Q")
MOUNT = struct.Struct("<IIQQQI")
RLIMIT = struct.Struct("<IQQ")
LANDLOCK = struct.Struct("<QQQ")
PATH_RULE = struct.Struct("<QQQ")
AREAS = struct.Struct("<QQ")
CPU_TIME = struct.Struct("<QQI")
WATCH = struct.Struct("<QQII")
EXPECT = struct.Struct("<IQQ")
LISTEN = struct.Struct("<II")
GUARDED = struct.Struct("<QQ")


class RecordType(IntEnum):
    NAMESPACES = 1  # u32 mask of CLONE_NEW*; at most once
    ID_MAP = 2  # u32 0 uid / 1 gid, string map; at most once each
    CGROUP = 3  # u32 kind, string path: a control group that the command lives in
    MOUNT = 4  # u32 kind, u32 flags, u64 device, u64 inode, u64 size, u32 mode, source, target, blob
    HOSTNAME = 5  # string; at most once
    LOOPBACK = 6  # empty; at most once
    RLIMIT = 7  # u32 resource, u64 soft, u64 hard
    LANDLOCK = 8  # u64 handled fs, u64 handled net, u64 scoped; at most once
    LANDLOCK_PATH = 9  # u64 rights, u64 device, u64 inode (both 0: not compared), string path
    LANDLOCK_PORT = 10  # u64 rights, u64 port
    SECCOMP = 11  # the BPF program, a multiple of 8 bytes; at most once
    CWD = 12  # string; exactly once
    ARGUMENT = 13  # string; at least once
    ENVIRONMENT = 14  # string NAME=VALUE
    WALL = 15  # u64 milliseconds, u64 grace milliseconds; at most once
    TERMINAL = 16  # empty: stdin becomes the controlling terminal; at most once
    FAULT = 17  # string phase: fail there; known to test builds only
    AREAS = 18  # u64 size, u64 inodes: what all private areas have together; at most once
    CGROUP_KILL = 19  # u32 kind, string path: how to end all members of the group at once; at most once
    CPU_TIME = 20  # u64 limit in us, u64 grace milliseconds, u32 divisor, string file; at most once
    WATCH = 21  # u64 memory, u64 processes, u32 permille of time, u32 processors; at most once
    LINGER = 22  # empty: when all is over, say so and wait until the lifeline is cut; at most once
    INSIDE = 23  # empty: somebody else has made the sandbox; mounts are made in place; at most once
    EXPECT = 24  # u32 flags, u64 device, u64 inode, string path: what must be found there
    IMAGE_ENVIRONMENT = 25  # empty: the launcher's own variables are the image's, and are kept; at most once
    SERVE = (
        26  # u32 flags: keep the sandbox, and start the commands that come on stdin, a socket; at most once
    )
    KEEP = 27  # empty: what the command leaves running goes on until the lifeline is cut; at most once
    GATEWAY = 28  # u32 flags, u32 ports: sockets that are made and sent on the status channel; at most once
    GROUP = 30  # string directory: a control group is made in it, and removed; "%0" is the first of them
    GROUP_SETTING = 31  # string "%N/FILE", string value, written there before anything is started
    LISTEN = 32  # u32 number of a call that the filter sends to the supervisor, u32 mask (linux/listening.py)
    GUARD = 33  # string quarantine directory, or nothing: protected names are watched over; at most once
    GUARDED = 34  # u64 device, u64 inode, string path: a directory with protected names
    NAME = 35  # u32 flags, string name, string link text, string label: in the directory that came last
    SEARCHED = 36  # u64 device, u64 inode, string path: searched for git directories, before and after
    AWAIT = 50  # empty: no command starts before corral says so, by a word on the lifeline; at most once
    IDENTITY = 51  # u32 first id, u32 count: the host's ids that a command has as 0 and so on; at most once
    LOCK = 29  # empty: no mount comes off any more, /proc becomes read-only; at most once, with both id maps


class MountKind(IntEnum):
    BIND = 1  # source (host path) at target; the source must have this device and inode
    TMPFS = 2  # an empty private file system of `size` bytes and `mode`
    PROC = 3
    DEVPTS = 4
    SYMLINK = 5  # target is a link that reads `source`
    FILE = 6  # target is a new file of `mode` with `content`
    DIRECTORY = 7  # target is a new directory of `mode`
    MASK = 8  # target exists, has this device and inode, and becomes unreadable
    AREA = 9  # an empty directory of `mode` in the one file system of the private areas
    LINK = 10  # target exists, has this device and inode, and is covered by a link that reads `source`
    COPY = 11  # like BIND, of a file that is not written; copied if it is small and everyone may read it
    # Source with layers over it; content: upper, work, lowers downwards, each with a NUL. With a size, the
    # upper one is in memory, for `mode` files at most; content: corral's directory, lowers.
    OVERLAY = 12


class MountFlag(IntFlag):
    READ_ONLY = 1
    NO_EXEC = 2
    DEVICES = 4  # device files work here; nowhere else
    UNVERIFIED = 8  # device and inode are not compared (a device file of /dev)


class ServeFlag(IntFlag):
    FILTERED = 1  # the server itself is bound by the filter, which permits all that it does
    SIGNALS = 2  # commands may signal each other: no scope of Landlock's, a PID namespace holds them
    SOCKETS = 4  # commands may meet at abstract sockets: a network namespace holds them


class GatewayFlag(IntFlag):
    ROUTES = 1  # every address is made the sandbox's own, so that the gateway hears of all
    NOTIFY = 2  # no sockets: the filter tells corral about connections, and corral makes them
    PUBLISH = 4  # sockets as well by which corral connects to servers inside


class GatewaySockets(Record):
    ports: tuple[int, ...] = ()
    flags: GatewayFlag = GatewayFlag(0)


class Mount(Record):
    kind: MountKind
    target: str
    source: str = ""
    flags: MountFlag = MountFlag(0)
    device: int = 0
    inode: int = 0
    size: int = 0
    mode: int = 0
    content: bytes = b""


class Areas(Record):
    size_bytes: int
    inodes: int


class CgroupKind(IntEnum):
    TASKS = 1  # version 1: the file `tasks`, to which the child of the launcher writes itself
    BIRTH = 2  # version 2: the directory; the child is born there


class Cgroup(Record):
    kind: CgroupKind
    path: str


class CgroupKillKind(IntEnum):
    FILE = 1  # version 2: the file cgroup.kill
    FREEZER = 2  # version 1: a directory of the freezer's hierarchy


class CgroupKill(Record):
    kind: CgroupKillKind
    path: str


class CpuTime(Record):
    """The launcher ends the tree when the first number in a file, divided, is more than the limit."""

    limit_us: int
    grace_ms: int
    divisor: int
    path: str


class LimitWatch(Record):
    """Limits without a control group: the launcher looks for itself, and ends or stops the tree. 0: none."""

    memory_bytes: int = 0
    processes: int = 0
    share_permille: int = 0  # runs so much of the time
    processors: int = 0  # on so many processors


class ExpectFlag(IntFlag):
    READ_ONLY = 1  # nothing can be written there
    MOUNT_POINT = 2  # it cannot be renamed or removed
    TMPFS = 4  # an empty file system in memory: a private area
    OTHER = 8  # it is not the object with this device and inode: that one is hidden
    ANY = 16  # whatever is there, and is mounted beneath; with one of these, nothing else may be mounted
    BENEATH = 32  # something is mounted there, out of sight: a cover has been mounted above it since


class Expect(Record):
    """What an outer program was told to do, to be found by the launcher before the command runs.

    The path is not led by any link, and unless it has the flags TMPFS, OTHER or BENEATH, the object that is
    found has this device and inode.
    """

    path: str
    flags: ExpectFlag = ExpectFlag(0)
    device: int = 0
    inode: int = 0


class NameFlag(IntFlag):
    REPOSITORY = 1  # a directory may be made there


class ProtectedName(Record):
    name: str
    flags: NameFlag = NameFlag(0)
    link: str = ""  # the text of a symbolic link that is there, and stays
    label: str = ""  # as the policy names it


class Guarded(Record):
    """A directory with protected names that are not there yet. What appears goes to quarantine."""

    path: str
    device: int
    inode: int
    names: tuple[ProtectedName, ...] = ()


class NameGuard(Record):
    quarantine: str = ""  # a directory, which is made when it is needed; empty: what is taken is removed
    directories: tuple[Guarded, ...] = ()
    searched: tuple[Guarded, ...] = ()  # without names: no git directory but those that mounts hold


class Rlimit(Record):
    resource: int
    soft: int
    hard: int


class PathRule(Record):
    rights: int
    path: str
    device: int = 0  # with inode: what must be found there; both 0: whatever is there
    inode: int = 0


class Landlock(Record):
    handled_fs: int
    handled_net: int = 0
    scoped: int = 0
    paths: tuple[PathRule, ...] = ()
    ports: tuple[tuple[int, int], ...] = ()  # rights, port


class Spec(Record):
    argv: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...] = ()
    namespaces: int = 0
    uid_map: str = ""
    gid_map: str = ""
    cgroups: tuple[Cgroup, ...] = ()
    cgroup_kill: CgroupKill | None = None
    cpu_time: CpuTime | None = None
    groups: tuple[str, ...] = ()  # in which a group is made
    group_settings: tuple[tuple[str, str], ...] = ()  # path in one that is made, value
    watch: LimitWatch | None = None
    areas: Areas | None = None
    mounts: tuple[Mount, ...] = ()
    lock: bool = False
    identity: tuple[int, int] | None = None  # first id and count
    hostname: str = ""
    loopback: bool = False
    gateway: GatewaySockets | None = None
    rlimits: tuple[Rlimit, ...] = ()
    landlock: Landlock | None = None
    seccomp: bytes = b""
    listens: tuple[tuple[int, int], ...] = ()  # numbers of calls, and which arguments are strings
    wall_ms: int = 0
    grace_ms: int = 0
    terminal: bool = False
    inside: bool = False
    expects: tuple[Expect, ...] = ()
    image_environment: bool = False
    guard: NameGuard | None = None
    lingers: bool = False
    awaits: bool = False
    serves: ServeFlag | None = None  # there is no command: the sandbox is kept
    keeps: bool = False
    fault: str = ""
