"""A module that is kept has streams of its own: nothing of the program that keeps it is read or written."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corral.wasm.module_sandbox import ModuleSandbox
from support.module_runs import TOOL
from support.probed import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A piece of five bytes lies at 100; each function passes on what the call answers.
MODULE = b"""(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_pwrite" (func $pwrite (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_pread" (func $pread (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_seek" (func $seek (param i32 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\\64\\00\\00\\00\\05\\00\\00\\00")
  (data (i32.const 100) "PWNED")
  (data (i32.const 200) "\\00\\00\\00\\00\\00\\00\\00\\00\\01")
  (func (export "put_at") (param i32) (result i32)
    (call $pwrite (local.get 0) (i32.const 0) (i32.const 1) (i64.const 0) (i32.const 8)))
  (func (export "seek") (param i32) (result i32)
    (call $seek (local.get 0) (i64.const 0) (i32.const 0) (i32.const 8)))
  (func (export "get_at") (result i32)
    (call $pread (i32.const 0) (i32.const 0) (i32.const 1) (i64.const 0) (i32.const 8)))
  (func (export "read") (result i32)
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.load (i32.const 8)))
  (func (export "wait") (result i32)
    (call $poll (i32.const 200) (i32.const 300) (i32.const 1) (i32.const 8)))
  (func (export "say_nothing") (param $times i32)
    (loop $again
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 8)))
      (local.set $times (i32.sub (local.get $times) (i32.const 1)))
      (br_if $again (local.get $times)))))"""
ILLEGAL_SEEK = 70


@pytest.fixture(params=["inline", "worker"])
def kept(request: pytest.FixtureRequest) -> Iterator[ModuleSandbox]:
    require(request, "wasm")
    with ModuleSandbox(MODULE, inline=request.param == "inline") as module:
        yield module


def test_streams_have_no_places(kept: ModuleSandbox) -> None:
    """A call that names a place would go by what counts and keeps the output."""
    answers = [kept.call("put_at", 1), kept.call("put_at", 2), kept.call("seek", 0), kept.call("seek", 1)]

    assert [*answers, kept.call("get_at")] == [ILLEGAL_SEEK] * 5
    assert kept.output == b""


def test_no_repository_is_made_under_another_name(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Git takes a directory with a HEAD in it for a repository. Nobody looks at it when a call has ended."""
    require(request, "wasm")
    (tmp_path / "sub").mkdir()
    with ModuleSandbox(TOOL, policy="moderate", as_parent=True, workspace=tmp_path, inline=True) as module:
        assert module.run("w", "sub/file", "text").exit_status == 0
        assert module.run("w", "sub/HEAD", "ref: refs/heads/main").exit_status != 0
        assert module.run("n", "sub/file", "sub/HEAD").exit_status != 0

    assert [each.name for each in (tmp_path / "sub").iterdir()] == ["file"]


def test_there_is_nothing_to_read_and_nothing_to_wait_for(kept: ModuleSandbox) -> None:
    assert kept.call("read") == 0
    assert kept.call("wait") == 0


def test_output_of_no_bytes_takes_no_memory(request: pytest.FixtureRequest) -> None:
    require(request, "wasm")
    with ModuleSandbox(MODULE, inline=True) as module:
        module.call("say_nothing", 1000)
        served = module._place._module  # type: ignore[union-attr]

        assert served._output == []


_PROGRAM = """
import sys
from corral.wasm.module_sandbox import ModuleSandbox
with ModuleSandbox(open(sys.argv[1], "rb").read(), inline=True) as module:
    module.call("put_at", 1), module.call("put_at", 2), module.call("seek", 1)
    print(module.call("read"), "bytes")
"""


def test_files_of_the_program_that_keeps_it_stay_as_they_are(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    require(request, "wasm")
    (tmp_path / "module.wat").write_bytes(MODULE)
    (tmp_path / "input").write_text("of the program")
    (tmp_path / "log").write_text("what was there\n")

    with (tmp_path / "input").open() as given, (tmp_path / "log").open("r+") as log:
        log.seek(0, 2)
        argv = (sys.executable, "-c", _PROGRAM, str(tmp_path / "module.wat"))
        subprocess.run(argv, stdin=given, stdout=log, stderr=log, check=True, cwd=tmp_path)

    assert (tmp_path / "log").read_text() == "what was there\n0 bytes\n"
