"""`corral policy init` writes a whole file or none, and leaves nothing else behind."""

from __future__ import annotations

import os

import pytest

from corral.cli.policy.init import _write
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def test_the_file_is_utf_8_whatever_the_locale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "ascii")
    _write(str(tmp_path / "corral.toml"), "# é\n", force=False)

    assert (tmp_path / "corral.toml").read_bytes() == "# é\n".encode()


@pytest.mark.parametrize("force", [False, True])
def test_only_the_file_is_left(tmp_path: Path, force: bool) -> None:
    _write(str(tmp_path / "corral.toml"), "x", force=force)

    assert os.listdir(tmp_path) == ["corral.toml"]


@pytest.mark.parametrize(("force", "call"), [(False, "os.link"), (True, "os.rename")])
def test_nothing_is_left_where_it_fails(tmp_path: Path, monkeypatch, force: bool, call: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(call, fail)
    with pytest.raises(PolicyError, match="Operation not supported") as refused:
        _write(str(tmp_path / "corral.toml"), "x", force=force)

    assert refused.value.code == "not-writable"
    assert os.listdir(tmp_path) == []


def test_what_has_appeared_meanwhile_is_kept(tmp_path: Path) -> None:
    (tmp_path / "corral.toml").write_text("theirs")
    with pytest.raises(PolicyError) as refused:
        _write(str(tmp_path / "corral.toml"), "mine", force=False)

    assert refused.value.code == "file-exists"
    assert (tmp_path / "corral.toml").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["corral.toml"]
