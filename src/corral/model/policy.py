"""Policy: what is wanted, the same on every host. Paths are text; no file system is consulted."""

from __future__ import annotations

from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from corral.model.rules.capability import Capability
    from corral.model.rules.inheritance import Inheritance


class FsAccess(StrEnum):
    READ = "read"
    WRITE = "write"  # implies READ
    DENY = "deny"  # beats READ and WRITE at any depth


class FsRule(Record):
    path: str  # may begin with ~ or ${workspace}
    access: FsAccess
    optional: bool = False  # a path that this host does not have is not an error
    within: tuple[str, ...] = ()  # made by `&`: grants above it; what the path leads to must lie in each


class NetMode(StrEnum):
    NONE = "none"
    LIMITED = "limited"  # to what is allowed; an empty list allows nothing
    FULL = "full"


class NetPolicy(Record):
    mode: NetMode = NetMode.NONE
    allow: frozenset[str] = frozenset()  # endpoints, only with LIMITED: "https:api.example.com", "http:*"
    deny: frozenset[str] = frozenset()  # host patterns; they beat what is allowed
    fronting: bool = False  # TLS and HTTP may name a host other than the one that was looked up


#: What `network:limited` stands for: every public name, by these.
WEB = frozenset({"http:*", "https:*"})


class Limits(Record):
    """None means that nothing is promised, not that a default applies."""

    wall_seconds: float | None = None
    memory_bytes: int | None = None
    cpus: float | None = None
    cpu_seconds: float | None = None
    pids: int | None = None
    output_bytes: int | None = None
    file_size_bytes: int | None = None
    open_files: int | None = None
    disk_bytes: int | None = None  # of all private areas together
    disk_files: int | None = None  # files and directories in them
    traffic_bytes: int | None = None  # over the network, both ways
    traffic_rate: int | None = None  # bytes in a second


class Defaults(Record):
    """Limits that are enforced where the host can; where it cannot, the record of each run says so."""

    memory_bytes: int | None = None
    memory_share: float | None = None  # of the machine's memory
    cpus: float | None = None
    pids: int | None = None


class EnvPolicy(Record):
    passed: frozenset[str] = frozenset()  # names; a trailing * stands for any ending
    fixed: tuple[tuple[str, str], ...] = ()

    def choose(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables of the host that reach the command."""
        beginnings = tuple(name[:-1] for name in self.passed if name[-1:] == "*")
        passed = self.passed
        # Names first: `os.environ` decodes each value that it is asked for.
        wanted = [name for name in environment if name in passed or name.startswith(beginnings)]
        return {name: environment[name] for name in wanted}

    def passes(self, name: str) -> bool:
        """Whether a variable of the host reaches the command, if there is one of this name."""
        return bool(self.choose({name: ""}))


class Response(StrEnum):
    """What follows when corral observes a refusal, the mildest first. None of them permits anything."""

    DENY = "deny"  # it is refused and told, and the command goes on
    WARN = "warn"  # the same, and guesses and a summary are told even if the command succeeds
    THROTTLE = "throttle"  # a command that keeps trying waits longer for each answer
    TERMINATE = "terminate"  # the command is ended
    QUARANTINE = "quarantine"  # everything in the sandbox is frozen and kept to be looked at

    @property
    def severity(self) -> int:
        """Its place in that order."""
        return tuple(Response).index(self)


class Policy(Record):
    name: str = "custom"
    fs: tuple[FsRule, ...] = ()
    private: frozenset[str] = frozenset()  # empty, writable, gone afterwards: "/tmp", "~"
    read_only: frozenset[str] = frozenset()  # made by `&`: at most read, by whatever name; grants nothing
    protect: frozenset[str] = frozenset()  # names inside every writable path: ".git/hooks"
    tools: bool = False  # the programs on the caller's PATH work wherever they are installed
    net: NetPolicy = NetPolicy()
    limits: Limits = Limits()
    defaults: Defaults = Defaults()
    env: EnvPolicy = EnvPolicy()
    deny_syscalls: frozenset[str] = frozenset()
    spawn: bool = False  # the command may start further processes
    debug: bool = False  # and trace those that it may start
    publish: frozenset[str] = (
        frozenset()
    )  # ports of servers inside: "3000", or "8080:3000" for another outside
    modules: frozenset[str] = frozenset()  # WebAssembly modules that may be called by name
    response: Response = Response.DENY
    requires: frozenset[str] = frozenset()  # features by name, besides those that follow from the rest

    def __and__(self, other: object) -> Policy:
        """What both permit."""
        from corral.model.rules.algebra import meet  # few runs combine policies

        return meet(self, other) if isinstance(other, Policy) else NotImplemented

    def __le__(self, other: object) -> bool:
        """Whether nothing is permitted that the other one does not permit, as far as their texts tell."""
        from corral.model.rules.algebra import is_within

        return is_within(self, other) if isinstance(other, Policy) else NotImplemented

    def grant(self, request: Policy | Iterable[str | Capability]) -> Inheritance:
        """A policy for someone else: what is requested, as far as this one permits it, and what was cut.

        Raises CapabilitySyntaxError.
        """
        from corral.model.rules.inheritance import inherit

        return inherit(self, request)

    def digest(self) -> str:
        """A hash of all that the policy says; its name does not count."""
        import hashlib  # 4 ms, and most runs never ask

        parts = (
            sorted((rule.path, rule.access.value, rule.optional, rule.within) for rule in self.fs),
            sorted(self.private),
            sorted(self.read_only),
            sorted(self.protect),
            self.tools,
            (self.net.mode.value, sorted(self.net.allow), sorted(self.net.deny), self.net.fronting),
            (repr(self.limits), repr(self.defaults)),
            (sorted(self.env.passed), sorted(self.env.fixed)),
            sorted(self.deny_syscalls),
            (self.spawn, self.debug),
            (sorted(self.modules), sorted(self.publish)),
            self.response.value,
            sorted(self.requires),
        )
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()
