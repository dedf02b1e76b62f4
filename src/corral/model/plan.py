"""Plan: what a policy means here and now. Real paths, a concrete environment, required features."""

from __future__ import annotations

from enum import StrEnum

from corral.model.container import Container
from corral.model.feature import Feature
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.policy import FsAccess, Limits, NetPolicy, Policy
    from corral.model.rules.pattern import Glob


class PathKind(StrEnum):
    DIRECTORY = "directory"
    FILE = "file"
    MISSING = "missing"


class StdioMode(StrEnum):
    CAPTURE = "capture"  # pipes; output is kept in the result
    INHERIT = "inherit"  # the caller's own descriptors
    TERMINAL = "terminal"  # a new pseudo-terminal, relayed


class TrialLayers(Record):
    """A layer over a writable path, which takes all that a command writes there."""

    root: str  # the path; it is shown, and stays as it is
    upper: str  # a directory of corral's own
    work: str  # another one, for the kernel's use
    lowers: tuple[str, ...] = ()  # further layers between both, from the top down; nothing is written there
    directory: str = ""  # of corral's own, from where a layer in memory is kept instead of the upper one
    size_bytes: int = 0  # of such a layer
    files: int = 0


class Command(Record):
    argv: tuple[str, ...]
    cwd: str
    stdin: bytes | None = b""  # None: the caller's own
    stdio: StdioMode = StdioMode.CAPTURE
    traces: bool = False  # its calls on files are traced, and those that fail are told
    keeps: bool = False  # there is none: the sandbox is made and kept, for commands that come later
    trial: TrialLayers | None = None
    kept_home: str = ""  # a private home that others before it had; made and removed by its session


class ResolvedPath(Record):
    """A path that was looked at. Made only by `planning.resolve`."""

    path: str  # real: what is enforced
    requested: str  # as written, made absolute: what messages name
    kind: PathKind
    device: int = 0
    inode: int = 0


class Grant(Record):
    target: ResolvedPath
    access: FsAccess  # READ or WRITE
    within: tuple[str, ...] = ()  # real paths of wider grants that it was narrowed from
    is_system: bool = False  # programs of the host and what they need; an image brings its own


class Link(Record):
    """A symbolic link of the host on the way to a granted path; reproduced where paths are rebuilt."""

    path: str
    text: str


class Shield(Record):
    """A protected path that exists inside a writable one: it stays readable and cannot be changed."""

    target: ResolvedPath


class ConfigCopy(Record):
    """A shielded git configuration that a command may be given a copy of, to change that instead.

    What is harmless in the copy is taken over by the runner, the rest is refused by name.
    """

    number: int  # among those of the plan
    target: ResolvedPath
    root: str  # the writable path that holds it: nothing above can be changed by a command


#: A configuration that is larger has no copy, and a copy that is larger is not read.
MOST_COPIED_BYTES = 262_144


class WatchedName(Record):
    """A name that no mount can hold still, because nothing is there yet or because it is a symbolic link.

    Whatever else appears there is removed by the runner.
    """

    root: str  # the writable path that holds it: nothing above can be changed by a command
    directory: str
    device: int
    inode: int
    name: str
    label: str  # as the policy names it
    link_text: str = ""  # a symbolic link that is there now, and is put back when it is replaced
    is_repository: bool = False  # a `.git` that may be made, as long as it holds nothing that git would run


class Search(Record):
    """A directory below which patterns are held, and what was there when the plan was made.

    What fulfils them later was made by the host, or by a command if the directory is writable.
    """

    path: str
    device: int
    inode: int
    globs: frozenset[Glob]  # from there on
    known: frozenset[str] = frozenset()  # paths that fulfilled one
    closed: frozenset[str] = frozenset()  # directories in it that are seen to by another search


class FileStamp(Record):
    """How a file was when it was read; all zero if it was not there. Links to it were followed."""

    path: str
    device: int = 0
    inode: int = 0
    size: int = 0
    changed_ns: int = 0  # the time that nobody can set; of a file alone


class PrivateFile(Record):
    """A file that corral writes into a private area."""

    path: str
    content: bytes
    mode: int = 0o600
    is_directory: bool = False  # an empty one


