"""The text of a Seatbelt profile: what a plan permits, in the words of SBPL.

A profile says `deny default` and then only allows. A path that is stricter than what is around it is left
out of the rule itself (`require-not`), instead of being denied by a later one. So nothing depends on which
of two rules wins: whether the last one that fits counts, or the one for the more special operation, the
answer is the same. The exceptions are operations that `deny default` does not cover.

ORDER: for these (`_UNCOVERED`) the denial comes first and what is allowed of them later.
"""

from __future__ import annotations

import posixpath

from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.plan import PathKind, StdioMode
from corral.model.policy import FsAccess, NetMode
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.model.plan import Grant, Plan

#: Allowed by `deny default`, as Chromium found (crbug.com/799149).
_UNCOVERED = "iokit-get-properties process-info* nvram* file-map-executable"

_READ = "file-read* file-map-executable process-exec*"
#: Each by its name: `file-write*` would also mount, and set the set-user-id bit. No hard links (file-link):
#: a second name would be outside of every rule about the first. No clones for the same reason.
_CHANGE = (
    "file-write-data file-write-mode file-write-owner file-write-times file-write-flags file-write-xattr"
)
_WRITE = f"{_CHANGE} file-write-create file-write-unlink"

#: What every program is made of; the same on every Mac, and without anybody's data. /bin/sh starts commands.
SYSTEM_TREES = (
    "/usr/lib",
    "/System/Library",
    "/System/Cryptexes",
    "/System/Volumes/Preboot/Cryptexes",
    "/Library/Apple",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
)
SYSTEM_FILES = ("/", "/bin/sh", "/bin/bash", "/bin/dash", "/private/etc/localtime")
#: Links of the system that lead to what programs ask for.
SYSTEM_LINKS = ("/tmp", "/var", "/etc", "/private/var/select/sh")
#: All of the disk once more, by another name than the one that rules are about.
DATA_VOLUME = "/System/Volumes/Data"
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
_DESCRIPTORS = ("/dev/stdin", "/dev/stdout", "/dev/stderr")

#: Names of users. Everything else that listens acts outside for whoever asks.
_SERVICES = ("com.apple.system.opendirectoryd.libinfo",)
#: With the network: how names are resolved, and whose certificates are good.
_NET_SERVICES = (
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.SystemConfiguration.configd",
    "com.apple.trustd",
    "com.apple.trustd.agent",
)
_RESOLVER = "/private/var/run/mDNSResponder"
#: About the machine. Nothing of kern.proc, which lists processes.
_SYSCTLS = (
    *("hw.activecpu", "hw.byteorder", "hw.cacheconfig", "hw.cachelinesize", "hw.cachelinesize_compat"),
    *("hw.cpufamily", "hw.cpufrequency", "hw.cpufrequency_compat", "hw.cpusubtype", "hw.cputype"),
    *("hw.l1dcachesize", "hw.l1dcachesize_compat", "hw.l1icachesize", "hw.l1icachesize_compat"),
    *("hw.l2cachesize", "hw.l2cachesize_compat", "hw.l3cachesize", "hw.l3cachesize_compat"),
    *("hw.logicalcpu", "hw.logicalcpu_max", "hw.machine", "hw.memsize", "hw.model", "hw.ncpu"),
    *("hw.nperflevels", "hw.packages", "hw.pagesize", "hw.pagesize_compat", "hw.physicalcpu"),
    *("hw.physicalcpu_max", "hw.tbfrequency", "hw.tbfrequency_compat", "hw.vectorunit"),
    *("kern.argmax", "kern.hostname", "kern.maxfilesperproc", "kern.maxproc", "kern.ngroups"),
    *("kern.osproductversion", "kern.osrelease", "kern.ostype", "kern.osvariant_status", "kern.osversion"),
    *("kern.secure_kernel", "kern.usrstack64", "kern.version", "machdep.cpu.brand_string"),
    *("sysctl.proc_cputype", "vm.loadavg", "vm.pagesize"),
)
_SYSCTL_PREFIXES = ("hw.optional.", "hw.perflevel")

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SPECIAL = frozenset(".[]*+?{}()^$|\\")
#: Letters that are all or part of what another character is folded to: the Kelvin sign, ß, ligatures.
_FOLDED_TO = frozenset("fiklst")
_FOREIGN = "[^ -~]"  # a byte of a character that is not ASCII


class Seat(Record):
    """What a profile says besides the plan."""

    scratch: str  # the run's own directory, or that of its session
    started: str  # a file in the run's own, which the sandbox makes when it stands
    private: bool  # commands may write to the directory
    proxy_port: int = 0  # of corral's own gateway on this machine; 0: there is none


def build_profile(plan: Plan, seat: Seat) -> str:
    """The whole profile. Raises UnenforceableError for a path that it cannot name."""
    lines = ["(version 1)", "(deny default)", f"(deny {_UNCOVERED})", *_processes(plan), *_machine(plan)]
    lines += [*_system(), *_readable(plan, seat), *_writable(plan, seat), *_network(plan, seat)]
    if plan.command.stdio is not StdioMode.CAPTURE:
        lines += _terminal()
    return "\n".join(lines) + "\n"


