"""Lets the tests here import `sources`, in whatever way pytest imports them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True, scope="module")
def forgotten_afterwards() -> Iterator[None]:
    """Every file is parsed once for a module; kept for longer, all that would slow down who comes next."""
    yield
    sources.parse.cache_clear()