class MountView(Record):
    """What the kernel's table of mounts says about some places: docs/limits.md, what is mounted twice."""

    places: tuple[str, ...]  # each a device and a path on it, as the table would write them
    lines: tuple[str, ...]  # device, root and point of each mount that shows a part of one


class ResolvedPolicy(Record):
    """The part of a plan that stays the same while neither the policy nor the host changes."""

    grants: tuple[Grant, ...]  # shallow to deep
    links: tuple[Link, ...]
    denied: tuple[ResolvedPath, ...]  # existing, inside a grant
    private: tuple[str, ...]
    private_files: tuple[PrivateFile, ...]
    net: NetPolicy
    limits: Limits
    deny_syscalls: frozenset[str]
    spawn: bool  # further processes may be started
    debug: bool  # and traced
    published: tuple[tuple[int, int], ...]  # ports: outside, on loopback, and of a server inside
    workspace: str
    home: str
    uid: int
    gid: int
    scratch: str  # where a backend without private mounts may put a private directory
    requires: frozenset[Feature]  # what must be enforced for the policy to hold
    profiles: str = ""  # where a backend whose rules are in a file may put it: no command writes there
    private_in_grants: tuple[str, ...] = ()  # private areas that lie, or lead, into a grant
    defaults: tuple[tuple[str, float], ...] = ()  # fields of limits and what they are where that can be held
    held_defaults: frozenset[str] = frozenset()  # those fields of `limits` that are defaults
    hidden: frozenset[str] = frozenset()  # of what is denied: what no policy says, because homes hide it
    searches: tuple[Search, ...] = ()  # in grants, for what is denied by patterns
    denied_mounts: MountView | None = None  # of all that is denied, wherever it is
    denied_links: tuple[str, ...] = ()  # links that fulfil such a pattern themselves
    denied_by: tuple[tuple[str, str], ...] = ()  # paths that a pattern denies, and which
    uncovered: frozenset[str] = frozenset()  # what homes hide, but somebody has granted by its own name
    unmappable: tuple[
        tuple[str, str], ...
    ] = ()  # writable, of a file system whose ids cannot be mapped; its kind
    idle: tuple[str, ...] = ()  # denials of the policy that hide nothing, as things are
    misled: tuple[
        tuple[str, str], ...
    ] = ()  # patterns among them, and a link that they would have to go through

    # Compared and hashed by identity: backends keep what they compiled from a resolved policy.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class ProxyPlace(Record):
    """Where corral listens for a command that has no network of its own, and what it must say there."""

    port: int  # of 127.0.0.1
    token: str


#: Before there is one: what `corral explain` shows, and what a probe tries.
NO_PROXY = ProxyPlace(0, "")


class Plan(Record):
    run_id: str
    command: Command
    resolved: ResolvedPolicy
    shields: tuple[Shield, ...]
    pins: tuple[ResolvedPath, ...]  # directories above what is protected: they must not be renamed away
    watches: tuple[WatchedName, ...]
    env: tuple[tuple[str, str], ...]
    waived: frozenset[Feature]
    policy: Policy
    container: Container = Container()
    proxy: ProxyPlace = NO_PROXY  # of this run, where a backend asks for one
    worktrees: tuple[str, ...] = ()  # git directories in there are looked at when the command has ended
    hook_directories: tuple[str, ...] = ()  # in every worktree, as the caller's own git configuration says
    copies: tuple[ConfigCopy, ...] = ()  # of shields; a backend without copies holds the shields alone
    copies_directory: str = ""  # where the runner may keep them
    notes: tuple[str, ...] = ()  # what every result has to say: where a search was given up
    unheld: tuple[tuple[Feature, str], ...] = ()  # defaults that the backend cannot hold: on record
    observes: bool = False  # there is no network, and what was asked for is to be told
    reports: bool = False  # what its filter refuses is told when it happens
    hears: bool = False  # what it writes to standard error goes past corral, and is heard by the filter
    readings: tuple[FileStamp, ...] = ()  # git's own files that say what has to be protected
    searches: tuple[Search, ...] = ()  # in writable paths: whatever fulfils a pattern later is removed
    host_searches: tuple[Search, ...] = ()  # in what is only read: what is denied there is the host's making

    @property
    def requires(self) -> frozenset[Feature]:
        """What must be enforced, unless it is waived."""
        needed = self.resolved.requires
        return needed if self.command.trial is None else needed | {Feature.FS_TRIAL}
