"""Known holes of the programs that backends use: which version fixes each, and whether it affects corral.

A hole that corral's way of using the program falls into makes a version unusable: the probe refuses it. The
others are notes, which `corral doctor` prints. A version number says nothing about what a distribution has
fixed without changing it; the notes say so.
"""

from __future__ import annotations

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.probe import Probe

Version = tuple[int, ...]


class Hole(Record):
    tool: str  # the name of a backend, or of the program beneath it
    fixed: tuple[str, ...]  # the first version without it, of each branch that was fixed
    what: str
    reference: str
    affects: bool  # it affects corral's way of using the tool
    why: str  # or why not
    since: str = ""  # versions before this one did not have it yet

    def is_in(self, version: str) -> bool:
        """Whether a version has the hole. One that cannot be read has it."""
        found = read_version(version)
        if not found:
            return True
        if self.since and found < read_version(self.since):
            return False
        fixed = sorted(map(read_version, self.fixed))
        return found < fixed[-1] and not any(found >= each and found[:2] == each[:2] for each in fixed)

    def render(self) -> str:
        """One line for a person."""
        effect = "corral is affected" if self.affects else "corral is not affected"
        return f"{self.reference}: {self.what}; fixed in {' and '.join(self.fixed)}; {effect}: {self.why}"


HOLES = (
    Hole(
        "bubblewrap",
        ("0.12.0",),
        "a link in a writable directory is followed when a mount point is created below it",
        "CVE-2026-87766",
        False,
        "it never lets bwrap create a mount point below a writable path",
    ),
    Hole(
        "bubblewrap",
        ("0.11.2",),
        "a process that traces a set-user-id bwrap can make overlay mounts with its rights",
        "CVE-2026-41163",
        False,
        "commands inside can neither trace what is outside nor gain rights from a set-user-id program",
        since="0.11.0",
    ),
    Hole(
        "firejail",
        ("0.9.70",),
        "`firejail --join` of a forged sandbox gives a local user the rights of root",
        "CVE-2022-31214",
        False,
        "it never joins, and a set-user-id program gives commands inside no rights",
    ),
    Hole(
        "firejail",
        ("0.9.64.4",),
        "the overlay file system gives a local user the rights of root",
        "CVE-2021-26910",
        False,
        "it never asks for an overlay, and a set-user-id program gives commands inside no rights",
    ),
    Hole(
        "runc",
        ("1.0.1",),  # the candidates of 1.0.0 look like it
        "a mount point that is swapped at the right moment leads out of the container",
        "CVE-2021-30465",
        True,
        "it mounts inside paths that other runs can write",
    ),
    Hole(
        "runc",
        ("1.1.12",),
        "a working directory like /proc/self/fd/7 leads out of the container",
        "CVE-2024-21626",
        False,
        "it names the working directory itself, and its launcher closes what was left open",
    ),
    Hole(
        "runc",
        ("1.2.8", "1.3.3"),
        "the masks over /proc, and writes to /proc, can be redirected while containers start",
        "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881",
        False,
        "they need mounts, devices or a terminal of the attacker's choice, which corral never offers",
    ),
    Hole(
        "runc",
        ("1.3.6", "1.4.3"),
        "an image whose /dev is a link can create some links on the host, or remove files called ptmx",
        "CVE-2026-41579",
        False,
        "it does not work with docker, and with podman it needs an image that only you can choose",
    ),
    Hole(
        "lima",
        ("2.1.3",),
        "any user of a QEMU machine can become root through the socket of the guest agent",
        "CVE-2026-53657",
        False,
        "the host is protected by the machine itself, and corral relies on no user inside it",
    ),
)


def find_holes(tool: str, version: str) -> tuple[Hole, ...]:
    """The known holes of one version of a program."""
    return tuple(hole for hole in HOLES if hole.tool == tool and hole.is_in(version))


def known_holes(probe: Probe) -> tuple[Hole, ...]:
    """Those of the program that a backend has found, and of the runtime beneath it."""
    runtime, _, version = probe.detail("runtime").partition(" ")
    pairs = ((probe.backend, probe.version), (runtime, version))
    return tuple(hole for tool, found in pairs if found for hole in find_holes(tool, found))


def find_gate(tool: str, version: str) -> Hole | None:
    """The hole because of which a version must not be used; None if there is none."""
    return next((hole for hole in find_holes(tool, version) if hole.affects), None)


def read_version(text: str) -> Version:
    """The first dotted number of a text, such as `docker version 28.1.1-ce`; empty if there is none."""
    for word in text.replace(",", " ").split():
        parts = []
        for part in word.lstrip("v").split("."):
            digits = part[: len(part) - len(part.lstrip("0123456789"))]
            if not digits:
                break
            parts.append(int(digits))
            if digits != part:
                break
        if len(parts) > 1:
            return tuple(parts)
    return ()
