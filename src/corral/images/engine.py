"""Container engines, as their users have them: which answer, which images they hold, and giving them one."""

from __future__ import annotations

import json

from corral.host.programs import find_program
from corral.images.archive import read_saved_image
from corral.images.tool import run_tool
from corral.model.errors import PolicyError, SetupError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from corral.images.archive import Contents

ENGINES = ("podman", "docker")
_FIXES = {
    "docker": "start the daemon, see that you may use its socket, or set DOCKER_HOST",
    "podman": "see what `podman info` says; CONTAINER_HOST, if it is set, must name a service that runs",
}
LABEL_VARIANT, LABEL_VERSION, LABEL_RECIPE = "corral.variant", "corral.version", "corral.recipe"
#: Bytes of all files, unpacked: engines count the archive, or parts of it.
LABEL_SIZE = "corral.size"
#: Different for each build: by it a build finds what an interrupted import has left.
LABEL_BUILD = "corral.build"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CHANGES = (f"ENV PATH={_PATH}", "ENV LANG=C.UTF-8", "WORKDIR /workspace", 'CMD ["/bin/bash"]')
_ANSWER_SECONDS = 10.0  # an engine that is alive takes some hundredths of one to say its version
_NO_ROOM = "no space left on device"


class Image(Record):
    """An image that an engine holds."""

    engine: str
    identity: str  # sha256:...
    names: tuple[str, ...]  # as corral has them: without the `localhost/` that podman puts in front
    created: str  # RFC 3339
    size_bytes: int
    digest: str  # of its manifest; empty if the engine knows none
    labels: tuple[tuple[str, str], ...]
    environment: tuple[str, ...]
    command: tuple[str, ...]
    directory: str  # where commands start
    user: str

    def label(self, name: str) -> str:
        """The value of a label; empty if it has none."""
        return dict(self.labels).get(name, "")

    @property
    def unpacked_bytes(self) -> int:
        """What all files take together, as counted by the build; otherwise what the engine says."""
        counted = self.label(LABEL_SIZE)
        return int(counted) if counted.isascii() and counted.isdigit() else self.size_bytes


