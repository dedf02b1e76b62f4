"""The fixture `golden`, for every file of golden tests."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare a text with a file, or write the file."""

    def compare(name: str, text: str) -> None:
        path = HERE / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not path.exists():
            pytest.fail(
                f"there is no {path}; --update-golden writes it, and it is read before it is committed"
            )
        assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()

    return compare
