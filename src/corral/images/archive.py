"""What is in a root file system, as an archive or as the layers of an image, and what must not be in it."""

from __future__ import annotations

import json
import tarfile

from corral.model.errors import SetupError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

MANIFEST, RECIPE = "usr/share/corral/manifest", "usr/share/corral/recipe"
_RELEASE, _STATUS = "etc/os-release", "var/lib/dpkg/status"
_RELEASE_FILE = "usr/lib/os-release"  # the former is a link to it
_PASSWD, _SHADOW, _MACHINE = "etc/passwd", "etc/shadow", "etc/machine-id"
_READ = frozenset({MANIFEST, RECIPE, _RELEASE, _RELEASE_FILE, _STATUS, _PASSWD, _SHADOW, _MACHINE})
_MOST_BYTES = 32 * 1024 * 1024  # of a file that is read whole
_SET_ID = 0o6000
_CAPABILITY = "SCHILY.xattr.security.capability"
#: How the layers of images say that something of a lower layer is gone.
_GONE, _ALL_GONE = ".wh.", ".wh..wh..opq"


class Package(Record):
    """A package of the distribution that is installed."""

    name: str
    version: str
    architecture: str


class Contents(Record):
    """What was found in a root file system."""

    release: str  # `Debian GNU/Linux 12 (bookworm)`; empty if it does not say
    recipe: str  # the text that was built from; empty if corral did not build it
    packages: tuple[Package, ...]
    files: int
    size_bytes: int  # of all files together, unpacked
    set_id: tuple[str, ...]  # programs that change their user or group
    privileged: tuple[str, ...]  # programs with file capabilities
    open_accounts: tuple[str, ...]  # users with a password, or who need none
    has_machine_id: bool
    package_lists: tuple[str, ...]  # apt's, which only take room

    def faults(self) -> tuple[str, ...]:
        """What must not be in an image of corral's."""
        found = [
            ("set-user-id or set-group-id programs", self.set_id),
            ("programs with file capabilities", self.privileged),
            ("accounts with a password or without need of one", self.open_accounts),
            ("lists of packages", self.package_lists),
            ("a machine id", ("/etc/machine-id",) if self.has_machine_id else ()),
        ]
        return tuple(f"{what}: {', '.join(which[:5])}" for what, which in found if which)


class _Entry(Record):
    size: int
    set_id: bool
    privileged: bool


class Scan:
    """Reads archives, each on top of what the ones before have left."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._texts: dict[str, str] = {}

    def add(self, archive: tarfile.TarFile) -> None:
        """Read one archive, or one layer."""
        for member in archive:
            path = member.name.removeprefix("./").strip("/")
            directory, _, name = path.rpartition("/")
            if name == _ALL_GONE:
                self._drop(directory, keep=True)
            elif name.startswith(_GONE):
                self._drop(f"{directory}/{name.removeprefix(_GONE)}".strip("/"))
            elif member.isfile() or member.islnk():
                # A hard link is another name of a file: it has its mode, and takes no room.
                size = member.size if member.isfile() else 0
                is_set_id = bool(member.mode & _SET_ID)
                self._entries[path] = _Entry(size, is_set_id, _CAPABILITY in member.pax_headers)
                if path in _READ and member.isfile():
                    self._texts[path] = self._read(archive, member)
            else:
                self._entries.pop(path, None)

    def contents(self) -> Contents:
        """All that was found."""
        entries = self._entries
        release = self._texts.get(_RELEASE) or self._texts.get(_RELEASE_FILE, "")
        return Contents(
            release=_field(release, "PRETTY_NAME"),
            recipe=self._texts.get(RECIPE, ""),
            packages=_packages(self._texts.get(MANIFEST, ""), self._texts.get(_STATUS, "")),
            files=len(entries),
            size_bytes=sum(entry.size for entry in entries.values()),
            set_id=tuple(sorted(f"/{path}" for path, entry in entries.items() if entry.set_id)),
            privileged=tuple(sorted(f"/{path}" for path, entry in entries.items() if entry.privileged)),
            open_accounts=_open_accounts(self._texts.get(_PASSWD, ""), self._texts.get(_SHADOW, "")),
            has_machine_id=bool(self._texts.get(_MACHINE, "").strip()),
            package_lists=tuple(
                f"/{path}" for path in sorted(entries) if path.startswith("var/lib/apt/lists/")
            ),
        )

    def _drop(self, path: str, *, keep: bool = False) -> None:
        beneath = f"{path}/" if path else ""
        for known in [*self._entries]:
            if known.startswith(beneath) or (known == path and not keep):
                self._entries.pop(known)
                self._texts.pop(known, None)

    @staticmethod
    def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
        file = archive.extractfile(member)
        return file.read(_MOST_BYTES).decode("utf-8", "replace") if file is not None else ""


def read_archive(path: str) -> Contents:
    """What is in the archive of a root file system. Raises SetupError if it is none."""
    scan = Scan()
    try:
        with tarfile.open(path) as archive:
            scan.add(archive)
    except (OSError, tarfile.TarError, EOFError) as problem:
        raise _unreadable(path, problem) from problem
    return scan.contents()


def read_saved_image(file: IO[bytes], name: str) -> Contents:
    """What is in an image as `docker save` and `podman save` write it. Raises SetupError."""
    scan = Scan()
    try:
        with tarfile.open(fileobj=file) as saved:
            listing = saved.extractfile("manifest.json")
            if listing is None:
                raise tarfile.TarError("manifest.json is not a file")
            for layer in json.load(listing)[0]["Layers"]:
                with tarfile.open(fileobj=saved.extractfile(layer)) as archive:
                    scan.add(archive)
    except (OSError, tarfile.TarError, EOFError, KeyError, IndexError, TypeError, ValueError) as problem:
        raise _unreadable(name, problem) from problem
    return scan.contents()


def check_contents(contents: Contents) -> None:
    """Raise SetupError if a root file system has in it what no image of corral's may have."""
    faults = contents.faults()
    if faults:
        raise SetupError(
            "image-unsound",
            "the root file system that was built is not used",
            why="; ".join(faults),
            fix="please report this, with the output of `corral image list --json`",
        )


def _unreadable(name: str, problem: Exception) -> SetupError:
    return SetupError(
        "image-unreadable",
        f"{name} cannot be read",
        why=str(problem) or type(problem).__name__,
        fix="see that it is the archive of a root file system, or an image that is whole",
    )


def _packages(manifest: str, status: str) -> tuple[Package, ...]:
    """From corral's own list; of other images from dpkg's."""
    rows = [line.split() for line in manifest.splitlines()]
    if not rows:
        stanzas = [
            dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " ")
            for stanza in status.split("\n\n")
        ]
        rows = [
            [stanza.get("Package", ""), stanza.get("Version", ""), stanza.get("Architecture", "")]
            for stanza in stanzas
            if stanza.get("Status", "").endswith(" installed")
        ]
    return tuple(Package(*row) for row in sorted(rows) if len(row) == 3)


def _open_accounts(passwd: str, shadow: str) -> tuple[str, ...]:
    """Users whose password field is neither locked nor elsewhere (passwd(5), shadow(5))."""
    fields = [line.split(":") for text in (passwd, shadow) for line in text.splitlines() if ":" in line]
    return tuple(dict.fromkeys(row[0] for row in fields if row[1] != "x" and row[1][:1] not in {"*", "!"}))


def _field(text: str, name: str) -> str:
    for line in text.splitlines():
        if line.startswith(f"{name}="):
            return line.partition("=")[2].strip().strip("\"'")
    return ""
