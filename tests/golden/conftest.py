"""The fixture `golden`, for every file of golden tests."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from support.golden_files import GOLDEN, as_read, enforced, reviewed, write_all, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="session", autouse=True)
def _written_anew(request: pytest.FixtureRequest) -> None:
    """All of them at once: they are differences from each other."""
    if request.config.getoption("--update-golden"):
        write_all()


@pytest.fixture
def golden() -> Callable[[str], None]:
    """Compare what is enforced with a file."""

    def compare(file: str) -> None:
        if not (GOLDEN / file).exists():
            pytest.fail(f"there is no golden file {file}; {_ADVICE}", pytrace=False)
        try:
            old = reviewed(file)
        except (ValueError, OSError) as error:
            pytest.fail(f"{file} cannot be put together: {error}; {_ADVICE}", pytrace=False)
        if old != enforced(file):
            pytest.fail(f"{_shown(file, old)}\n{_ADVICE}", pytrace=False)
        if (GOLDEN / file).read_text(encoding="utf-8") != written(file):
            pytest.fail(f"{file} says the same, but is written otherwise; {_ADVICE}", pytrace=False)

    return compare


_ADVICE = "--update-golden writes all golden files anew; read `git diff tests/golden` before you commit it"


def _shown(file: str, old: str) -> str:
    sides = (as_read(file, text).splitlines() for text in (old, enforced(file)))
    return "\n".join(unified_diff(*sides, f"{file}, as reviewed", f"{file}, as enforced now", lineterm=""))
