"""Attacks on files outside of the workspace: writing, removing, linking, renaming."""

from __future__ import annotations

import os

from corral.model.feature import Feature
from corral.selftest.judge import emptied, vanished, written
from corral.selftest.probe import EscapeProbe, Language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.stage import Stage


def _precious_home(stage: Stage) -> None:
    stage.write("home/Documents/thesis.txt", "years of work")


def _granted_for_reading(stage: Stage) -> None:
    stage.write("out/granted/file", "read-only text")


def _denied_file(stage: Stage) -> None:
    stage.write("ws/keys/private", stage.secret)


def _read_only_part(stage: Stage) -> None:
    stage.write("ws/keys/deep/file", "as it was")


def _link_to_outside(stage: Stage) -> None:
    os.symlink(stage.at("out"), stage.at("ws/vendor"))


PROBES = (
    EscapeProbe(
        "write-absolute",
        "Write a file outside of the workspace by its absolute path.",
        Feature.FS_WRITE,
        "A2",
        'echo "$TOKEN" > "$OUT/pwn"',
        written("out/pwn"),
    ),
    EscapeProbe(
        "write-dotdot",
        "Climb out of the workspace with `..` and write there.",
        Feature.FS_WRITE,
        "A2, monty PR #767",
        'echo "$TOKEN" > "$WS/../out/pwn"; echo "$TOKEN" > ../out/pwn',
        written("out/pwn"),
    ),
    EscapeProbe(
        "write-through-new-symlink",
        "Make a symbolic link to a directory outside and write through it.",
        Feature.FS_WRITE,
        "A1, CVE-2026-39861",
        'ln -s "$OUT" l && echo "$TOKEN" > l/pwn',
        written("out/pwn"),
    ),
    EscapeProbe(
        "write-through-old-symlink",
        "Write through a symbolic link that lay in the workspace before the run.",
        Feature.FS_WRITE,
        "A1, CVE-2026-25724",
        'echo "$TOKEN" > vendor/pwn',
        written("out/pwn"),
        _link_to_outside,
    ),
    EscapeProbe(
        "hard-link-outside",
        "Hard-link a file from outside into the workspace and write to the link.",
        Feature.FS_WRITE,
        "A3, RUSTSEC-2026-0188",
        "os.link(OUT + '/secret', WS + '/h')\nopen(WS + '/h', 'a').write(TOKEN)\n",
        written("out/secret"),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "rename-out",
        "Move a file out of the workspace by rename.",
        Feature.FS_WRITE,
        "A5",
        "open('f', 'w').write(TOKEN)\nos.rename('f', OUT + '/pwn')\n",
        written("out/pwn"),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "remove-home",
        "Run `rm -rf` on the home directory.",
        Feature.FS_WRITE,
        "SECURITY",
        'rm -rf "$HOUSE/Documents"',
        vanished("home/Documents/thesis.txt"),
        _precious_home,
    ),
    EscapeProbe(
        "truncate-outside",
        "Empty a file outside with truncate(2), which older Landlock does not govern.",
        Feature.FS_WRITE,
        "A14",
        "os.truncate(OUT + '/secret', 0)\n",
        emptied("out/secret"),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "open-truncate-outside",
        "Empty a file outside by opening it with O_TRUNC for reading only.",
        Feature.FS_WRITE,
        "A14",
        "os.open(OUT + '/secret', os.O_RDONLY | os.O_TRUNC)\n",
        emptied("out/secret"),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "write-proc-root",
        "Write outside by the detour of /proc/self/root and /proc/self/cwd.",
        Feature.FS_WRITE,
        "A4, Ona",
        'for r in /proc/self/root /proc/1/root /proc/$PPID/root; do echo "$TOKEN" > "$r$OUT/pwn"; done\n'
        'echo "$TOKEN" > /proc/self/cwd/../out/pwn',
        written("out/pwn"),
    ),
    EscapeProbe(
        "write-after-chroot",
        "Leave by chroot(2) and a directory that stayed open.",
        Feature.FS_WRITE,
        "corral (the classical chroot escape)",
        "os.makedirs('jail', exist_ok=True)\nd = os.open('.', os.O_RDONLY)\nos.chroot('jail')\nos.fchdir(d)\n"
        "for _ in range(64): os.chdir('..')\nos.chroot('.')\nopen(OUT + '/pwn', 'w').write(TOKEN)\n",
        written("out/pwn"),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "hard-link-read-only-to-writable",
        "Hard-link a file from a read-only grant into the writable workspace and write to it.",
        Feature.FS_WRITE,
        "RUSTSEC-2026-0188",
        "os.link(OUT + '/granted/file', WS + '/h')\nopen(WS + '/h', 'a').write(TOKEN)\n",
        written("out/granted/file"),
        _granted_for_reading,
        language=Language.PYTHON,
        capabilities=("filesystem:read:${workspace}/../out/granted",),
    ),
    EscapeProbe(
        "rename-read-only-to-writable",
        "Move a file from a read-only grant into the writable workspace.",
        Feature.FS_WRITE,
        "A5, landlock REFER",
        "os.rename(OUT + '/granted/file', WS + '/stolen')\n",
        vanished("out/granted/file"),
        _granted_for_reading,
        language=Language.PYTHON,
        capabilities=("filesystem:read:${workspace}/../out/granted",),
    ),
    EscapeProbe(
        "write-denied-path-anew",
        "Move the directory of a denied file away and make another file of that name.",
        Feature.FS_DENY,
        "corral (planning/build.py)",
        'mv keys k2; mkdir -p keys; echo "$TOKEN" > keys/private',
        written("ws/keys/private"),
        _denied_file,
        capabilities=("filesystem:deny:${workspace}/keys/private",),
    ),
    EscapeProbe(
        "write-read-only-part-anew",
        "Move the directory above a read-only part of the workspace away and make the part again.",
        Feature.FS_DENY,
        "corral (planning/build.py)",
        'mv keys k2; mkdir -p keys/deep; echo "$TOKEN" > keys/deep/file',
        written("ws/keys/deep/file"),
        _read_only_part,
        capabilities=("filesystem:read:${workspace}/keys/deep",),
    ),
    EscapeProbe(
        "write-read-only-part-beside-repository",
        "Make a repository above a read-only part: protecting it mounts the directory again, over the part.",
        Feature.FS_DENY,
        "corral (backends/native.py)",
        'echo "$TOKEN" > keys/deep/file',
        written("ws/keys/deep/file"),
        _read_only_part,
        earlier="mkdir -p keys/.git",
        capabilities=("filesystem:read:${workspace}/keys/deep",),
    ),
    EscapeProbe(
        "write-denied-path",
        "Change a denied file inside the workspace, after renaming the directory it lies in.",
        Feature.FS_DENY,
        "A5, A9",
        'mv keys k2; echo "$TOKEN" > k2/private; mkdir -p keys; mv k2/private keys/private',
        written("ws/k2/private", "ws/keys/private"),
        _denied_file,
        capabilities=("filesystem:deny:${workspace}/keys/private",),
    ),
)
