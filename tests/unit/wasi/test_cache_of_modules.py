"""Compiled modules are machine code: what is cached is believed only if nobody else could have written it."""

from __future__ import annotations

import os

import pytest

from corral.wasi import loading
from corral.wasi.machine import make_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

wasmtime = pytest.importorskip("wasmtime")
ENGINE = make_engine()


def _binary(number: int) -> bytes:
    return bytes(wasmtime.wat2wasm(f'(module (func (export "f") (result i32) (i32.const {number})))'))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The modules that had to be compiled."""
    seen: list[bytes] = []
    real = wasmtime.Module

    class Counting:
        deserialize = staticmethod(real.deserialize)

        def __new__(cls, engine: object, binary: bytes) -> object:
            seen.append(binary)
            return real(engine, binary)

    monkeypatch.setattr(wasmtime, "Module", Counting)
    return seen


def _compile(cache: Path, number: int = 1, key: str = "") -> None:
    loading.compile_module(ENGINE, _binary(number), "m", str(cache), key)


def test_a_module_is_compiled_once_for_each_content_and_setting(
    tmp_path: Path, compiled: list[bytes]
) -> None:
    cache = tmp_path / "cache"
    for _ in range(2):
        _compile(cache)
        _compile(cache, 2)
        _compile(cache, key="fuel")

    assert len(compiled) == 3 and len(os.listdir(cache)) == 3
    assert {os.stat(cache / name).st_mode & 0o777 for name in os.listdir(cache)} == {0o600}


@pytest.mark.parametrize("harm", ["mode", "directory", "link", "second", "torn", "changed"])
def test_what_somebody_else_could_have_written_is_not_believed(
    harm: str, tmp_path: Path, compiled: list[bytes]
) -> None:
    cache = tmp_path / "cache"
    _compile(cache)
    (file,) = cache.iterdir()
    if harm == "mode":
        file.chmod(0o666)
    elif harm == "directory":
        cache.chmod(0o777)
    elif harm == "link":
        file.rename(tmp_path / "code")
        file.symlink_to(tmp_path / "code")
    elif harm == "second":
        os.link(file, tmp_path / "second")
    elif harm == "torn":
        file.write_bytes(file.read_bytes()[:-10])
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"x")

    _compile(cache)

    assert len(compiled) == 2


def test_the_cache_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_MOST_CACHED", 3)
    for number in range(6):
        _compile(tmp_path / "cache", number)

    assert len(os.listdir(tmp_path / "cache")) == 3