def quote(path: str) -> str:
    """A path as a string of SBPL. Raises UnenforceableError if there is none for it."""
    if any((ord(char) < 0x20 or ord(char) == 0x7F) and char not in _ESCAPES for char in path):
        raise _inexpressible(path, "it holds a control character")
    if any(0xD800 <= ord(char) <= 0xDFFF for char in path):
        raise _inexpressible(path, "it is not UTF-8, which every name on this file system is")
    return f'"{"".join(_ESCAPES.get(char, char) for char in path)}"'


def fold(name: str) -> str:
    """A regular expression for all names that a case-insensitive file system takes for this one.

    It fits more than these where a name has characters that are not ASCII: their composed and decomposed
    forms are told apart by nobody here.
    """
    pieces: list[str] = []
    for char in name:
        if ord(char) > 0x7E:
            # `é` may be one character, or `e` and an accent: the letter before it may belong to it.
            merged = f"[^/]?[^/]?{_FOREIGN}+"
            if pieces and (pieces[-1] == merged or (pieces[-1][0] in "[(" and pieces[-1][:2] != "[^")):
                pieces.pop()
            pieces.append(merged)
        elif char.lower() in _FOLDED_TO:
            pieces.append(f"([{char.lower()}{char.upper()}]|{_FOREIGN}+)")
        elif char.isalpha():
            pieces.append(f"[{char.lower()}{char.upper()}]")
        else:
            pieces.append(f"\\{char}" if char in _SPECIAL else char)
    return "".join(pieces)


def _inexpressible(path: str, why: str) -> UnenforceableError:
    return UnenforceableError(
        "unenforceable",
        f"{path!r} cannot be named in a Seatbelt profile",
        why=why,
        fix="rename it, or use another backend",
        lacking=frozenset({Feature.FS_READ, Feature.FS_WRITE}),
    )


def _rule(operations: str, filters: Iterable[str]) -> Iterator[str]:
    """One rule that allows what any of the filters fits. Without a filter there is none: never everything."""
    listed = sorted(set(filters))
    if listed:
        yield f"(allow {operations}\n  " + "\n  ".join(listed) + ")"


def _literal(path: str) -> str:
    return f"(literal {quote(path)})"


def _subpath(path: str) -> str:
    return f"(subpath {quote(path)})"


def _except(path_filter: str, exceptions: Iterable[str]) -> str:
    parts = [f"(require-not {exception})" for exception in sorted(set(exceptions))]
    return "\n    ".join([f"(require-all {path_filter}", *parts]) + ")" if parts else path_filter


def _processes(plan: Plan) -> Iterator[str]:
    """Set-user-id programs (`forbidden-exec-sugid`) are never allowed, so they do not start."""
    yield "(allow process-info* signal (target same-sandbox))"
    if plan.resolved.spawn:
        yield "(allow process-fork)"


def _machine(plan: Plan) -> Iterator[str]:
    names = [f'(sysctl-name "{name}")' for name in _SYSCTLS]
    yield from _rule(
        "sysctl-read", [*names, *(f'(sysctl-name-prefix "{name}")' for name in _SYSCTL_PREFIXES)]
    )
    services = _SERVICES + (_NET_SERVICES if plan.resolved.net.mode is NetMode.FULL else ())
    yield from _rule("mach-lookup", (f'(global-name "{name}")' for name in services))


def _system() -> Iterator[str]:
    yield from _rule(_READ, [*map(_subpath, SYSTEM_TREES), *map(_literal, SYSTEM_FILES)])
    yield from _rule("file-read*", map(_literal, (*SYSTEM_LINKS, *_DESCRIPTORS)))
    yield from _rule("file-read* file-write-data", [*map(_literal, _DEVICES), _subpath("/dev/fd")])


def _readable(plan: Plan, seat: Seat) -> Iterator[str]:
    grants = plan.resolved.grants
    links = [link for link in plan.resolved.links if link.path not in SYSTEM_LINKS]
    denied = [target.path for target in plan.resolved.denied]
    filters = []
    for grant in grants:
        root = grant.target.path
        inside = _outermost(path for path in (*_areas(plan, root), *denied) if _is_inside(path, root))
        filters.append(_except(_whole(grant), (_named(path, root, "(/|$)") for path in inside)))
    if seat.private:
        filters.append(_subpath(seat.scratch))
    yield from _rule(_READ, filters)
    # A link on the way is followed by its text alone.
    yield from _rule("file-read*", (_literal(link.path) for link in links))
    ends = (
        *(grant.target.path for grant in grants),
        *(link.path for link in links),
        seat.scratch,
        seat.started,
    )
    above = {path for end in (*ends, *SYSTEM_TREES, *SYSTEM_LINKS, "/dev/fd") for path in _above(end)}
    yield from _rule("file-read-metadata", map(_literal, above - {"/"}))


