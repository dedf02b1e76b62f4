"""Capabilities: one grant or limit each, as text: `filesystem:read:/docs`, `memory:limit:100MB`."""

from __future__ import annotations

from corral.model.arguments import wrong_argument
from corral.model.errors import CapabilitySyntaxError
from corral.model.network.endpoint import parse_host
from corral.model.policy import (
    WEB,
    Defaults,
    EnvPolicy,
    FsAccess,
    FsRule,
    Limits,
    NetMode,
    NetPolicy,
    Policy,
    Response,
)
from corral.model.record import Record
from corral.model.rules.path_text import granted_path, name_within, path_or_pattern
from corral.model.rules.pattern import is_pattern
from corral.model.rules.quantities import (
    format_duration,
    format_share,
    format_size,
    parse_count,
    parse_duration,
    parse_share,
    parse_size,
)
from corral.model.rules.syscall_groups import expand_group
from corral.model.rules.targets import (
    assignment,
    endpoint,
    feature,
    module,
    path_word,
    ports,
    system_call,
    variable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


LEAST_MEMORY_BYTES = 1024 * 1024
LEAST_OPEN_FILES = 16


class Capability(Record):
    """`str()` gives the canonical text, and parsing that gives the same capability."""

    kind: str
    verb: str
    target: str = ""

    def __str__(self) -> str:
        return ":".join(part for part in (self.kind, self.verb, self.target) if part)


def parse_capability(text: str) -> Capability:
    """Read one capability. Raises CapabilitySyntaxError, which points at the column."""
    if not isinstance(text, str):
        raise wrong_argument("capability", text, "a text", "corral.parse_capability('time:limit:10s')")
    kind, _, rest = text.partition(":")
    if kind not in _VERBS:
        raise _error(text, 1, f"{kind!r} is not a kind of capability", kind, tuple(_VERBS))
    verb, colon, target = rest.partition(":")
    column = len(kind) + 2
    if verb not in _VERBS[kind]:
        raise _error(text, column, f"{kind!r} does not know {verb!r}", verb, tuple(_VERBS[kind]))
    canonical = _VERBS[kind][verb]
    column += len(verb) + 1
    if canonical is None:
        if colon:
            raise _error(text, column, f"{kind}:{verb} takes no target", "", ())
        return Capability(kind, verb)
    if not target:
        raise _error(text, column, f"{kind}:{verb} needs a target", "", ())
    try:
        _check_text(target)
        return Capability(kind, verb, canonical(target))
    except ValueError as problem:
        raise _error(text, column, str(problem), "", ()) from None


class PolicyDraft:
    """A policy under construction: starts from one policy, takes capabilities, ends as another."""

    def __init__(self, base: Policy) -> None:
        self._base = base
        self._fs = {(rule.path, rule.access): rule for rule in base.fs}
        self._private = set(base.private)
        self._protect = set(base.protect)
        self._tools = base.tools
        self._net = base.net
        self._limits = {field: getattr(base.limits, field) for field, _ in _LIMITS.values()}
        self._defaults = base.defaults
        self._passed = set(base.env.passed)
        self._fixed = dict(base.env.fixed)
        self._deny_syscalls = set(base.deny_syscalls)
        self._spawn, self._debug = base.spawn, base.debug
        self._publish = set(base.publish)
        self._modules = set(base.modules)
        self._read_only = set(base.read_only)
        self._response = base.response
        self._requires = set(base.requires)

    def add(self, capability: Capability, *, optional: bool = False) -> None:
        """Take one capability. An optional path need not exist on the host."""
        kind, verb, target = capability.kind, capability.verb, capability.target
        if kind == "filesystem":
            self._add_path(verb, target, optional=optional)
        elif kind == "network":
            self._add_network(verb, target)
        elif kind == "env" and verb == "pass":
            self._passed.add(target)
        elif kind == "env":
            name, _, value = target.partition("=")
            self._fixed[name] = value
        elif kind == "syscall":
            self._deny_syscalls.update(expand_group(target))
        elif kind == "process":
            self._spawn, self._debug = verb != "none", verb == "debug" or (self._debug and verb == "spawn")
        elif kind == "module":
            self._modules.add(target)
        elif kind == "refusal":
            self._response = Response(verb)
        elif kind == "feature":
            self._requires.add(target)
        elif verb == "default":
            self._defaults = self._defaults.replace(**_default(kind, target))
        else:
            field, parse = _LIMITS[kind, verb]
            self._limits[field] = parse(target)
            # A limit replaces the default.
            self._defaults = self._defaults.replace(**_NO_DEFAULT.get(field, {}))

    def _add_path(self, verb: str, target: str, *, optional: bool) -> None:
        if verb == "private":
            self._private.add(target)
        elif verb == "protect":
            self._protect.add(target)
        elif verb == "tools":
            self._tools = True
        else:
            self._fs[target, FsAccess(verb)] = FsRule(target, FsAccess(verb), optional)

    def _add_network(self, verb: str, target: str) -> None:
        """A mode replaces what was there before; an endpoint adds to it. A denied host stays denied."""
        net = self._net
        if verb == "publish":
            self._publish.add(target)
        elif verb == "deny":
            self._net = net.replace(deny=net.deny | {target})
        elif verb == "fronting":
            self._net = net.replace(fronting=True)
        elif not target:
            self._net = NetPolicy(NetMode(verb), WEB if verb == "limited" else frozenset(), net.deny)
        elif net.mode is not NetMode.FULL:
            self._net = net.replace(mode=NetMode.LIMITED, allow=net.allow | {f"{verb}:{target}"})

    def tighten(self, capability: Capability) -> bool:
        """Take a capability that narrows; a limit only if it is tighter than what is there. Says whether."""
        if (capability.kind, capability.verb) in _LIMITS:
            field, parse = _LIMITS[capability.kind, capability.verb]
            known = self._limits[field]
            if known is not None and known <= parse(capability.target):
                return False
        if capability.verb == "default":
            fields = _default(capability.kind, capability.target).items()
            if any((known := getattr(self._defaults, name)) and known <= value for name, value in fields):
                return False
        if capability.kind == "refusal" and Response(capability.verb).severity <= self._response.severity:
            return False
        self.add(capability)
        return True

    def set_access(self, path: str, access: FsAccess) -> None:
        """Grant a path in this way and in no other."""
        for other in (FsAccess.READ, FsAccess.WRITE):
            self._fs.pop((path, other), None)
        self._fs[path, access] = FsRule(path, access)

    def hold_read_only(self, path: str) -> None:
        """Whatever else is granted: what lies inside a writable path there is read at most."""
        self._read_only.add(path)

    def names_hosts(self) -> bool:
        """Whether the network is limited to hosts by name."""
        return self._net.mode is NetMode.LIMITED and not self._net.allow <= WEB

    def build(self) -> Policy:
        """Return the finished policy."""
        return self._base.replace(
            fs=tuple(self._fs.values()),
            private=frozenset(self._private),
            protect=frozenset(self._protect),
            tools=self._tools,
            net=self._net,
            limits=Limits(**self._limits),
            defaults=self._defaults,
            env=EnvPolicy(frozenset(self._passed), tuple(self._fixed.items())),
            deny_syscalls=frozenset(self._deny_syscalls),
            spawn=self._spawn,
            debug=self._debug,
            publish=frozenset(self._publish),
            modules=frozenset(self._modules),
            read_only=frozenset(self._read_only),
            response=self._response,
            requires=frozenset(self._requires),
        )


def is_narrowing(capability: Capability) -> bool:
    """Whether it only ever removes: a limit, a denial, a protected name, a private area."""
    kind, verb = capability.kind, capability.verb
    if kind in {"refusal", "feature"}:
        return True
    return (kind, verb) in _LIMITS or verb in {"deny", "protect", "private", "none", "default"}


def capabilities_of(policy: Policy) -> tuple[Capability, ...]:
    """A policy as capabilities: a draft of an empty policy that takes them permits the same."""
    found = [Capability("filesystem", rule.access.value, rule.path) for rule in policy.fs]
    found += [Capability("filesystem", "read", text) for text in sorted(policy.read_only) if is_pattern(text)]
    found += [Capability("filesystem", "private", path) for path in sorted(policy.private)]
    found += [Capability("filesystem", "protect", name) for name in sorted(policy.protect)]
    found += [Capability("filesystem", "tools", "path")] if policy.tools else []
    found += _network_capabilities(policy.net)
    found += [Capability("network", "publish", ports) for ports in sorted(policy.publish)]
    for (kind, verb), (field, _) in _LIMITS.items():
        value = getattr(policy.limits, field)
        if value is not None:
            found.append(Capability(kind, verb, format_limit((kind, verb), value)))
    found += _default_capabilities(policy.defaults)
    found += [Capability("env", "pass", name) for name in sorted(policy.env.passed)]
    found += [Capability("env", "set", f"{name}={value}") for name, value in policy.env.fixed]
    found.append(Capability("process", "spawn" if policy.spawn else "none"))
    found += [Capability("process", "debug")] if policy.spawn and policy.debug else []
    found += [Capability("syscall", "deny", name) for name in sorted(policy.deny_syscalls)]
    found += [Capability("module", "call", name) for name in sorted(policy.modules)]
    if policy.response is not Response.DENY:
        found.append(Capability("refusal", policy.response.value))
    found += [Capability("feature", "require", name) for name in sorted(policy.requires)]
    return tuple(found)


def _default_capabilities(defaults: Defaults) -> list[Capability]:
    texts = (
        ("memory", defaults.memory_bytes and format_size(defaults.memory_bytes)),
        ("memory", defaults.memory_share and format_share(defaults.memory_share)),
        ("cpu", defaults.cpus and format_share(defaults.cpus)),
        ("pids", defaults.pids and str(defaults.pids)),
    )
    return [Capability(kind, "default", text) for kind, text in texts if text]


def _default(kind: str, target: str) -> dict[str, Any]:
    """The fields of `Defaults` that a capability sets."""
    if kind == "memory":
        is_share = target.endswith("%")
        return {"memory_share": parse_share(target)} if is_share else {"memory_bytes": parse_size(target)}
    return {"cpus": parse_share(target)} if kind == "cpu" else {"pids": parse_count(target)}


def _network_capabilities(net: NetPolicy) -> list[Capability]:
    named = net.allow
    if net.mode is NetMode.LIMITED and not named >= WEB:
        found = [Capability("network", "none")]
    else:
        found = [Capability("network", net.mode.value)]
        named -= WEB
    found += [Capability("network", *endpoint.split(":", 1)) for endpoint in sorted(named)]
    found += [Capability("network", "fronting")] if net.fronting else []
    return found + [Capability("network", "deny", host) for host in sorted(net.deny)]


_LIMITS: dict[tuple[str, str], tuple[str, Callable[[str], float]]] = {
    ("memory", "limit"): ("memory_bytes", parse_size),
    ("cpu", "limit"): ("cpus", parse_share),
    ("cpu", "time"): ("cpu_seconds", parse_duration),
    ("pids", "limit"): ("pids", parse_count),
    ("time", "limit"): ("wall_seconds", parse_duration),
    ("output", "limit"): ("output_bytes", parse_size),
    ("file", "limit"): ("file_size_bytes", parse_size),
    ("files", "limit"): ("open_files", parse_count),
    ("disk", "limit"): ("disk_bytes", parse_size),
    ("disk", "files"): ("disk_files", parse_count),
    ("traffic", "limit"): ("traffic_bytes", parse_size),
    ("traffic", "rate"): ("traffic_rate", parse_size),
}
#: Field of a limit -> the defaults that are void once it is set.
_NO_DEFAULT: dict[str, dict[str, None]] = {
    "memory_bytes": {"memory_bytes": None, "memory_share": None},
    "cpus": {"cpus": None},
    "pids": {"pids": None},
}
#: (kind, verb) of each limit -> its field in `Limits`.
LIMIT_FIELDS = {clause: field for clause, (field, _) in _LIMITS.items()}
_FORMATS: dict[str, Callable[[Any], str]] = {
    "memory_bytes": format_size,
    "cpus": format_share,
    "cpu_seconds": format_duration,
    "pids": str,
    "wall_seconds": format_duration,
    "output_bytes": format_size,
    "file_size_bytes": format_size,
    "open_files": str,
    "disk_bytes": format_size,
    "disk_files": str,
    "traffic_bytes": format_size,
    "traffic_rate": format_size,
}


def format_limit(clause: tuple[str, str], value: Any) -> str:
    """A limit as its clause spells it: ("memory", "limit"), 1 << 30 -> `1GiB`."""
    return _FORMATS[LIMIT_FIELDS[clause]](value)


def _check_text(target: str) -> None:
    try:
        target.encode("utf-8", "surrogateescape")  # as the system will be told of it
    except UnicodeEncodeError:
        raise ValueError(f"{target!r} contains half of a surrogate pair") from None


def _size(target: str) -> str:
    return format_size(parse_size(target))


def _memory(target: str) -> str:
    if parse_size(target) < LEAST_MEMORY_BYTES:
        raise ValueError(f"no program starts in less than {format_size(LEAST_MEMORY_BYTES)}")
    return _size(target)


def _memory_default(target: str) -> str:
    if not target.endswith("%"):
        return _memory(target)
    if not parse_share(target) <= 1:
        raise ValueError("a share of the machine's memory is 100% at most")
    return _share(target)


def _files(target: str) -> str:
    if parse_count(target) < LEAST_OPEN_FILES:
        raise ValueError(f"no program starts with fewer than {LEAST_OPEN_FILES} open files")
    return _count(target)


def _share(target: str) -> str:
    return format_share(parse_share(target))


def _duration(target: str) -> str:
    return format_duration(parse_duration(target))


def _count(target: str) -> str:
    return str(parse_count(target))


#: kind -> verb -> what brings the target into its canonical form; None: the verb has no target.
_VERBS: dict[str, dict[str, Callable[[str], str] | None]] = {
    "filesystem": {
        "read": path_or_pattern,
        "write": granted_path,
        "deny": path_or_pattern,
        "private": granted_path,
        "protect": name_within,
        "tools": path_word,
    },
    "network": {
        "none": None,
        "limited": None,
        "full": None,
        "http": endpoint("http"),
        "https": endpoint("https"),
        "tcp": endpoint("tcp"),
        "deny": parse_host,
        "fronting": None,
        "publish": ports,
    },
    "memory": {"limit": _memory, "default": _memory_default},
    "cpu": {"limit": _share, "time": _duration, "default": _share},
    "pids": {"limit": _count, "default": _count},
    "time": {"limit": _duration},
    "output": {"limit": _size},
    "file": {"limit": _size},
    "files": {"limit": _files},
    "disk": {"limit": _size, "files": _count},
    "traffic": {"limit": _size, "rate": _size},
    "env": {"pass": variable, "set": assignment},
    "process": {"spawn": None, "none": None, "debug": None},
    "syscall": {"deny": system_call},
    "module": {"call": module},
    "refusal": dict.fromkeys(response.value for response in Response),
    "feature": {"require": feature},
}


def _error(text: str, column: int, why: str, word: str, known: tuple[str, ...]) -> CapabilitySyntaxError:
    if not known:
        return CapabilitySyntaxError(text, column, why=why, fix="see `corral run --help` for examples")
    import difflib  # only an error pays for it

    near = difflib.get_close_matches(word, known, n=1)
    fix = f"did you mean {near[0]!r}?" if near else f"use one of: {', '.join(known)}"
    return CapabilitySyntaxError(text, column, why=why, fix=fix)
