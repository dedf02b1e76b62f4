"""Sinks for those who collect metrics and traces: Prometheus and OpenTelemetry, each an extra."""

from __future__ import annotations

import time

from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800)


class PrometheusSink:
    """Counts runs by outcome and backend, violations by feature, and how long runs took."""

    def __init__(self, registry: Any = None) -> None:
        """`registry` is a CollectorRegistry; without it the client's own."""
        try:
            import prometheus_client as client
        except ImportError as problem:
            raise _missing("prometheus", problem) from None
        into: dict[str, Any] = {"registry": registry if registry is not None else client.REGISTRY}
        self._runs = client.Counter("corral_runs", "Commands that have ended", ("outcome", "backend"), **into)
        self._refused = client.Counter("corral_refusals", "Commands that did not run", ("code",), **into)
        self._violations = client.Counter("corral_violations", "What commands tried", ("feature",), **into)
        self._seconds = client.Histogram("corral_run_seconds", "How long", buckets=_BUCKETS, **into)

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Count them."""
        for record in records:
            event = record["event"]
            if event == "ended":
                self._runs.labels(record["outcome"], record["backend"]).inc()
                self._seconds.observe(record["seconds"])
            elif event == "violation":
                self._violations.labels(record["feature"]).inc(record["count"])
            elif event == "setup-failed":
                self._refused.labels(record["code"]).inc()


class OpenTelemetrySink:
    """Makes a span of each run, with violations and decisions as its events."""

    def __init__(self, tracer: Any = None) -> None:
        """`tracer` is one of OpenTelemetry's; without it that of the global provider."""
        try:
            from opentelemetry import trace
        except ImportError as problem:
            raise _missing("otel", problem) from None
        self._tracer = tracer if tracer is not None else trace.get_tracer("corral")

    def write(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Make a span of a run that has ended, or could not begin."""
        last = records[-1] if records else {}
        if last.get("event") not in {"ended", "setup-failed"}:
            return
        end = time.time_ns()
        began = end - int(last.get("seconds", 0) * 1e9)
        span = self._tracer.start_span("corral.run", start_time=began, attributes=_attributes(last))
        for record in records[:-1]:
            if record["event"] in {"violation", "decision"}:
                span.add_event(str(record["event"]), _attributes(record))
        span.end(end)


def _attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {f"corral.{name}": value for name, value in record.items() if isinstance(value, plain)}


def _missing(extra: str, problem: ImportError) -> PolicyError:
    return PolicyError(
        "missing-extra",
        "this sink needs a package that is not installed",
        why=str(problem),
        fix=f"pip install 'corral[{extra}]'",
    )
