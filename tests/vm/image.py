"""The guest's root file system: what the tests need of this machine, at the same paths, in one file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from io import BytesIO
from pathlib import Path

from kernel import Unprepared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
#: Packages whose programs are there in the guest.
PACKAGES = "bash busybox-static coreutils dash findutils git grep login mount passwd procps sed util-linux"
#: Files that programs look for; those that name users and hosts are the guest's own, see `_ETC`.
FILES = ("/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/login.defs", "/etc/pam.d")
LINKS = ("/bin", "/sbin", "/lib", "/lib64", "/etc/mtab")
LOCALE = "/usr/lib/locale/C.utf8"
#: Directories to mount on.
EMPTY = ("dev", "home", "mnt", "proc", "root", "run", "sys", "tmp", "var", "var/tmp")
#: Large parts that no test inside needs.
LEFT_OUT = re.compile(
    r"(^|/)(\.(?!venv)[^/]*|build|dist|test|idlelib|tkinter|lib2to3|turtledemo|ensurepip|config-3[^/]*|pip|ruff|"
    r"mypyc?|setuptools|pkg_resources|[^/]*__mypyc[^/]*\.so)$"
)
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    "tester:x:1000:1000:Tester:/home/tester:/bin/bash\n",
    "group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\ntester:x:1000:\n",
    "shadow": "root:*:19700:0:99999:7:::\ntester:*:19700:0:99999:7:::\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "hostname": "corral-vm\n",
    "resolv.conf": "",
}


def kept_paths() -> list[str]:
    """Trees that must be seen wherever they lie: the project, its environment, the interpreter."""
    interpreter = os.path.realpath(sys.base_prefix)
    return [str(ROOT), sys.prefix, *([interpreter] if interpreter != "/usr" else [])]


def build_image(place: Path) -> None:
    """Write the image anew. Everyone may read it: the tests also run as an ordinary user."""
    place.unlink(missing_ok=True)
    plain = ["-noI", "-noD", "-noF", "-noX", "-no-fragments", "-no-duplicates"]  # to unpack would take time
    with subprocess.Popen(
        [
            "mksquashfs",
            "-",
            str(place),
            "-tar",
            "-quiet",
            "-no-progress",
            "-no-xattrs",
            "-root-mode",
            "755",
            *plain,
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        with tarfile.open(fileobj=process.stdin, mode="w|", bufsize=1 << 20) as archive:
            for path in sorted(set(_files())):
                archive.add(path, recursive=False, filter=_readable)
            for name, text in _ETC.items():
                archive.addfile(_generated(f"etc/{name}", len(text)), BytesIO(text.encode()))
            for name in EMPTY:
                archive.addfile(_generated(name, None))
        _, problem = process.communicate()
    if process.returncode:
        raise Unprepared(f"mksquashfs failed: {problem.decode()[:500]}")


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """What its owner may read and execute, everyone may."""
    owner = entry.mode & 0o500
    entry.mode |= owner >> 3 | owner >> 6
    return entry


def _generated(name: str, size: int | None) -> tarfile.TarInfo:
    """The header of a file of root, or without a size of a directory."""
    entry = tarfile.TarInfo(name)
    entry.mode = 0o640 if name == "etc/shadow" else 0o644
    if size is None:
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    entry.size = size or 0
    return entry


def _files() -> Iterator[str]:
    programs = [path for path in _programs() if os.path.exists(path)]
    trees = [*map(str, _trees()), *filter(os.path.exists, FILES), LOCALE]
    inside = [path for tree in trees for path in _walk(tree)]
    needed = _libraries([*programs, *(path for path in inside if path.endswith(".so"))])
    for path in (*LINKS, *programs, *inside, *needed):
        yield from _with_links(path)


def _trees() -> Iterator[Path]:
    """Directories of Python and of the project."""
    yield ROOT
    yield Path(sys.prefix)
    yield Path(sysconfig.get_path("stdlib"))
    yield Path(sysconfig.get_path("platstdlib"))


def _programs() -> Iterator[str]:
    yield sys.executable
    for package in PACKAGES.split():
        listed = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True, check=False)
        if listed.returncode:
            raise Unprepared(f"the package {package} is not installed: run `make packages` as root")
        yield from (path for path in listed.stdout.splitlines() if re.fullmatch(r"(/usr)?/s?bin/[^/]+", path))


def _walk(top: str) -> Iterator[str]:
    yield top
    if os.path.isdir(top) and not os.path.islink(top):
        for entry in os.scandir(top):
            if (not LEFT_OUT.search(entry.path) and entry.name != "site-packages") or entry.path in sys.path:
                yield from _walk(entry.path)


def _libraries(binaries: Iterable[str]) -> list[str]:
    """Shared libraries that the dynamic linker would load."""
    listed = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False)
    return sorted(set(re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", listed.stdout, re.MULTILINE)))


def _with_links(path: str) -> Iterator[str]:
    """A path as it is without links, the directories above it, and each link on the way to it."""
    place, rest = "/", [part for part in path.split("/") if part]
    while rest:
        step = os.path.normpath(os.path.join(place, rest.pop(0)))
        if not os.path.lexists(step):
            return
        yield step
        if os.path.islink(step):
            target = os.readlink(step)
            place = "/" if target.startswith("/") else place
            rest = [part for part in target.split("/") if part] + rest
        else:
            place = step
