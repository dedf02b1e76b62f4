"""Laws of paths into a kept sandbox: none leads out, and each leads where it leads for a command inside."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.sandbox_files.transfer import stays_inside
from support.examples import examples
from support.file_worlds import KINDS, SECRET, World

DIRECTORIES = ("ws", "ws/a", "ws/a/b", "lib")
#: Placed by every example, with any text: a link may stand for a file, a directory, or nothing.
LINKS = ("ws/l", "ws/a/m", "ws/a/b/n")
_PART = st.sampled_from(["..", ".", "", "a", "b", "l", "m", "n", "f", "ws", "lib", "outside", "secret"])
_RELATIVE = st.lists(_PART, min_size=1, max_size=8).map("/".join).filter(bool)
_TEXT = st.tuples(st.booleans(), _RELATIVE).map(lambda pair: f"/{pair[1]}" if pair[0] else pair[1])


@pytest.fixture(scope="module", params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    made = World(request.param, tmp_path_factory.mktemp("world"))
    for directory in DIRECTORIES:
        (made.root / directory).mkdir(exist_ok=True)
        (made.root / directory / "f").write_text(directory)
    yield made
    made.close()


def _model(links: dict[str, str], path: str) -> str | None:
    """The directory whose `f` is at a path for a process with this root; None if no file is there."""
    here: list[str] = []
    pending, followed = path.split("/"), 0
    while pending:
        part = pending.pop(0)
        if "/".join(here) not in {"", *DIRECTORIES}:
            return None
        if part in {"", "."}:
            continue
        if part == "..":
            here = here[:-1]
            continue
        name = "/".join([*here, part])
        if name in links:
            followed += 1
            if followed > 39:
                return None
            pending = links[name].split("/") + pending
            here = [] if links[name].startswith("/") else here
        elif name in DIRECTORIES or part == "f":
            here.append(part)
        else:
            return None
    return "/".join(here[:-1]) if here and here[-1] == "f" and len(here) > 1 else None


def _place(world: World, texts: tuple[str, ...]) -> dict[str, str]:
    for link, text in zip(LINKS, texts, strict=True):
        path = world.root / link
        path.unlink(missing_ok=True)
        inside = world.at(text[1:]) if text.startswith("/") else text
        path.symlink_to(inside)
    return dict(zip(LINKS, texts, strict=True))


def _ends_with_directory(links: dict[str, str], path: str) -> bool:
    """A trailing slash or dot asks for a directory; where it is not asked by us, kinds of roots differ."""
    return any(text.endswith(("/", "/.")) or text == "." for text in (path, *links.values()))


@examples(300)
@given(texts=st.tuples(*[_TEXT] * len(LINKS)), path=_RELATIVE)
def test_a_path_reads_what_a_command_would_read(world: World, texts: tuple[str, ...], path: str) -> None:
    links = _place(world, texts)
    expected = _model(links, f"ws/{path}")

    try:
        found: bytes | None = world.files.read(path)
    except OSError as problem:
        assert problem.filename == path
        found = None

    assert found != SECRET
    if not _ends_with_directory(links, path):
        meant = expected.encode() if expected is not None else None
        assert found == meant or (world.kind == "granted" and found is None)  # `..` beyond what is granted


@examples(150)
@given(texts=st.tuples(*[_TEXT] * len(LINKS)), path=_RELATIVE)
def test_no_path_writes_outside(world: World, texts: tuple[str, ...], path: str) -> None:
    _place(world, texts)
    around = sorted(os.listdir(world.root.parent))

    try:
        world.files.write(f"{path}/new", b"new")
    except OSError as problem:
        assert problem.filename == f"{path}/new"
    finally:
        for planted in world.root.rglob("new"):
            planted.unlink()

    assert world.untouched()
    assert sorted(os.listdir(world.root.parent)) == around


_LINK = st.lists(st.sampled_from(["..", ".", "", "d", "e", "x", "y"]), min_size=1, max_size=7).map("/".join)


@examples(500)
@given(texts=st.dictionaries(st.sampled_from(["x", "y", "d/x", "d/y", "d/e/x", "d/e/y"]), _LINK.filter(bool)))
def test_no_link_that_a_download_copies_leads_out_of_the_tree(
    texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Judged by the kernel, each link in the presence of all others."""
    top = tmp_path_factory.mktemp("tree").joinpath(*"1234567", "top")
    for around in (top, *list(top.parents)[:7]):  # something to be found, were a link to lead out
        (around / "d" / "e").mkdir(parents=True)
    kept = {link: text for link, text in texts.items() if stays_inside(text, link.count("/"))}
    for link, text in kept.items():
        (top / link).symlink_to(text)

    for link in kept:
        try:
            held = os.open(top / link, os.O_PATH)
        except OSError:
            continue  # it leads nowhere, or in a circle
        real = os.readlink(f"/proc/self/fd/{held}")
        os.close(held)
        assert real == str(top) or real.startswith(f"{top}/")


def test_the_law_of_links_is_not_a_matter_of_text_alone(tmp_path: Path) -> None:
    """The control: two links, each of which stays inside as text, lead out together."""
    top = tmp_path / "around" / "tree"
    (top / "d" / "e").mkdir(parents=True)
    (top / "d" / "e" / "x").symlink_to("../..")
    (top / "y").symlink_to("d/e/x/../../secret")
    (tmp_path / "secret").write_bytes(SECRET)

    assert posixpath.normpath("d/e/x/../../secret") == "d/secret"
    assert (top / "y").read_bytes() == SECRET
    assert not stays_inside("d/e/x/../../secret", 0)
