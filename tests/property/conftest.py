"""The same examples on every run: a property that fails, fails for everyone."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "corral",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("corral")
