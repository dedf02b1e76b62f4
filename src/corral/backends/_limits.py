"""Who holds the limits of a plan: the best that this host was proved to have, one for each limit.

cgroup1, cgroup2, systemd   the kernel counts the whole tree; exact, and it tells which limit was met
rlimit                      RLIMIT_NPROC counts for each user namespace: exact, for anyone but root
supervisor                  the launcher looks for itself, every few milliseconds, and ends a tree that has
                            too much; a share of the processors is kept by stopping all processes for the
                            rest of the time. Whoever wants to can hide from it, or be too quick: so it
                            counts as an approximation, and is in use where the limit has been waived.
"""

from __future__ import annotations

from corral.linux.spec import LimitWatch, Rlimit
from corral.model.enforcer import CGROUP1, CGROUP2, RLIMIT, SUPERVISOR, SYSTEMD, TITLES
from corral.model.feature import Feature
from corral.model.launch import GroupRequest
from corral.model.probe import LIMITS_FIX
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.plan import ResolvedPolicy
    from corral.model.policy import Limits
    from corral.model.probe import Probe

RLIMIT_NPROC, RLIMIT_NOFILE = 6, 7
_GROUPS = frozenset({CGROUP1, CGROUP2, SYSTEMD})
_FIELDS = {
    Feature.LIMIT_MEMORY: "memory_bytes",
    Feature.LIMIT_CPU: "cpus",
    Feature.LIMIT_CPU_TIME: "cpu_seconds",
    Feature.LIMIT_PIDS: "pids",
}
#: The limits of a whole tree: who holds them is a matter of the host.
BY_GROUPS = frozenset(_FIELDS)
#: On what a backend with a user namespace depends for them, in the words of the documents.
GROUPS_NEEDED = "needs control groups that the caller may create, or systemd"
CONDITIONS = (
    (BY_GROUPS - {Feature.LIMIT_PIDS}, GROUPS_NEEDED),
    (frozenset({Feature.LIMIT_PIDS}), f"as root, {GROUPS_NEEDED}"),
)
_MECHANISMS = {
    (RLIMIT, Feature.LIMIT_PIDS): "RLIMIT_NPROC in the user namespace",
    (SUPERVISOR, Feature.LIMIT_MEMORY): "the launcher looks every few milliseconds",
    (SUPERVISOR, Feature.LIMIT_PIDS): "the launcher looks every few milliseconds",
    (SUPERVISOR, Feature.LIMIT_CPU): "the launcher stops all processes for the rest of the time",
}
#: With a supervised memory limit: buffers of sockets and pipes are nobody's memory, and each needs a file.
_WATCHED_FILES = 1024


class Holders(Record):
    """Which enforcer holds which limit."""

    pairs: tuple[tuple[Feature, str], ...]
    counting: str = ""  # the kind of control group that every run may have for its accounts
    has_rlimit: bool = False  # RLIMIT_NPROC would hold the number of processes as well
    fix: str = ""  # what would have the rest held

    @property
    def claims(self) -> frozenset[Feature]:
        """The limits that are held, whatever the command does."""
        return frozenset(feature for feature, name in self.pairs if name != SUPERVISOR)

    @property
    def approximates(self) -> tuple[tuple[Feature, str], ...]:
        """The limits that hold for commands that do not try to get around them, and how."""
        return tuple((pair[0], _MECHANISMS[pair[1], pair[0]]) for pair in self.pairs if pair[1] == SUPERVISOR)

    def of(self, feature: Feature) -> str:
        """The enforcer of a limit, or an empty string."""
        return dict(self.pairs).get(feature, "")

    def details(self) -> tuple[tuple[str, str], ...]:
        """As facts of a probe."""
        texts = sorted(f"{feature.value}:{name}" for feature, name in self.pairs)
        return (
            ("limits", ",".join(texts)),
            ("groups", self.counting),
            *((("rlimit", "pids"),) if self.has_rlimit else ()),
            *(((LIMITS_FIX, self.fix),) if self.fix else ()),
        )


