"""Container images for tests: each variant is built once and kept in `.images`; engines become programs."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import sys
from pathlib import Path

from corral.images.build import build_archive, scratch_directory
from corral.images.recipe import load_recipe
from corral.images.sources import choose_sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.engines import Engine

KEPT = Path(__file__).resolve().parents[2] / ".images"


def why_not_buildable() -> str:
    """Why no image can be built on this machine; empty if one can."""
    return "" if shutil.which("mmdebstrap") else "mmdebstrap is not installed"


def build_once(variant: str) -> Path:
    """The root file system of a variant as an archive, built by corral's own code unless it is there already.

    The name has the recipe's digest in it, so a changed recipe is built anew. Workers that ask at the same
    time wait for the one that builds.
    """
    recipe = load_recipe(variant)
    archive = KEPT / f"{recipe.variant}-{recipe.digest().removeprefix('sha256:')[:16]}.tar"
    KEPT.mkdir(exist_ok=True)
    with open(KEPT / f"{recipe.variant}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            for old in KEPT.glob(f"{recipe.variant}-*.tar*"):
                old.unlink()
            with scratch_directory() as scratch:
                build_archive(recipe, str(archive), choose_sources(), scratch=scratch, on_line=lambda _: None)
    return archive


def install_engine(engine: Engine, directory: Path) -> None:
    """Make a program of the engine's name that is this private engine, whoever calls it from wherever."""
    real = shutil.which(engine.name)
    line = [real if word == engine.name else word for word in engine._line([])]
    program = directory / engine.name
    program.write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]} exec {shlex.join(line)} "$@"\n')
    program.chmod(0o755)


def link_programs(directory: Path, *names: str) -> None:
    """A PATH of one's own, with only these programs of the machine."""
    directory.mkdir(exist_ok=True)
    for name in names:
        found = shutil.which(name)
        assert found, f"{name} is not installed"
        os.symlink(found, directory / name)


def main(variants: list[str]) -> None:
    """Build these beforehand: no worker has to do it while a test's time runs."""
    reason = why_not_buildable()
    if reason:
        print(f"no image is built: {reason}")
        return
    for variant in variants:
        print(f"image {variant}: {build_once(variant).name}")


if __name__ == "__main__":
    main(sys.argv[1:])
