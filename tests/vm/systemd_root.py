"""The guest's root file system: Debian's own packages of systemd and Python, unpacked, and a job to do."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from kernel import Unprepared

from corral.host.real import RealHost

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGES = (
    *("base-files", "bash", "coreutils", "dbus", "dbus-user-session", "libpam-systemd", "login", "mount"),
    *("python3", "systemd", "systemd-sysv", "util-linux"),
)
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
USERS = ("root", "tester")
_LEFT_OUT = ("doc", "info", "locale", "man", "perl", "zoneinfo")  # of /usr/share
#: The scripts of the packages, which would have made users and the like, are not run.
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nmessagebus:x:101:101::/nonexistent:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\ntester:x:1000:1000::/tmp:/bin/bash\n",
    "etc/group": "root:x:0:\ntty:x:5:\nmessagebus:x:101:\nnogroup:x:65534:\ntester:x:1000:\n",
    "etc/shadow": "root:*:19700:0:99999:7:::\ntester:*:19700:0:99999:7:::\n",
    "etc/hostname": "corral-vm\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\n",
    "etc/pam.d/other": "auth required pam_permit.so\naccount required pam_permit.so\n"
    "password required pam_permit.so\nsession required pam_permit.so\n",
    "etc/pam.d/systemd-user": "account required pam_permit.so\nsession required pam_systemd.so\n",
    "etc/pam.d/login": "account required pam_permit.so\nsession required pam_systemd.so\n",
    "var/lib/systemd/linger/tester": "",  # his manager is there from the start
    "etc/systemd/system/check.target": "[Unit]\nWants=check@root.service check@tester.service end.service\n",
    "etc/systemd/system/end.service": "[Unit]\nAfter=check@root.service check@tester.service\n"
    "SuccessAction=poweroff-force\n[Service]\nType=oneshot\n"
    "ExecStart=/usr/bin/journalctl --boot --no-pager --lines=60 --output=cat\n"
    "StandardOutput=file:/dev/ttyS0\n",
    # PAMName: a session of its own, in a scope that the user may not change, as after a login.
    "etc/systemd/system/check@.service": "[Unit]\nWants=dbus.service systemd-logind.service\n"
    "After=dbus.service systemd-logind.service systemd-user-sessions.service\n"
    "[Service]\nType=oneshot\nUser=%i\nPAMName=login\nEnvironment=PYTHONPATH=/src PYTHONDONTWRITEBYTECODE=1\n"
    "ExecStart=/usr/bin/python3 -S /check.py\nTimeoutStartSec=100\n"
    "StandardOutput=file:/dev/ttyS0\nStandardError=file:/dev/ttyS0\n",
}


def build_image(cache: Path, place: Path, suite: str) -> None:
    """Write the image anew, of that release of Debian; packages that were unpacked before are used again."""
    tree = _unpacked(cache, suite)
    for name, text in _FILES.items():
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # it may be a link
        file.write_text(text)
    shutil.rmtree(tree / "src", ignore_errors=True)
    unwanted = shutil.ignore_patterns("__pycache__", "bin")
    shutil.copytree(ROOT / "src/corral", tree / "src/corral", ignore=unwanted)
    (tree / "src/corral/bin").mkdir()
    shutil.copy(_launcher(), tree / "src/corral/bin/corral-launch")
    shutil.copy(HERE / "systemd_check.py", tree / "check.py")
    place.unlink(missing_ok=True)
    uncompressed = ("-noI", "-noD", "-noF", "-noX", "-no-duplicates", "-no-xattrs")
    _call("mksquashfs", str(tree), str(place), "-quiet", "-no-progress", "-all-root", *uncompressed)


def _launcher() -> str:
    """The one that is installed here; it is static, and works there as well."""
    launcher, reason = RealHost().launcher()
    if not launcher:
        raise Unprepared(reason)
    return launcher


def _unpacked(cache: Path, suite: str) -> Path:
    """The directory into which the packages and all that they need are unpacked."""
    options = _apt_options(cache / f"apt-{suite}", suite)
    simulated = _call("apt-get", *options, "install", "--simulate", "--no-install-recommends", *PACKAGES)
    lines = sorted({line for line in simulated.splitlines() if line.startswith("Inst ")})
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    place = cache / f"systemd-{suite}-{digest}"
    if place.exists():
        return place
    partial = cache / "systemd-partial"
    shutil.rmtree(partial, ignore_errors=True)
    tree = partial / "tree"
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    _call("apt-get", *options, "download", "-qq", *(line.split()[1] for line in lines), cwd=partial)
    for package in sorted(partial.glob("*.deb")):
        content = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
        # `dpkg -x` would put a directory in the place of each link.
        _call("tar", "-x", "--keep-directory-symlink", "-C", str(tree), stdin=content.stdout)
    for name in _LEFT_OUT:
        shutil.rmtree(tree / "usr/share" / name, ignore_errors=True)
    tree.rename(place)
    shutil.rmtree(partial)
    return place


def _apt_options(state: Path, suite: str) -> list[str]:
    """Make apt look at that release alone, and at a machine on which nothing is installed."""
    options = {
        "Dir::Etc::sourcelist": f"{state}/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": f"{state}/lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": f"{state}/cache",
        "APT::Sandbox::User": "root",
    }
    arguments = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    if not state.exists():
        partial = state.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for name in ("lists/partial", "cache/archives/partial"):
            (partial / name).mkdir(parents=True)
        (partial / "sources.list").write_text(
            f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {suite} main\n"
        )
        _call("apt-get", *(word.replace(str(state), str(partial)) for word in arguments), "update", "-qq")
        partial.rename(state)
    return arguments


def _call(*command: str, cwd: Path | None = None, stdin: bytes | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise Unprepared(f"there is no {command[0]}: run `make packages` as root, on Debian")
    done = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, check=False, timeout=300)
    if done.returncode:
        raise Unprepared(f"`{command[0]}` failed: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout.decode(errors="replace")