def find_holders(host: Host, *, namespaced: bool) -> Holders:
    """Choose among the enforcers of a host, for a launch with or without namespaces."""
    by: dict[Feature, str] = {}
    groups = [enforcer for enforcer in host.enforcers() if enforcer.holds]
    for enforcer in groups[:1]:  # a run has one group
        by.update(dict.fromkeys(enforcer.holds, enforcer.name))
    has_rlimit = namespaced and host.uid != 0
    if has_rlimit:
        by.setdefault(Feature.LIMIT_PIDS, RLIMIT)
    by.setdefault(Feature.LIMIT_PIDS, SUPERVISOR)
    by.setdefault(Feature.LIMIT_MEMORY, SUPERVISOR)
    if namespaced:  # without PID 1 nobody can stop all at once
        by.setdefault(Feature.LIMIT_CPU, SUPERVISOR)
    counting = groups[0].name if groups and groups[0].name in {CGROUP1, CGROUP2} else ""
    is_held = all(name != SUPERVISOR for name in by.values())
    fixes = [enforcer.fix for enforcer in host.enforcers() if enforcer.fix]
    return Holders(tuple(by.items()), counting, has_rlimit, fixes[-1] if fixes and not is_held else "")


def without_supervisor(holders: Holders) -> Holders:
    """For a launch in which the launcher does not look for itself."""
    return holders.replace(pairs=tuple(pair for pair in holders.pairs if pair[1] != SUPERVISOR))


def read_holders(probe: Probe, resolved: ResolvedPolicy | None = None) -> Holders:
    """What `find_holders` found, from the facts of a probe, for this policy.

    A scope of systemd's costs as much as the rest of a launch: none is made for a default alone that the
    kernel holds without one.
    """
    pairs = [pair.partition(":")[::2] for pair in probe.detail("limits").split(",") if pair]
    by = {Feature(value): name for value, name in pairs}
    is_default = resolved is not None and "pids" in resolved.held_defaults
    is_default = is_default and by.get(Feature.LIMIT_PIDS) == SYSTEMD
    if is_default and probe.detail("rlimit"):
        by[Feature.LIMIT_PIDS] = RLIMIT
    return Holders(tuple(by.items()), probe.detail("groups"), bool(probe.detail("rlimit")))


def group_request(
    limits: Limits, holders: Holders, *, launcher_pids: int, ends_by_group: bool
) -> GroupRequest | None:
    """The control group of a run: with the limits that it holds, and else for its accounts."""
    held = {
        field: getattr(limits, field)
        for feature, field in _FIELDS.items()
        if holders.of(feature) in _GROUPS and getattr(limits, field) is not None
    }
    names = {holders.of(feature) for feature, field in _FIELDS.items() if field in held}
    kind = next(iter(names), holders.counting)
    if not kind:
        return None
    outer = 1 if kind == SYSTEMD else 0  # its scope is made around the supervisor as well
    return GroupRequest(kind, **held, launcher_pids=launcher_pids + outer, ends_by_group=ends_by_group)


def watch_request(limits: Limits, holders: Holders, *, processors: int, online: int = 0) -> LimitWatch | None:
    """What the launcher itself has to look after; None if there is nothing.

    `processors` are those that the caller may use now, `online` all that the command could move to, if more.
    """
    watched = {
        field: getattr(limits, field) or 0
        for feature, field in _FIELDS.items()
        if holders.of(feature) == SUPERVISOR
    }
    share = watched.get("cpus", 0)
    # Not more processors than are needed for the share: then the tree runs most of the time.
    used = min(processors, max(1, -int(-share // 1))) if share else 0
    permille = max(1, min(1000, int(share / used * 1000))) if used else 0
    if used and permille == 1000 and used >= max(processors, online):
        used = permille = 0  # it is all there is
    found = LimitWatch(watched.get("memory_bytes", 0), watched.get("pids", 0), permille, used)
    return None if found == LimitWatch() else found


def rlimits(limits: Limits, holders: Holders, *, launcher_pids: int = 1) -> tuple[Rlimit, ...]:
    """Limits of the kernel's own that hold for the whole tree, or keep what is not seen small."""
    found: tuple[Rlimit, ...] = ()
    if limits.pids is not None and holders.of(Feature.LIMIT_PIDS) == RLIMIT:
        count = limits.pids + launcher_pids
        found += (Rlimit(RLIMIT_NPROC, count, count),)
    if limits.memory_bytes is not None and holders.of(Feature.LIMIT_MEMORY) == SUPERVISOR:
        count = min(limits.open_files or _WATCHED_FILES, _WATCHED_FILES)
        found += (Rlimit(RLIMIT_NOFILE, count, count),)
    return found


def mechanisms(limits: Limits, holders: Holders) -> dict[Feature, str]:
    """The words for each limit that the policy sets and somebody holds."""
    return {
        feature: _MECHANISMS.get((holders.of(feature), feature), TITLES[holders.of(feature)])
        for feature, field in _FIELDS.items()
        if getattr(limits, field) is not None and holders.of(feature)
    }
