"""`corral image`: list, build, inspect. What each does and prints, for a person or as JSON."""

from __future__ import annotations

import os
import secrets
import sys
import time
from contextlib import contextmanager

from corral import __version__
from corral.cli.stats import approximate
from corral.images.archive import read_archive
from corral.images.build import build_archive, check_target, scratch_directory
from corral.images.engine import (
    LABEL_BUILD,
    LABEL_RECIPE,
    LABEL_SIZE,
    LABEL_VARIANT,
    LABEL_VERSION,
    choose_engines,
    find_engines,
)
from corral.images.recipe import ALIASES, REPOSITORY, VARIANTS, canonical_variant, load_recipe
from corral.images.sources import choose_sources
from corral.images.tool import Interrupted, interruptible
from corral.model.errors import PolicyError, SetupError
from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from corral.cli.policy.show import Answer
    from corral.images.archive import Contents
    from corral.images.engine import Engine, Image
    from corral.images.recipe import Recipe


class _Progress:
    """One line on the terminal that says what is being done; nothing where nobody looks."""

    def __init__(self, variant: str) -> None:
        self._variant = variant
        self._shown = sys.stderr.isatty()
        self._begun = time.monotonic()

    def line(self, text: str) -> None:
        """A line of mmdebstrap's; those that say what it does begin with `I: `."""
        if text.startswith("I: ") and not text.startswith(("I: success", "I: using", "I: removing")):
            self.say(text.removeprefix("I: ").rstrip("."))

    def say(self, what: str) -> None:
        if self._shown:
            seconds = time.monotonic() - self._begun
            sys.stderr.write(f"\r\033[Kcorral: {self._variant}: {printable(what)} ({seconds:.0f} s)")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


@contextmanager
def _uninterrupted(what: str) -> Iterator[None]:
    """What ends the work early becomes an error like others, once everything is cleared away."""
    try:
        with interruptible():
            yield
    except Interrupted as signal:
        raise SetupError(
            "image-interrupted",
            f"{what} was interrupted",
            why=f"signal {signal.number} asked corral to end; nothing of it is left",
            fix="start it again when there is time",
            exit_status=128 + signal.number,
        ) from signal


def build(variant: str, *, engine: str, output: str, suite: str, mirrors: tuple[str, ...]) -> Answer:
    """Build a variant, into a file or into engines."""
    recipe = load_recipe(variant)
    if output and engine:
        raise PolicyError(
            "contradiction",
            "--output and --engine exclude each other",
            why="--output only writes a file",
            fix="give one of them; `docker import` and `podman import` take the file later",
        )
    with _uninterrupted(f"building the image {recipe.variant}"):
        if output:
            check_target(output)
        engines = () if output else choose_engines(engine)
        progress = _Progress(recipe.variant)
        try:
            with scratch_directory() as scratch:
                target = os.path.abspath(output) if output else f"{scratch.path}/root.tar"
                sources = choose_sources(suite, mirrors)
                contents = build_archive(recipe, target, sources, scratch=scratch, on_line=progress.line)
                size = contents.size_bytes
                images = [_import(each, recipe, target, size, progress) for each in engines]
        finally:
            progress.clear()
    value = {
        "variant": recipe.variant,
        "recipe": recipe.digest(),
        "output": os.path.abspath(output) if output else None,
        "images": [_image_json(image) for image in images],
        "contents": _contents_json(contents),
    }
    return 0, _render_built(recipe, contents, images, output), value


def _import(engine: Engine, recipe: Recipe, archive: str, size: int, progress: _Progress) -> Image:
    progress.say(f"giving it to {engine.name}")
    labels = {
        LABEL_VARIANT: recipe.variant,
        LABEL_VERSION: __version__,
        LABEL_RECIPE: recipe.digest(),
        LABEL_SIZE: str(size),
        LABEL_BUILD: secrets.token_hex(8),
    }
    return engine.import_archive(archive, recipe.names, labels)


def _render_built(recipe: Recipe, contents: Contents, images: list[Image], output: str) -> Iterator[str]:
    about = f"{len(contents.packages)} packages, {approximate(contents.size_bytes)}"
    if output:
        yield f"{output}: {recipe.variant}, {about}"
    for image in images:
        yield f"{', '.join(recipe.names)}: in {image.engine}, {about}"


def list_images() -> Answer:
    """Every variant, and what the engines have of it; then other images that corral has made."""
    engines = find_engines()
    images = [image for engine in engines if not engine.reason for image in engine.images()]
    value = {
        "variants": [_recipe_json(load_recipe(variant)) for variant in VARIANTS],
        "aliases": {f"{REPOSITORY}:{alias}": f"{REPOSITORY}:{variant}" for alias, variant in ALIASES.items()},
        "engines": [
            {
                "engine": engine.name,
                "version": engine.version,
                "reachable": not engine.reason,
                "reason": engine.reason,
                "fix": engine.fix,
            }
            for engine in engines
        ],
        "images": [_image_json(image) for image in images],
    }
    return 0, _render_list(engines, images), value


