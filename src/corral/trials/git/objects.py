"""Bring new objects over: through a directory of corral's own, where git checks them.

TRUST: what lies in the layer is read as objects and nothing else: no index of a pack, no alternates, no
graph, no graft. Git packs what the new references need (`incoming`). That pack is read again in a second
directory that has nothing but the host's objects besides (`checked`): there the name of an object is the
hash of its content, each is well-formed, and nothing that is needed may be missing. Only then is it given to
the host's repository, by git.
"""

from __future__ import annotations

import os

from corral.git_formats.refs import is_object_id
from corral.trials.copying import copy_content
from corral.trials.git.program import GitFailed
from corral.trials.git.state import read_state
from corral.trials.git.view import open_host, open_inside
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from corral.trials.git.program import GitProgram
    from corral.trials.git.view import GitView
    from corral.trials.record import TrialRecord

_NAME = "import"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FORMATS = {20: "sha1", 32: "sha256"}
#: As `git fetch`: fewer objects become files of their own.
_UNPACK_BELOW = 100


def import_objects(
    record: TrialRecord, repository: str, tips: Sequence[str], hash_length: int, git: GitProgram
) -> None:
    """Have the host's repository hold these objects, and all that they need. Raises GitFailed, OSError."""
    if not tips:
        return
    remove_tree(record.directory, _NAME)
    try:
        with open_inside(record, repository) as inside, open_host(record, repository) as host:
            objects = os.open("objects", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=host.host)
            try:
                importer = _Importer(os.path.join(record.directory, _NAME), git, hash_length, objects)
                importer.run(inside, tips, _known(host), _shallow(host))
            finally:
                os.close(objects)
    finally:
        remove_tree(record.directory, _NAME)


def _known(host: GitView) -> list[str]:
    state = read_state(host)
    values = {*state.refs.values(), state.head, *(entry.new for entry in state.stash)}
    return sorted(filter(is_object_id, values))


def _shallow(host: GitView) -> bytes:
    return host.read("shallow", 64 << 20) or b""


class _Importer:
    def __init__(self, place: str, git: GitProgram, hash_length: int, objects: int) -> None:
        self._git, self._objects, self._hash_length = git, objects, hash_length
        self._incoming, self._checked = os.path.join(place, "incoming"), os.path.join(place, "checked")
        self._pack = os.path.join(place, "pack")
        os.mkdir(place, 0o700)

    def run(self, inside: GitView, tips: Sequence[str], known: Sequence[str], shallow: bytes) -> None:
        for directory in (self._incoming, self._checked):
            self._make(directory, shallow)
        self._copy(inside)
        names = "".join(f"{name}\n" for name in (*tips, *(f"^{each}" for each in known))).encode()
        with open(self._pack, "w+b") as pack:
            arguments = ("pack-objects", "--revs", "--stdout", "-q", "--window=0")
            self._run(self._incoming, arguments, words=names, target=pack.fileno())
            count = int.from_bytes(os.pread(pack.fileno(), 4, 8), "big")
            if count:
                pack.seek(0)
                self._run(self._checked, ("index-pack", "--strict", "--stdin"), source=pack.fileno())
            self._run(self._checked, ("rev-list", "--objects", "--stdin", "--quiet"), words=names)
            if count:
                self._give(pack.fileno(), count)

    def _make(self, directory: str, shallow: bytes) -> None:
        """TRUST: no template: what the system has there would be copied."""
        os.mkdir(directory, 0o700)
        form = f"--object-format={_FORMATS[self._hash_length]}"
        self._git.run(directory, ("init", "-q", "--bare", "--template=", form))
        if shallow:
            with open(os.path.join(directory, "shallow"), "wb") as file:
                file.write(shallow)

    def _run(
        self,
        directory: str,
        arguments: Sequence[str],
        *,
        words: bytes = b"",
        source: int = -1,
        target: int = -1,
    ) -> bytes:
        more = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f"/proc/self/fd/{self._objects}"}
        return self._git.run(
            directory, arguments, words=words, source=source, target=target, more=more, kept=(self._objects,)
        )

    def _give(self, pack: int, count: int) -> None:
        os.lseek(pack, 0, os.SEEK_SET)
        more = {"GIT_OBJECT_DIRECTORY": f"/proc/self/fd/{self._objects}"}
        arguments = ("unpack-objects", "-q") if count < _UNPACK_BELOW else ("index-pack", "--stdin")
        self._git.run(self._checked, arguments, source=pack, more=more, kept=(self._objects,))

    def _copy(self, inside: GitView) -> None:
        with inside.enter("objects") as objects, objects.only_layer() as layer:
            for path, directory, name in _object_files(layer, self._hash_length * 2):
                target = os.path.join(self._incoming, "objects", path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _copy_file(directory, name, target)
                if path.startswith("pack/"):
                    self._run(self._incoming, ("index-pack", target))


def _object_files(layer: GitView, length: int) -> Iterator[tuple[str, GitView, str]]:
    """What looks like objects and packs, by the names that git gives them."""
    for name in layer.names():
        if name != "pack" and not (len(name) == 2 and is_object_id(name.ljust(40, "0"))):
            continue
        for path, directory, file in layer.files(name):
            if path != f"{name}/{file}":
                continue
            stem = file.removeprefix("pack-").removesuffix(".pack")
            is_pack = file == f"pack-{stem}.pack" and is_object_id(stem)
            if is_pack if name == "pack" else len(name + file) == length and is_object_id(name + file):
                yield path, directory, file


def _copy_file(directory: GitView, name: str, path: str) -> None:
    source = directory.open(name)
    try:
        target = os.open(path, _NEW, 0o600)
        try:
            copy_content(source, target, os.fstat(source).st_size)
        finally:
            os.close(target)
    finally:
        os.close(source)


__all__ = ["GitFailed", "import_objects"]
