"""How many examples a property is tried on: all of them in `make test-all`, a tenth in `make test`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_EVERY = 100


def register_examples(*, is_all: bool) -> None:
    """The same examples on every run: a property that fails, fails for everyone."""
    settings.register_profile(
        "corral",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=_EVERY if is_all else _EVERY // 10,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("corral")


def examples(count: int) -> settings:
    """For a property that needs more than usual."""
    return settings(max_examples=scaled(count))


def scaled(count: int) -> int:
    """So many in `make test-all`, a tenth in `make test`."""
    return count * settings.default.max_examples // _EVERY
