"""Remembered settings: the same text is not parsed twice, any other text is."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.config.find import Found
from corral.config.load import read_file
from corral.config.remembered import read_remembered
from corral.config.setting import FileSettings

TEXT = """\
[sandbox]
enabled = true
network = "none"
readonly_paths = ["/srv"]
environment.set = { CI = "1" }

[agent.x.sandbox]
profile = "strict"

[agent.y]
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "corral" / "parsed"


def never(_found: Found) -> FileSettings:
    raise AssertionError("it was parsed")


def test_the_same_text_is_read_once_and_means_the_same(state: Path) -> None:
    found = Found("/p/corral.toml", TEXT, True)

    first = read_remembered(found, read_file)

    assert read_remembered(found, never) == first == read_file(found)
    assert first.agents == {"x", "y"}


@pytest.mark.parametrize(
    "change", [{"text": TEXT + "\n"}, {"path": "/q/corral.toml"}, {"is_project": False}], ids=str
)
def test_anything_else_is_read_anew(state: Path, change: dict[str, object]) -> None:
    found = Found("/p/corral.toml", TEXT, True)
    read_remembered(found, read_file)

    with pytest.raises(AssertionError, match="it was parsed"):
        read_remembered(found.replace(**change), never)


@pytest.mark.parametrize("damage", [b"", b"x", b"\xe9\x00\x00\x00\x00"], ids=repr)
def test_what_is_damaged_is_read_anew(state: Path, damage: bytes) -> None:
    found = Found("/p/corral.toml", TEXT, True)
    settings = read_remembered(found, read_file)
    (file,) = state.iterdir()

    file.write_bytes(damage)
    assert read_remembered(found, read_file) == settings
    file.write_bytes(file.read_bytes()[:-4])
    assert read_remembered(found, read_file) == settings
    file.unlink()
    file.symlink_to("/dev/zero")
    assert read_remembered(found, read_file) == settings
