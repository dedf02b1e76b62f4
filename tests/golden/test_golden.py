"""Golden launches: what each backend makes of a plan, word for word. `--update-golden` writes them anew."""

from __future__ import annotations

import pytest

from support.golden_files import FILES, FILTERS, GOLDEN, LAUNCHES, MAC_LAUNCHES, as_read, enforced, reviewed


@pytest.mark.parametrize("file", LAUNCHES)
def test_the_launch_is_the_one_that_was_reviewed(file: str, golden) -> None:
    golden(file)


@pytest.mark.parametrize("file", MAC_LAUNCHES)
def test_the_launch_on_a_mac_is_the_one_that_was_reviewed(file: str, golden) -> None:
    golden(file)


@pytest.mark.parametrize("file", FILTERS)
def test_the_filter_is_the_one_that_was_reviewed(file: str, golden) -> None:
    golden(file)


def test_no_golden_file_is_left_from_a_case_that_is_gone() -> None:
    assert {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.txt")} == set(FILES)


def test_filters_are_kept_as_listings() -> None:
    """Not as disassemblies, in which every line changes with each call that is denied."""
    assert [file for file in FILTERS if as_read(file, enforced(file)) == enforced(file)] == []


def test_no_secret_of_the_case_is_in_a_launch() -> None:
    """Neither a file of the home that was not granted nor a variable that was not permitted."""
    for file in FILES:
        text = reviewed(file)
        for word in ("the secret", ".ssh", "credentials.toml", "keyrings", "helper", "/etc/shadow"):
            assert word not in text, (file, word)
