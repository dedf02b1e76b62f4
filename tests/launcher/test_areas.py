"""Private areas: directories of one file system, whose size and number of files they share."""

from __future__ import annotations

from pathlib import Path

from launching import confined, launch, shell

from corral.linux.spec import Areas, Mount, MountKind

TWO = (Mount(MountKind.AREA, "/one", mode=0o1777), Mount(MountKind.AREA, "/two/below", mode=0o700))
_MIB = 1 << 20


def _run(binary: Path, user: int, script: str, areas: Areas = Areas(4 * _MIB, 64)) -> list[str]:  # noqa: B008
    done = launch(binary, confined(*shell(script), user=user, mounts=TWO, areas=areas))
    assert "started" in done.lines, done.lines
    return [*done.output.decode().splitlines(), *done.lines]


def test_they_are_empty_writable_and_apart(launcher: Path, user: int) -> None:
    script = "ls -A /one /two/below; echo a > /one/file; ls /two/below; stat -c %a /one /two/below; ls -A /"
    lines = _run(launcher, user, script)

    assert lines[:3] == ["/one:", "", "/two/below:"]
    assert lines[3:5] == ["1777", "700"]
    assert not [line for line in lines if "corral" in line], "the place where they are made is gone"


def test_their_common_root_is_mounted_nowhere(launcher: Path, user: int) -> None:
    """Nor is anything of the old root, upon which it was mounted for a while; /proc is the sandbox's own."""
    lines = _run(launcher, user, "cut -d' ' -f4,5 /proc/self/mountinfo; echo; ls /proc; readlink /proc/self")
    mounted = [line.split(" ") for line in lines[: lines.index("")]]

    assert {place: root for root, place in mounted if place in {"/one", "/two/below"}} == {
        "/one": "/0",
        "/two/below": "/1",
    }
    assert [place for root, place in mounted if place == "/proc"] == ["/proc"]
    assert "self" in lines[lines.index("") :]


def test_nothing_can_be_moved_between_them_by_name(launcher: Path, user: int) -> None:
    """They are mounts: a link from one into the other would be one across the network."""
    lines = _run(launcher, user, "echo a > /one/file; ln /one/file /two/below/file 2>&1 | tail -n 1")

    assert "Invalid cross-device link" in lines[0]


def test_together_they_have_their_size(launcher: Path, user: int) -> None:
    script = (
        "head -c 3m /dev/zero > /one/a; head -c 3m /dev/zero > /two/below/b; cat /one/a /two/below/b | wc -c"
    )
    lines = _run(launcher, user, script)

    got = int(lines[-4])
    assert 0.95 * 4 * _MIB <= got <= 4 * _MIB
    assert "full areas" in lines


def test_together_they_have_their_number_of_files(launcher: Path, user: int) -> None:
    fill = "for i in $(seq 100); do touch /one/$i /two/below/$i 2>/dev/null; done"
    lines = _run(launcher, user, f"{fill}; ls -1 /one | wc -l; ls -1 /two/below | wc -l")

    assert 50 < int(lines[0]) + int(lines[1]) <= 64
    assert "full areas" in lines


def test_areas_with_room_are_not_called_full(launcher: Path, user: int) -> None:
    assert "full areas" not in _run(launcher, user, "head -c 1m /dev/zero > /one/a")
