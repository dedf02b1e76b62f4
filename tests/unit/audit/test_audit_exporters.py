"""Records as metrics and as spans."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from corral.audit.exporters import OpenTelemetrySink, PrometheusSink
from corral.model.errors import PolicyError

RUN = [
    {"event": "started", "run": "1"},
    {"event": "violation", "run": "1", "feature": "fs.write", "subject": "/etc", "count": 2},
    {"event": "ended", "run": "1", "outcome": "exited", "backend": "native", "seconds": 0.25, "unheld": []},
]


def test_prometheus_counts_runs_and_violations() -> None:
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    sink.write(RUN)
    sink.write([{"event": "setup-failed", "run": "2", "code": "exec"}])

    assert registry.get_sample_value("corral_runs_total", {"outcome": "exited", "backend": "native"}) == 1
    assert registry.get_sample_value("corral_violations_total", {"feature": "fs.write"}) == 2
    assert registry.get_sample_value("corral_refusals_total", {"code": "exec"}) == 1
    assert registry.get_sample_value("corral_run_seconds_sum") == 0.25


def test_opentelemetry_has_a_span_for_a_run() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    sink = OpenTelemetrySink(provider.get_tracer("test"))
    sink.write([{"event": "planned", "run": "1"}])
    sink.write(RUN)

    (span,) = spans.get_finished_spans()
    assert span.attributes["corral.outcome"] == "exited"
    assert [event.attributes["corral.feature"] for event in span.events] == ["fs.write"]


@pytest.mark.parametrize(
    ("module", "sink", "extra"),
    [("prometheus_client", PrometheusSink, "prometheus"), ("opentelemetry", OpenTelemetrySink, "otel")],
)
def test_a_missing_package_is_named_by_its_extra(monkeypatch, module, sink, extra) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(PolicyError) as missing:
        sink()
    assert f"corral[{extra}]" in missing.value.fix