def _whole(grant: Grant) -> str:
    return (_literal if grant.target.kind is PathKind.FILE else _subpath)(grant.target.path)


def _areas(plan: Plan, root: str) -> list[str]:
    """What lies in a granted tree and is not granted with it. A grant in there has its own rule."""
    private = [area for path in plan.resolved.private for area in (path, f"/private{path}")]
    return [path for path in (*private, DATA_VOLUME) if _is_inside(path, root)]


def _writable(plan: Plan, seat: Seat) -> Iterator[str]:
    held = _protected(plan)
    stricter = [target.path for target in plan.resolved.denied]
    stricter += [grant.target.path for grant in plan.resolved.grants if grant.access is FsAccess.READ]
    pins = [pin.path for pin in plan.pins if _is_open(plan, pin.path, held)]
    roots = [
        grant.target
        for grant in plan.resolved.grants
        if grant.access is FsAccess.WRITE and _is_open(plan, grant.target.path, held)
    ]
    filters = []
    for target in roots:
        if target.kind is not PathKind.DIRECTORY:
            continue  # a single file can be changed, but has to stay
        root, areas = target.path, _areas(plan, target.path)
        shut = _outermost(path for path in (*held, *stricter, *areas) if _is_inside(path, root))
        exceptions = [_named(path, root, "(/|$)") for path in shut]
        still = [path for path in pins if _is_inside(path, root) and not _is_in_any(path, areas)]
        exceptions += [_literal(root), *(_named(path, root, "$") for path in still)]
        filters.append(_except(_subpath(root), exceptions))
    if seat.private:
        filters.append(_except(_subpath(seat.scratch), map(_literal, (seat.scratch, seat.started))))
    yield from _rule(_WRITE, filters)
    # What has to stay where it is may still be changed: roots, and directories above what is stricter.
    yield from _rule(_CHANGE, map(_literal, (*pins, *(target.path for target in roots))))
    # It can be made once, and not be removed: so it is there if and only if the sandbox stood.
    yield from _rule("file-write-create file-write-data", [_literal(seat.started)])


def _protected(plan: Plan) -> list[str]:
    names = [shield.target.path for shield in plan.shields]
    return names + [posixpath.join(watch.directory, watch.name) for watch in plan.watches]


def _is_open(plan: Plan, path: str, held: Iterable[str]) -> bool:
    """Whether a path as such may be written: neither held, nor denied, nor in something stricter."""
    if _is_in_any(path, (*held, *(target.path for target in plan.resolved.denied))):
        return False
    areas: dict[str, FsAccess | None] = dict.fromkeys(plan.resolved.private)
    areas |= {grant.target.path: grant.access for grant in plan.resolved.grants}
    above = [area for area in areas if _is_in_any(path, (area,))]
    return bool(above) and areas[max(above, key=len)] is FsAccess.WRITE


def _named(path: str, root: str, end: str) -> str:
    """What lies in a root, by all names that a file system may have for it.

    TRUST: a path is compared as the kernel knows it, but a new name as the command spells it; and a policy
    may spell a denied path otherwise than the disk does.
    """
    above = "".join(f"\\{char}" if char in _SPECIAL else char for char in root)
    return f"(regex {quote(f'^{above}/{fold(path[len(root) + 1 :])}{end}')})"


def _network(plan: Plan, seat: Seat) -> Iterator[str]:
    """Sockets with a path are none of this: they are doors to whoever listens on this machine."""
    mode = plan.resolved.net.mode
    if mode is NetMode.FULL:
        anywhere = '(remote ip "*:*")'
        yield from _rule("network-outbound", (anywhere, _literal(_RESOLVER)))
        yield from _rule("network-inbound network-bind", ('(local ip "*:*")',))
    elif mode is NetMode.LIMITED and seat.proxy_port:
        yield from _rule("network-outbound", (f'(remote ip "localhost:{seat.proxy_port}")',))


def _terminal() -> Iterator[str]:
    """A terminal that was inherited can be asked; none can be opened but those made inside."""
    terminals = '(regex "^/dev/ttys[0-9]+$")'
    yield "(allow pseudo-tty)"
    yield from _rule("file-ioctl", map(_literal, ("/dev/tty", "/dev/ptmx")))
    yield from _rule("file-read* file-write-data", [_literal("/dev/ptmx")])
    yield from _rule("file-ioctl file-read-metadata", [terminals])
    made_inside = f'(require-all {terminals} (extension "com.apple.sandbox.pty"))'
    yield from _rule("file-read* file-write-data", [made_inside])


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = posixpath.dirname(path)
        yield path


def _is_inside(path: str, root: str) -> bool:
    return path.startswith(f"{root}/")


def _is_in_any(path: str, tops: Iterable[str]) -> bool:
    return any(path == top or _is_inside(path, top) for top in tops)


def _outermost(paths: Iterable[str]) -> list[str]:
    """Those that lie in no other one of them."""
    listed = sorted(set(paths))
    return [path for path in listed if not any(_is_inside(path, other) for other in listed)]
