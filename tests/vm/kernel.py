"""The guest's kernel: Debian's cloud kernel, unpacked from its package and never installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = "linux-image-cloud-amd64"
RELEASE = "6.1."  # older than what Landlock needs to stand alone: that is why it is tested
MODULES = ("virtio_mmio", "virtio_blk", "virtio_console", "virtio-rng", "squashfs")


class Unprepared(Exception):
    """The virtual machine cannot be made here; the message says why."""


def fetch_kernel(cache: Path) -> Path:
    """The directory into which the kernel's package is unpacked; it is downloaded if it is not there."""
    for known in cache.glob(f"linux-image-{RELEASE}*"):
        return known
    partial = cache / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    package = _download(partial)
    (archive,) = partial.glob("*.deb")
    _call("dpkg", "-x", str(archive), str(partial / "tree"))
    place = cache / package
    (partial / "tree").rename(place)
    shutil.rmtree(partial)
    return place


def boot_file(kernel: Path) -> Path:
    """The compressed kernel itself."""
    (found,) = (kernel / "boot").glob("vmlinuz-*")
    return found


def build_initramfs(
    kernel: Path, init: Path, job: Path, place: Path, *, modules: tuple[str, ...] = MODULES
) -> None:
    """An archive with busybox, the modules in the order of their needs, and what is to be done."""
    tree = place.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("bin", "dev", "image", "modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy(str(shutil.which("busybox")), tree / "bin/busybox")
    shutil.copy(init, tree / "init")
    shutil.copy(job, tree / "job")
    (tree / "init").chmod(0o755)
    order = list(dict.fromkeys(_with_needs(kernel, modules)))
    for module in order:
        shutil.copy(module, tree / "modules")
    (tree / "modules/order").write_text("\n".join(module.name for module in order))
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    archive = ["busybox", "cpio", "-o", "-H", "newc"]
    with place.open("wb") as file:
        subprocess.run(
            archive, cwd=tree, input=names.encode(), stdout=file, stderr=subprocess.DEVNULL, check=True
        )
    shutil.rmtree(tree)


def _with_needs(kernel: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Module files, each after those that it says it needs."""
    for name in names:
        pattern = re.sub("[-_]", "[-_]", name)
        (module,) = kernel.glob(f"lib/modules/*/kernel/**/{pattern}.ko")
        needs = re.search(rb"\0depends=([^\0]*)\0", module.read_bytes())
        yield from _with_needs(kernel, tuple(filter(None, needs[1].decode().split(",")))) if needs else ()
        yield module


def _download(place: Path) -> str:
    """The name of the package that is the kernel itself; its archive lies in the place then."""
    try:
        return _download_listed(place)
    except Unprepared:
        if os.geteuid() != 0:
            raise
    _call("apt-get", "update", "-qq")  # lists that are missing, or older than what the archive has
    return _download_listed(place)


def _download_listed(place: Path) -> str:
    found = re.search(r"Depends: (linux-image-(\S+))", _call("apt-cache", "depends", PACKAGE))
    if found is None:
        raise Unprepared(f"apt knows no package {PACKAGE}: run `apt-get update`, on Debian 12")
    if not found[2].startswith(RELEASE):
        raise Unprepared(f"{PACKAGE} is Linux {found[2]} here, and the tests are about 6.1 (Debian 12)")
    _call("apt-get", "download", "-qq", found[1], cwd=place)
    return found[1]


def _call(*command: str, cwd: Path | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise Unprepared(f"there is no {command[0]}: the kernel is taken from a Debian package")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise Unprepared(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
