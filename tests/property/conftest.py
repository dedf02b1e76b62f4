"""How many examples there are is known before a module with properties is imported."""

from __future__ import annotations

from support.examples import register_examples

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    register_examples(is_all=config.getoption("--all"))
