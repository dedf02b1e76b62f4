"""What a sandbox permits and what it has used, a line each."""

from __future__ import annotations

from corral.model.policy import FsAccess, NetMode
from corral.model.printable import printable
from corral.model.rules.quantities import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.sandbox import Sandbox
    from corral.sessions.session import Session

_MOST_PATHS = 20
_LIMITS = {
    "wall_seconds": "seconds for a command",
    "memory_bytes": "bytes of memory",
    "cpus": "processors",
    "cpu_seconds": "seconds of processor time",
    "pids": "processes",
    "output_bytes": "bytes of output",
    "disk_bytes": "bytes in private directories",
}


def describe_sandbox(sandbox: Sandbox, session: Session) -> list[str]:
    """All that a model may want to know before it tries."""
    return list(_lines(sandbox, session))


def _lines(sandbox: Sandbox, session: Session) -> Iterator[str]:
    policy, usage = sandbox.policy, session.usage()
    yield f"policy: {printable(policy.name)}, enforced by {session.backend}"
    yield f"workspace: {printable(sandbox.workspace)}"
    for access, words in ((FsAccess.WRITE, "read and write"), (FsAccess.READ, "read")):
        paths = [
            rule.path.replace("${workspace}", sandbox.workspace)
            for rule in policy.fs
            if rule.access is access
        ]
        yield f"may {words}: {_some(paths)}"
    yield f"private and empty at first: {_some(sorted(policy.private))}"
    net = policy.net
    if net.allow:
        yield f"network: {_some(sorted(map(str, net.allow)))}, through corral"
    else:
        yield f"network: {net.mode.value}{', so no host can be reached' if net.mode is NetMode.NONE else ''}"
    limits = [
        f"{value:g} {words}"
        for name, words in _LIMITS.items()
        if (value := getattr(policy.limits, name)) is not None
    ]
    yield f"limits: {', '.join(limits) or 'none but the defaults'}"
    memory = "unknown" if usage.memory_bytes is None else format_size(usage.memory_bytes, rounded=True)
    yield f"in use: {memory} of memory; since {usage.wall_seconds:.0f} s"
    if session.made_anew:
        yield f"made anew {session.made_anew} times, because the host has changed; what ran in it was ended"


def _some(paths: Iterable[str]) -> str:
    listed = [printable(path) for path in paths]
    more = f" and {len(listed) - _MOST_PATHS} more" if len(listed) > _MOST_PATHS else ""
    return f"{', '.join(listed[:_MOST_PATHS]) or 'nothing'}{more}"
