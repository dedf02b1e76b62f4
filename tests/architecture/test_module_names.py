"""Test modules outside of packages are imported by their base names alone: two of one name cannot be."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_two_test_modules_have_one_name() -> None:
    names = Counter(
        path.name for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists()
    )

    assert [name for name, count in names.items() if count > 1] == []