class Engine(Record):
    """A container engine that is installed. Where `reason` is not empty, it does not answer."""

    name: str
    program: str
    version: str = ""
    reason: str = ""

    @property
    def fix(self) -> str:
        """What would make it answer."""
        return _FIXES[self.name] if self.reason else ""

    def images(self) -> tuple[Image, ...]:
        """Images that carry corral's label, or its name."""
        found: dict[str, None] = {}
        for condition in (f"label={LABEL_VARIANT}", "reference=corral/sandbox", "reference=*/corral/sandbox"):
            listed = self._check(["images", "--quiet", "--no-trunc", "--filter", condition])
            found |= dict.fromkeys(listed.split())
        return self._inspect(list(found)) if found else ()

    def find_image(self, name: str) -> Image | None:
        """The image of this name or identity; None if the engine has none."""
        ended = run_tool([self.program, "image", "inspect", name])
        return self._parse(ended.output)[0] if ended.status == 0 else None

    def read_image(self, image: Image, scratch: str) -> Contents:
        """What is in an image."""
        path = f"{scratch}/saved.tar"
        form = ["--format", "docker-archive"] if self.name == "podman" else []
        self._check(["image", "save", *form, "--output", path, image.identity])
        with open(path, "rb") as file:
            return read_saved_image(file, image.identity)

    def import_archive(self, path: str, names: Sequence[str], labels: Mapping[str, str]) -> Image:
        """Make an image of a root file system, under all of the names, or leave the engine as it was.

        What had these names before and was made by corral is removed, if nothing else holds it.
        """
        before = [image for image in map(self.find_image, names) if image is not None]
        changes = [*_CHANGES, *(f"LABEL {name}={value}" for name, value in labels.items())]
        try:
            arguments = [argument for change in changes for argument in ("--change", change)]
            identity = self._check(["import", *arguments, path]).split()[-1]
            for name in names:
                self._check(["tag", identity, name])
        except BaseException:
            self._forget(names, before, labels[LABEL_BUILD])
            raise
        for image in before:
            if image.label(LABEL_VARIANT) and image.identity != identity:
                self._remove_unnamed(image.identity)
        return self._inspect([identity])[0]

    def _forget(self, names: Iterable[str], before: Iterable[Image], build: str) -> None:
        """Give the names back, and remove what a failed or interrupted import has left."""
        for image in before:
            for name in image.names:
                if name in names:
                    run_tool([self.program, "tag", image.identity, name])
        condition = f"label={LABEL_BUILD}={build}"
        listed = run_tool([self.program, "images", "--quiet", "--no-trunc", "--all", "--filter", condition])
        for identity in dict.fromkeys(listed.output.split()):
            run_tool([self.program, "image", "rm", "--force", identity])

    def _remove_unnamed(self, identity: str) -> None:
        """Remove an image that has lost its names. The engine keeps one that is in use."""
        image = self.find_image(identity)
        if image is not None and not image.names:
            run_tool([self.program, "image", "rm", identity])

    def _inspect(self, identities: Sequence[str]) -> tuple[Image, ...]:
        return self._parse(self._check(["image", "inspect", *identities]))

    def _parse(self, text: str) -> tuple[Image, ...]:
        try:
            return tuple(_parse_image(self.name, found) for found in json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise SetupError(
                "image-engine-answer",
                f"what {self.name} says about an image cannot be understood",
                why=f"{type(problem).__name__}: {problem}",
                fix=f"please report this, with the output of `{self.name} version`",
            ) from problem

    def _check(self, arguments: Sequence[str]) -> str:
        """Ask the engine something. Raises SetupError with its own words."""
        ended = run_tool([self.program, *arguments])
        if ended.status == 0:
            return ended.output
        said = ended.complaint()
        if _NO_ROOM in said.lower():
            fix = f"make room where {self.name} keeps its images"
        else:
            fix = f"see what `{self.name} info` says"
        raise SetupError(
            "image-engine-failed",
            f"{self.name} {arguments[0]} failed",
            why=said,
            fix=fix,
        )


def find_engines() -> tuple[Engine, ...]:
    """The engines that are installed, each asked whether it answers."""
    programs = ((name, find_program(name) or None) for name in ENGINES)
    return tuple(_ask(name, program) for name, program in programs if program is not None)


def choose_engines(name: str = "") -> tuple[Engine, ...]:
    """The engine of this name; without one, every engine that answers. Raises PolicyError or SetupError."""
    if name and name not in ENGINES:
        raise PolicyError(
            "image-unknown-engine",
            f"there is no engine {name!r}",
            why=f"the engines are {', '.join(ENGINES)}",
            fix="choose one of them with --engine",
        )
    installed = [engine for engine in find_engines() if name in {"", engine.name}]
    if not installed:
        raise SetupError(
            "image-no-engine",
            "there is no container engine",
            why=f"{name or ' and '.join(ENGINES)} not installed",
            fix=f"apt-get install {'docker.io' if name == 'docker' else 'podman'}",
        )
    answering = tuple(engine for engine in installed if not engine.reason)
    if not answering:
        raise SetupError(
            "image-engine-unreachable",
            f"{' and '.join(engine.name for engine in installed)} cannot be reached",
            why="; ".join(f"{engine.name}: {engine.reason}" for engine in installed),
            fix=installed[0].fix,
        )
    return answering


def _ask(name: str, program: str) -> Engine:
    ended = run_tool([program, "version", "--format", "{{json .}}"], patience_seconds=_ANSWER_SECONDS)
    if ended.status != 0:
        return Engine(name, program, reason=ended.complaint(2))
    try:
        found = json.loads(ended.output)
        version = str((found.get("Server") or found.get("Client") or {}).get("Version", ""))
    except (ValueError, AttributeError):
        version = ""
    return Engine(name, program, version)


def _parse_image(engine: str, found: Mapping[str, Any]) -> Image:
    config = found.get("Config") or {}
    identity = str(found["Id"])
    return Image(
        engine=engine,
        identity=identity if ":" in identity else f"sha256:{identity}",
        names=tuple(name.removeprefix("localhost/") for name in found.get("RepoTags") or ()),
        created=str(found.get("Created", "")),
        size_bytes=int(found.get("Size", 0)),
        digest=str(found.get("Digest") or ""),
        labels=tuple(sorted((config.get("Labels") or {}).items())),
        environment=tuple(config.get("Env") or ()),
        command=tuple(config.get("Cmd") or ()),
        directory=str(config.get("WorkingDir") or ""),
        user=str(config.get("User") or ""),
    )
