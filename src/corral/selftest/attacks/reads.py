"""Attacks that read what they must not: judged by a secret that was never given to them."""

from __future__ import annotations

import os
from functools import partial

from corral.model.feature import Feature
from corral.selftest.judge import leaked
from corral.selftest.probe import EscapeProbe, Language, NotHereError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.stage import Stage

_RACE = """
import threading
libc.renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p] * 2 + [ctypes.c_uint]
open('ok', 'w').write('-'); os.symlink(OUT + '/secret', 'bad')
stop = time.monotonic() + 1.0
def flip():
    while time.monotonic() < stop: libc.renameat2(-100, b'ok', -100, b'bad', 2)
threading.Thread(target=flip, daemon=True).start()
while time.monotonic() < stop:
    try: text = open('ok').read()
    except OSError: continue
    if len(text) > 1: print(text); break
"""


def _link_secret(stage: Stage) -> None:
    os.symlink(stage.secret, stage.at("out/link"))


def _attribute_secret(stage: Stage) -> None:
    try:
        os.setxattr(stage.at("out/secret"), "user.corral", stage.secret.encode())
    except OSError as problem:
        raise NotHereError(f"no extended attributes here: {problem.strerror}") from problem


def _named_secret(stage: Stage) -> None:
    stage.write(f"out/drawer/{stage.secret}")


def _denied_file(stage: Stage) -> None:
    stage.write("ws/keys/private", stage.secret)


def _workspace_on_path(stage: Stage) -> None:
    usual = os.environ.get("PATH", "/usr/bin:/bin")
    stage.environment["PATH"] = f"{usual}:{stage.at('ws/node_modules/.bin')}"


def _linked_tool(stage: Stage) -> None:
    stage.write("home/.local/bin/other")
    os.symlink(stage.at("ws/bin/tool"), stage.at("home/.local/bin/tool"))
    usual = os.environ.get("PATH", "/usr/bin:/bin")
    stage.environment["PATH"] = f"{usual}:{stage.at('home/.local/bin')}"


def _shared_places(stage: Stage) -> None:
    stage.write("ws/gift", stage.secret)
    for directory in ("/tmp", "/var/tmp", "/dev/shm"):
        stage.on_leaving(partial(_unlink, f"{directory}/mark-{stage.token}"))


