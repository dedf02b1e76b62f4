"""The entry program as a user has it, with a home that the password database names."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.entry_home import Entry, check_available


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    return _make(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    """For many requests that leave nothing behind."""
    made = _make(tmp_path_factory.mktemp("shared"))
    made.run("-c", "touch .bashrc; sleep 0.2")  # the first quarantine makes stored plans old
    return made


def _make(top: Path) -> Entry:
    check_available()
    return Entry(top)


@pytest.fixture
def warm(entry: Entry) -> Entry:
    """With a plan that is stored."""
    entry.warm_up()
    return entry