def _render_list(engines: tuple[Engine, ...], images: list[Image]) -> Iterator[str]:
    shown: set[tuple[str, str]] = set()
    for variant in VARIANTS:
        recipe = load_recipe(variant)
        yield f"{' = '.join(recipe.names)}: {recipe.description}"
        yield from _wrapped("  packages  ", recipe.packages)
        for engine in engines:
            own = [image for image in images if image.engine == engine.name]
            found = [image for image in own if set(recipe.names) & set(image.names)]
            shown |= {(image.engine, image.identity) for image in found}
            for image in found:
                lacking = [name for name in recipe.names if name not in image.names]
                lacks = f"; is not {', '.join(lacking)}" if lacking else ""
                yield f"  {engine.name:<8}  {_state(image)}{lacks}"
            if not found:
                yield f"  {engine.name:<8}  {'cannot be reached' if engine.reason else 'not built'}"
    others = [image for image in images if (image.engine, image.identity) not in shown]
    if others:
        yield "other images with corral's labels or name:"
    for image in others:
        yield f"  {image.engine:<8}  {', '.join(image.names) or image.identity[:19]}: {_state(image)}"
    if not engines:
        yield "no container engine is installed (podman or docker)"
    for engine in engines:
        if engine.reason:
            yield f"{engine.name} cannot be reached"
            yield f"  because: {engine.reason}"
            yield f"  fix: {engine.fix}"


def _state(image: Image) -> str:
    about = f"{approximate(image.unpacked_bytes)}, built {image.created[:10]}"
    judgement = {True: "up to date", False: "out of date", None: "not made by corral"}[_is_current(image)]
    return f"{about}, {judgement}"


def _is_current(image: Image) -> bool | None:
    """Whether the recipe is still the one that it was built from; None if it was not built by corral."""
    variant = image.label(LABEL_VARIANT)
    if not variant:
        return None
    return variant in VARIANTS and image.label(LABEL_RECIPE) == load_recipe(variant).digest()


def inspect(name: str, *, engine: str, verbose: bool) -> Answer:
    """What is in an image, or in an archive that `build --output` has written."""
    with _uninterrupted(f"reading {name}"):
        if os.path.isfile(name) and not engine:
            contents = read_archive(name)
            value = {"file": os.path.abspath(name), "contents": _contents_json(contents)}
            return 0, [name, *_render_contents(contents, verbose=verbose)], value
        known = name in VARIANTS or name in ALIASES
        holder, image = _find(f"{REPOSITORY}:{name}" if known else name, engine)
        with scratch_directory() as scratch:
            contents = holder.read_image(image, scratch.path)
    value = {"image": _image_json(image), "contents": _contents_json(contents)}
    return 0, [*_render_image(image), *_render_contents(contents, verbose=verbose)], value


def _find(name: str, wanted: str) -> tuple[Engine, Image]:
    engines = choose_engines(wanted)
    for engine in engines:
        image = engine.find_image(name)
        if image is not None:
            return engine, image
    tag = name.removeprefix(f"{REPOSITORY}:")
    is_ours = tag != name and tag in {*VARIANTS, *ALIASES}
    raise PolicyError(
        "image-unknown",
        f"there is no image {name!r}",
        why=f"{' and '.join(engine.name for engine in engines)} does not have it",
        fix=f"corral image build {canonical_variant(tag)}" if is_ours else "see `corral image list`",
    )


def _render_image(image: Image) -> Iterator[str]:
    yield f"{', '.join(image.names) or image.identity}: in {image.engine}"
    yield f"  state     {_state(image)}"
    yield f"  identity  {image.identity}"
    if image.digest:
        yield f"  digest    {image.digest}"
    for name, value in image.labels:
        yield f"  label     {name}={value}"
    for variable in image.environment:
        yield f"  variable  {variable}"
    yield f"  command   {' '.join(image.command)}, in {image.directory or '/'}, as {image.user or 'root'}"


def _render_contents(contents: Contents, *, verbose: bool) -> Iterator[str]:
    yield f"  release   {contents.release or 'not known'}"
    yield f"  size      {approximate(contents.size_bytes)} in {contents.files} files"
    yield f"  set-id    {', '.join(contents.set_id) or 'no program changes its user or group'}"
    if contents.privileged:
        yield f"  capable   {', '.join(contents.privileged)}"
    yield f"  password  {', '.join(contents.open_accounts) or 'no user has one, or can do without'}"
    for fault in contents.faults():
        yield f"  warning   {fault}"
    if contents.recipe:
        asked = [line.split()[1] for line in contents.recipe.splitlines() if line.startswith("package ")]
        yield from _wrapped("  recipe    ", asked)
    if verbose:
        yield from (f"  package   {package.name} {package.version}" for package in contents.packages)
    else:
        yield f"  packages  {len(contents.packages)}; -v lists them with their versions"


def _wrapped(label: str, words: Iterable[str]) -> list[str]:
    import textwrap

    return textwrap.wrap(
        label + ", ".join(words), 90, subsequent_indent=" " * len(label), break_on_hyphens=False
    )


def _recipe_json(recipe: Recipe) -> dict[str, Any]:
    return {
        "variant": recipe.variant,
        "names": list(recipe.names),
        "description": recipe.description,
        "packages": list(recipe.packages),
        "recipe": recipe.digest(),
    }


def _image_json(image: Image) -> dict[str, Any]:
    return {
        "engine": image.engine,
        "id": image.identity,
        "names": list(image.names),
        "variant": image.label(LABEL_VARIANT) or None,
        "version": image.label(LABEL_VERSION) or None,
        "recipe": image.label(LABEL_RECIPE) or None,
        "up_to_date": _is_current(image),
        "created": image.created,
        "size_bytes": image.unpacked_bytes,
        "digest": image.digest or None,
        "labels": dict(image.labels),
        "environment": list(image.environment),
        "command": list(image.command),
        "directory": image.directory,
        "user": image.user,
    }


def _contents_json(contents: Contents) -> dict[str, Any]:
    return {
        "release": contents.release,
        "recipe": contents.recipe,
        "packages": {package.name: package.version for package in contents.packages},
        "files": contents.files,
        "size_bytes": contents.size_bytes,
        "set_id": list(contents.set_id),
        "privileged": list(contents.privileged),
        "open_accounts": list(contents.open_accounts),
        "faults": list(contents.faults()),
    }
