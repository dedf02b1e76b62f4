"""The host's side of a kept sandbox is led nowhere: links, directories and mounts change while it works.

Each attack is first done to the naive way, which looks before it opens, and must succeed there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corral.model.errors import PolicyError
from support.file_worlds import KINDS, SECRET, World
from support.swapping import swapping

#: The naive way is given this many chances to be led out; it needs a few dozen.
CHANCES = 100_000
ATTEMPTS = 1_000
COPIES = 60


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path):
    """`ws/way` is a directory, `ws/other` a link out; both have the name `secret` behind them."""
    made = World(request.param, tmp_path)
    (made.ws / "way").mkdir()
    (made.ws / "way" / "secret").write_bytes(b"harmless")
    (made.ws / "other").symlink_to("../../outside")
    yield made
    made.close()


def _looks_inside(world: World, path: Path) -> bool:
    return os.path.realpath(path).startswith(f"{world.ws}/")


def _is_led_out(attempt, effect) -> bool:
    for _ in range(CHANCES):
        try:
            attempt()
        except OSError:
            continue
        if effect():
            return True
    return False


def test_a_directory_swapped_for_a_link_shows_nothing_of_the_host(world: World) -> None:
    path, seen = world.ws / "way" / "secret", set()

    def naive() -> None:
        if _looks_inside(world, path):
            seen.add(path.read_bytes())

    with swapping(world.ws / "way", world.ws / "other"):
        assert _is_led_out(naive, lambda: SECRET in seen)
        read = _outcomes(lambda: world.files.read("way/secret"), alive=b"harmless")

    assert b"harmless" in read
    assert SECRET not in read


def test_a_directory_swapped_for_a_link_leads_no_write_out(world: World) -> None:
    path, planted = world.ws / "way" / "new", world.outside / "new"

    def naive() -> None:
        if _looks_inside(world, path.parent / "x"):
            path.write_bytes(b"x")

    with swapping(world.ws / "way", world.ws / "other"):
        assert _is_led_out(naive, planted.exists)
        planted.unlink()
        written = _outcomes(lambda: world.files.write("way/new", b"y"), alive=None)
        written |= _outcomes(lambda: world.files.write("way/secret", b"y"), alive=None)

    assert None in written  # it did write
    assert world.untouched()


def test_a_file_swapped_for_a_link_leads_no_write_out(world: World) -> None:
    path = world.ws / "file"
    path.write_bytes(b"x")
    (world.ws / "link").symlink_to("../../outside/secret")

    def naive() -> None:
        if _looks_inside(world, path):
            path.write_bytes(b"x")

    with swapping(path, world.ws / "link"):
        assert _is_led_out(naive, lambda: not world.untouched())
        (world.outside / "secret").write_bytes(SECRET)
        written = _outcomes(lambda: world.files.write("file", b"y"), alive=None, attempts=200)

    assert None in written
    assert world.untouched()


def test_no_part_of_an_upload_is_led_out(world: World, tmp_path: Path) -> None:
    source = tmp_path / "tree"
    (source / "way" / "deep").mkdir(parents=True)
    for number in range(5):
        (source / "way" / f"{number}").write_bytes(b"x")
        (source / "way" / "deep" / f"{number}").write_bytes(b"x")
    (world.outside / "deep").mkdir()

    def naive() -> None:
        if _looks_inside(world, world.ws / "way" / "x"):
            shutil.copy(source / "way" / "0", world.ws / "way" / "0")

    with swapping(world.ws / "way", world.ws / "other"):
        assert _is_led_out(naive, (world.outside / "0").exists)
        (world.outside / "0").unlink()
        uploaded = _outcomes(lambda: world.files.upload(source, "."), alive=None, attempts=COPIES)

    assert None in uploaded
    assert os.listdir(world.outside / "deep") == []
    (world.outside / "deep").rmdir()
    assert world.untouched()


def test_no_download_has_anything_of_the_host_in_it(world: World, tmp_path: Path) -> None:
    """A link is copied as one or refused; that it was a directory a moment ago changes nothing."""
    target, copied = tmp_path / "target", tmp_path / "copied"

    def naive() -> None:
        if not (world.ws / "way").is_symlink():
            shutil.copy(world.ws / "way" / "secret", copied)

    def confined() -> bytes:
        shutil.rmtree(target, ignore_errors=True)
        world.files.download(".", target)
        files = (path for path in target.rglob("*") if path.is_file() and not path.is_symlink())
        return b"".join(path.read_bytes() for path in files)

    with swapping(world.ws / "way", world.ws / "other"):
        assert _is_led_out(naive, lambda: copied.exists() and copied.read_bytes() == SECRET)
        downloaded = _outcomes(confined, alive=PolicyError, attempts=COPIES)
    (world.ws / "other").unlink() if (world.ws / "other").is_symlink() else (world.ws / "way").unlink()
    downloaded.add(confined())

    assert b"harmless" in downloaded
    assert not any(SECRET in found for found in downloaded if isinstance(found, bytes))


def _outcomes(call, *, alive: object, attempts: int = ATTEMPTS) -> set[object]:
    """What many calls returned, until one of them was `alive`; an error is an answer too."""
    outcomes: set[object] = set()
    for attempt in range(CHANCES):
        if attempt >= attempts and alive in outcomes:
            break
        try:
            outcomes.add(call())
        except (OSError, PolicyError) as problem:
            outcomes.add(type(problem))
    return outcomes


def test_a_lease_does_not_hold_the_caller_up(world: World) -> None:
    """The owner of a file can make every open of it wait for 45 seconds, but for one that does not wait."""
    holder = (
        "import fcntl, os, signal, sys\n"
        "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
        "file = os.open(sys.argv[1], os.O_RDWR)\n"
        "fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    path = world.ws / "way" / "secret"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError):
            os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # control: the lease is there

        with pytest.raises(BlockingIOError):
            world.files.read("way/secret")
        process.stdin.close()
        assert process.wait() == 0


_WITHOUT = """
import ctypes, os, struct, sys
answer, root = int(sys.argv[1]), sys.argv[2]
if answer >= 0:
    code = b"".join(struct.pack("HBBI", *line) for line in (
        (0x20, 0, 0, 0), (0x15, 0, 1, 437), (0x06, 0, 0, 0x50000 | answer), (0x06, 0, 0, 0x7FFF0000)))
    room = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(room))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        sys.exit("no filter")
from corral.model.errors import UnenforceableError
from corral.sandbox_files.root import RootFiles
handle = os.open(root, os.O_PATH)
try:
    print(RootFiles(handle, lambda *_: False).read("/ws/way/secret"))
except UnenforceableError as refused:
    print(refused.code)
"""


@pytest.mark.parametrize(
    ("answer", "said"), [(-1, "b'harmless'"), (1, "openat2-missing"), (38, "openat2-missing")]
)
def test_without_openat2_nothing_is_opened_some_other_way(tmp_path: Path, answer: int, said: str) -> None:
    """A kernel before 5.6 says ENOSYS (38), the filter of an old container engine EPERM (1)."""
    world = World("root", tmp_path)
    (world.ws / "way").mkdir()
    (world.ws / "way" / "secret").write_bytes(b"harmless")

    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, str(answer), str(world.root)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.strip() == said, done.stderr
    world.close()
