"""`--stats`: what a run has cost, in one line at its end, and on a terminal while it lasts."""

from __future__ import annotations

from corral.model.rules.quantities import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.network.traffic import HostTraffic, Traffic
    from corral.model.result import Result, UsageSample

#: A run that is over before says nothing on the way.
PATIENCE_SECONDS = 2.0
EVERY_SECONDS = 0.5
_MOST_HOSTS = 20


def summarize(result: Result) -> str:
    """`1.20 s, 0.98 s user, 0.10 s system, 143.0 MiB at most, ...`."""
    return ", ".join(_parts(result))


def _parts(result: Result) -> Iterator[str]:
    usage = result.usage
    yield f"{usage.wall_seconds:.2f} s"
    yield f"{usage.user_seconds:.2f} s user"
    yield f"{usage.system_seconds:.2f} s system"
    if usage.peak_memory_bytes:
        whose = "" if usage.is_whole_tree else " in one process"
        yield f"{approximate(usage.peak_memory_bytes)} at most{whose}"
    if usage.processes is not None:
        at_once = "" if usage.peak_pids is None else f", {usage.peak_pids} at once"
        yield f"{_processes(usage.processes)}{at_once}"
    elif usage.peak_pids is not None:
        yield f"{_processes(usage.peak_pids)} at once"
    yield f"{approximate(usage.read_bytes)} read"
    yield f"{approximate(usage.written_bytes)} written"


def describe_sample(sample: UsageSample) -> str:
    """What to show of a run under way; nothing in its first moments."""
    if sample.wall_seconds < PATIENCE_SECONDS:
        return ""
    parts = [f"corral: {sample.wall_seconds:.0f} s"]
    if sample.cpu_seconds is not None:
        parts.append(f"{sample.cpu_seconds:.1f} s of processor time")
    if sample.memory_bytes is not None:
        parts.append(approximate(sample.memory_bytes))
    if sample.pids is not None:
        parts.append(_processes(sample.pids))
    return ", ".join(parts)


def describe_traffic(traffic: Traffic) -> Iterator[str]:
    """A line for each host that was asked for: `api.example.com:443  2 connections, 1.5 KiB sent, ...`."""
    for host in traffic.hosts[:_MOST_HOSTS]:
        parts = []
        if host.connections:
            parts.append("1 connection" if host.connections == 1 else f"{host.connections} connections")
            parts += [f"{approximate(host.sent)} sent", f"{approximate(host.received)} received"]
        if host.refused:
            parts.append(f"{host.refused} refused")
        if host.failed:
            parts.append(f"{host.failed} failed: {_why_failed(traffic, host)}")
        name = f"[{host.host}]" if ":" in host.host else host.host
        place = f"{name}:{host.port}" if host.port else name
        yield f"network: {place}: {', '.join(parts) or 'nothing passed'}"
    if len(traffic.hosts) > _MOST_HOSTS:
        yield f"network: and {len(traffic.hosts) - _MOST_HOSTS} more hosts"


def _why_failed(traffic: Traffic, host: HostTraffic) -> str:
    """A name that does not exist is another matter than one that is refused."""
    from corral.model.network.traffic import FAILURES, SENTENCES

    reasons = {
        SENTENCES[event.reason]: None
        for event in traffic.refusals
        if (event.host, event.port) == (host.host, host.port) and event.reason in FAILURES
    }
    return " and ".join(reasons) or "it led to nothing"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def approximate(size: int) -> str:
    """A size to be read at a glance: 1536 -> `1.5 KiB`."""
    return format_size(size, rounded=True)
