"""Things to fetch: a git repository, an index with a wheel for pip, a registry with a package for npm."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile
from functools import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: The distribution, and what its only module says.
WHEEL, SAYS = "tiny_thing", "a tiny thing"
_WHEEL_FILE = f"{WHEEL}-1.0-py3-none-any.whl"
_NPM_FILE = "tiny-thing-1.0.0.tgz"


def make_repository(folder: Path) -> Path:
    """A bare repository with one commit, ready to be served as plain files (git's older http protocol)."""
    source, bare = folder / "source", folder / "tiny.git"
    source.mkdir(parents=True)
    (source / "read.me").write_text(SAYS)
    who = ("-c", "user.name=A Person", "-c", "user.email=person@localhost")
    for command in (
        ("git", "init", "-q", "-b", "main"),
        ("git", "add", "read.me"),
        ("git", *who, "commit", "-q", "-m", "A first one"),
        ("git", "clone", "-q", "--bare", str(source), str(bare)),
        ("git", "-C", str(bare), "update-server-info"),
    ):
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(command, cwd=source, check=True, env=environment, capture_output=True)
    return bare


def make_wheel() -> bytes:
    """A wheel that holds one module, `tiny_thing`."""
    files = {
        f"{WHEEL}.py": f"SAYS = {SAYS!r}\n",
        f"{WHEEL}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {WHEEL}\nVersion: 1.0\n",
        f"{WHEEL}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = f"{WHEEL}-1.0.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(text.encode())},{len(text)}" for name, text in files.items()]
    files[record] = "\n".join([*lines, f"{record},,"]) + "\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_npm_package() -> bytes:
    """What `npm pack` would make of one small module."""
    description = json.dumps({"name": "tiny-thing", "version": "1.0.0", "main": "index.js"})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in (("package.json", description), ("index.js", f"module.exports = {SAYS!r}\n")):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


class Packages:
    """`content` for a web server: `/tiny.git`, `/simple/`, `/registry/`, and everything else greets."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    # Each is made when it is first asked for: most tests ask for none of them.

    @cached_property
    def _repository(self) -> Path:
        return make_repository(self._folder)

    @cached_property
    def _wheel(self) -> bytes:
        return make_wheel()

    @cached_property
    def _npm(self) -> bytes:
        return make_npm_package()

    def __call__(self, host: str, target: str) -> bytes | None:
        path = target.partition("?")[0]
        if path.startswith("/tiny.git/"):
            wanted = self._repository / path.removeprefix("/tiny.git/")
            inside = wanted.resolve().is_relative_to(self._repository.resolve())
            return wanted.read_bytes() if inside and wanted.is_file() else None
        if path.startswith("/simple/"):
            return self._index(path)
        if path.startswith("/registry/"):
            return self._registry(host, path)
        from support.net_web import greeting

        return greeting(host, target)

    def _index(self, path: str) -> bytes | None:
        if path == "/simple/tiny-thing/":
            digest = hashlib.sha256(self._wheel).hexdigest()
            return f'<a href="{_WHEEL_FILE}#sha256={digest}">{_WHEEL_FILE}</a>\n'.encode()
        return self._wheel if path.endswith(_WHEEL_FILE) else None

    def _registry(self, host: str, path: str) -> bytes | None:
        if path == f"/registry/tiny-thing/-/{_NPM_FILE}":
            return self._npm
        if path != "/registry/tiny-thing":
            return None
        integrity = base64.b64encode(hashlib.sha512(self._npm).digest()).decode()
        dist = {
            "tarball": f"https://{host}/registry/tiny-thing/-/{_NPM_FILE}",
            "integrity": f"sha512-{integrity}",
        }
        version = {"name": "tiny-thing", "version": "1.0.0", "main": "index.js", "dist": dist}
        return json.dumps(
            {"name": "tiny-thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        ).encode()