def _unlink(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


def _shadow(stage: Stage) -> None:
    """Only the fact counts, not the content: the secret is printed if the file could be opened."""
    if not os.access("/etc/shadow", os.R_OK):
        raise NotHereError("/etc/shadow cannot be read by this user")
    stage.arguments.append(stage.secret)


PROBES = (
    EscapeProbe(
        "read-ssh-key",
        "Read the private SSH key in the home directory.",
        Feature.FS_READ,
        "SECURITY P2",
        'cat "$HOUSE/.ssh/id_ed25519"',
        leaked(),
    ),
    EscapeProbe(
        "read-dotdot",
        "Read a file outside of the workspace through `..`.",
        Feature.FS_READ,
        "A2",
        'cat "$WS/../out/secret" ../out/secret',
        leaked(),
    ),
    EscapeProbe(
        "read-proc-root",
        "Read a file outside by the detour of /proc/*/root and /proc/*/cwd.",
        Feature.FS_READ,
        "A4, Ona",
        'cat "/proc/self/root$OUT/secret" /proc/self/cwd/../out/secret "/proc/1/root$OUT/secret"'
        ' "/proc/$PPID/root$OUT/secret" "/proc/$PPID/cwd/../out/secret"',
        leaked(),
    ),
    EscapeProbe(
        "read-exchange-race",
        "Swap a harmless file with a link to the secret, again and again, while another thread opens it.",
        Feature.FS_READ,
        "A12, sandlock #27",
        _RACE,
        leaked(),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "list-outside",
        "List a directory outside of the workspace.",
        Feature.FS_READ,
        "corral",
        'ls "$OUT/drawer"',
        leaked(),
        _named_secret,
    ),
    EscapeProbe(
        "read-link-text",
        "Read the text of a symbolic link outside, which Landlock does not govern.",
        Feature.FS_READ,
        "corral",
        'readlink "$OUT/link"',
        leaked(),
        _link_secret,
        limits=(("landlock", "link texts outside are documented as not covered"),),
    ),
    EscapeProbe(
        "read-attribute",
        "Read an extended attribute of a file outside, which Landlock does not govern.",
        Feature.FS_READ,
        "corral",
        "print(os.getxattr(OUT + '/secret', 'user.corral').decode())\n",
        leaked(),
        _attribute_secret,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "read-shadow",
        "Open /etc/shadow as root.",
        Feature.FS_READ,
        "corral",
        "open('/etc/shadow').close()\nprint(MORE[0])\n",
        leaked(),
        _shadow,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "read-by-planted-interpreter",
        "Plant `.venv/bin/python` as a link into ~/.ssh; the next run takes its directory for a tool's.",
        Feature.FS_READ,
        "corral (planning/tools.py)",
        'cat "$HOUSE/.ssh/id_ed25519"',
        leaked(),
        earlier="for v in .venv venv env;"
        ' do mkdir -p $v/bin && ln -s "$HOUSE/.ssh/id_ed25519" $v/bin/python; done',
    ),
    EscapeProbe(
        "read-by-planted-tool",
        "Plant a link to ~/.ssh in a directory of the workspace that is on the caller's PATH.",
        Feature.FS_READ,
        "corral (planning/tools.py)",
        'cat "$HOUSE/.ssh/id_ed25519"',
        leaked(),
        _workspace_on_path,
        earlier='mkdir -p node_modules/.bin && ln -s "$HOUSE/.ssh/id_ed25519" node_modules/.bin/tsc',
    ),
    EscapeProbe(
        "read-by-planted-path-entry",
        "Make a PATH entry in the workspace a link to ~/.ssh; the next run takes it for a program directory.",
        Feature.FS_READ,
        "corral (planning/tools.py)",
        'cat "$HOUSE/.ssh/id_ed25519"',
        leaked(),
        _workspace_on_path,
        earlier='mkdir -p node_modules && ln -s "$HOUSE/.ssh" node_modules/.bin',
    ),
    EscapeProbe(
        "read-through-linked-tool",
        "A link in ~/.local/bin leads to a tool in the workspace: make that one a link to the SSH key.",
        Feature.FS_READ,
        "corral (planning/tools.py)",
        'cat "$HOUSE/.ssh/id_ed25519"',
        leaked(),
        _linked_tool,
        earlier='mkdir -p bin && ln -s "$HOUSE/.ssh/id_ed25519" bin/tool',
    ),
    EscapeProbe(
        "read-by-handle",
        "Open a file by its number with open_by_handle_at (Shocker).",
        Feature.FS_READ,
        "CVE-2014-5277 class",
        """
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("kind", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]
handle, mount = Handle(128), ctypes.c_int()
path = (OUT + '/secret').encode()
if libc.name_to_handle_at(-100, path, ctypes.byref(handle), ctypes.byref(mount), 0) == 0:
    anchor = os.open(WS, os.O_RDONLY)
    descriptor = libc.open_by_handle_at(anchor, ctypes.byref(handle), os.O_RDONLY)
    if descriptor >= 0: print(os.read(descriptor, 100).decode())
""",
        leaked(),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "read-denied-file",
        "Read a denied file inside the workspace under other names: renamed directory, hard link, /proc.",
        Feature.FS_DENY,
        "A9, infinitsec",
        "cat keys/private; ln keys/private h && cat h; mv keys k2; cat k2/private; cp -r k2 k3;"
        " cat k3/private;"
        ' cat "/proc/self/root$WS/keys/private"',
        leaked(),
        _denied_file,
        capabilities=("filesystem:deny:${workspace}/keys/private",),
    ),
    EscapeProbe(
        "read-denied-beside-repository",
        "Make a repository beside a denied file: protecting it mounts the directory again, over the denial.",
        Feature.FS_DENY,
        "corral (backends/native.py)",
        "cat keys/private",
        leaked(),
        _denied_file,
        earlier="mkdir -p keys/.git",
        capabilities=("filesystem:deny:${workspace}/keys/private",),
    ),
    EscapeProbe(
        "read-other-run",
        "Look for what an earlier run has left in /tmp, /var/tmp, /dev/shm and the home directory.",
        Feature.FS_PRIVATE,
        "A17, bkn-foundry #451",
        'cat "$TMPDIR/mark-$TOKEN" "$HOME/mark-$TOKEN"; for d in /tmp /var/tmp /dev/shm;'
        " do cat $d/mark-$TOKEN; done",
        leaked(),
        _shared_places,
        earlier='for d in "$TMPDIR" "$HOME" /tmp /var/tmp /dev/shm; do cp gift "$d/mark-$TOKEN"; done;'
        " rm gift",
    ),
)
