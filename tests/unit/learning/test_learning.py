"""Learning: what a trace says, what of it is granted, and what never is."""

from __future__ import annotations

import os

import pytest

from corral.config.read import read_settings
from corral.config.setting import Source
from corral.learning.observation import Observation, observation_from
from corral.learning.proposal import propose
from corral.learning.render import render
from corral.learning.trace import Access, AccessKind, parse_trace

TRACE = """\
12 execve("/usr/bin/make", ["make"], 0x7ff /* 9 vars */) = 0
12 openat(AT_FDCWD</w>, "src/a.c", O_RDONLY) = 3</w/src/a.c>
12 openat(AT_FDCWD</w>, "out/a \\"b\\"", O_WRONLY|O_CREAT, 0666) = 4</w/out/a "b">
12 openat(AT_FDCWD</w>, "/etc/shadow", O_RDONLY) = -1 EACCES (Permission denied)
12 openat(AT_FDCWD</w>, "u\\303\\244", O_RDONLY <unfinished ...>
13 mkdir("/w/made", 0777) = 0
12 <... openat resumed>) = 5</w/u\\303\\244>
13 newfstatat(3</w/lib>, "x", {st_mode=S_IFREG|0644, ...}, 0) = 0
13 renameat2(AT_FDCWD</w>, "tmp1", AT_FDCWD</w>, "kept", 0) = 0
13 unlink("gone") = 0
13 +++ exited with 0 +++
nonsense
"""


def test_a_trace_is_read_with_relative_paths_escapes_and_calls_in_two_lines() -> None:
    assert list(parse_trace(TRACE.splitlines(), "/w")) == [
        Access(AccessKind.RUN, "/usr/bin/make"),
        Access(AccessKind.READ, "/w/src/a.c"),
        Access(AccessKind.WRITE, '/w/out/a "b"'),
        Access(AccessKind.MISSED, "/etc/shadow"),
        Access(AccessKind.MAKE, "/w/made"),
        Access(AccessKind.READ, "/w/uä"),
        Access(AccessKind.READ, "/w/lib/x"),
        Access(AccessKind.ENTRY, "/w/tmp1"),
        Access(AccessKind.MOVE, "/w/kept"),
        Access(AccessKind.ENTRY, "/w/gone"),
    ]


@pytest.fixture
def workspace(tmp_path):
    place = tmp_path / "work"
    (place / "out").mkdir(parents=True)
    (place / "out/a").touch()
    (place / "cache/deep").mkdir(parents=True)
    for number in range(5):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{number}").touch()
    (tmp_path / "one").touch()
    return place


def _seen(**sets: object) -> Observation:
    return Observation(
        commands=("make",), **{name: frozenset(map(str, paths)) for name, paths in sets.items()}
    )


def test_what_was_used_is_granted_and_nothing_beside_it(workspace) -> None:
    beside = workspace.parent
    seen = _seen(
        reads=[workspace / "x", "/usr/bin/env", beside / "one", *(beside / "data").iterdir()],
        files=[workspace / "out/a", workspace / "cache/deep/x"],
        directories=[workspace / "cache"],
        hosts=["example.com:443"],
    )
    found = propose(seen, str(workspace))

    assert found.readwrite == ("${workspace}/cache", "${workspace}/out/a")
    assert sorted(found.readonly) == [str(beside / "data"), str(beside / "one")]
    assert (found.uses_tools, found.writes_workspace, found.hosts) == (False, False, ("example.com:443",))


def test_names_that_come_and_go_in_the_workspace_open_all_of_it_and_that_is_said(workspace) -> None:
    found = propose(_seen(parents=[workspace], files=[workspace / "out/a"]), str(workspace))

    assert found.writes_workspace
    assert found.readwrite == ()
    assert "right in the workspace" in found.flags[0]


def test_a_home_and_the_root_are_never_granted(workspace, monkeypatch) -> None:
    home = workspace.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    one = str(workspace.parent / "one")
    found = propose(_seen(reads=["/", home, one], parents=[home, "/"]), str(workspace))

    assert (found.readonly, found.readwrite) == ((one,), ())
    assert len([flag for flag in found.flags if "not granted" in flag]) == 4


def test_the_file_can_be_read_and_says_the_same(workspace) -> None:
    odd = workspace / 'od"d *[x]'
    odd.mkdir()
    seen = _seen(directories=[odd], reads=[workspace.parent / "one"]).replace(seconds=30.0)
    text = render(propose(seen, str(workspace)), seen)
    settings = read_settings(text, "corral.toml", Source.USER).for_agent("")

    said = {setting.key.name: setting.value for setting in settings}
    assert said["profile"] == "strict"
    assert said["readwrite_paths"] == '${workspace}/od"d \\*\\[x]'
    assert said["resources.time"] == "1m30s"
    assert text.startswith("# Learned by `corral learn` from 1 run of: make\n")


def test_runs_add_up_and_are_kept_as_they_are() -> None:
    first = _seen(reads=["/a"]).replace(seconds=2.0)
    both = first | _seen(reads=["/b"], hosts=["h:1"]).replace(seconds=1.0)

    assert (both.reads, both.seconds, both.commands) == ({"/a", "/b"}, 2.0, ("make", "make"))
    assert observation_from(both.to_json()) == both
    assert os.path.isabs("/a")
