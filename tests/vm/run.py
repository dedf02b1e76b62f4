"""Boot an older kernel with cgroup v2 in software emulation, and run tests in it: `make test-vm`."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from image import ROOT, build_image, kept_paths
from kernel import Unprepared, boot_file, build_initramfs, fetch_kernel

CACHE = ROOT / ".vm"
SECONDS = 600
USERS = {"root": (0, "/root"), "tester": (1000, "/home/tester")}
PYTEST = ["-m", "pytest", "-p", "no:cacheprovider", "--require", "native"]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--user", action="append", choices=USERS, help="only as this one")
    options.add_argument("arguments", nargs=argparse.REMAINDER, help="for pytest inside; or: shell")
    chosen = options.parse_args()
    users = chosen.user or list(USERS)
    try:
        began = time.monotonic()
        qemu = _prepare(_job(users, chosen.arguments))
        print(f"prepared in {time.monotonic() - began:.1f} s", flush=True)
    except Unprepared as problem:
        print(f"the virtual machine cannot be made: {problem}", file=sys.stderr)
        return 2
    return _boot(qemu, users)


def _job(users: list[str], arguments: list[str]) -> str:
    """What guest.sh has to know and to do, as shell."""
    lines = [
        f"PROJECT={shlex.quote(str(ROOT))}",
        f"KEEP={shlex.quote(' '.join(kept_paths()))}",
        "job() {",
    ]
    for user in users:
        uid, home = USERS[user]
        lines.append(f"session {user} {uid}")
        lines.append(f"as_user {user} {uid} {home} {shlex.join(_command(user, arguments))}")
    return "\n".join([*lines, "}", ""])


def _command(user: str, arguments: list[str]) -> list[str]:
    if arguments == ["shell"]:
        return ["setsid", "-c", "/bin/bash", "-i"]
    if arguments[:1] == ["exec"]:
        return arguments[1:]
    return [sys.executable, *PYTEST, *(arguments or _selection(user))]


def _selection(user: str) -> list[str]:
    lines = (HERE / "selection.txt").read_text().splitlines()
    return shlex.split(" ".join(line for line in lines if not line.startswith("#")))


def _prepare(job: str) -> list[str]:
    """Everything on disk; the command that boots it."""
    qemu = shutil.which("qemu-system-x86_64")
    if qemu is None:
        raise Unprepared("there is no qemu-system-x86_64: run `make packages` as root")
    kernel = fetch_kernel(CACHE)
    (CACHE / "job").write_text(job)
    build_initramfs(kernel, HERE / "init.sh", CACHE / "job", CACHE / "initramfs")
    build_image(CACHE / "image")
    return [
        *("setpriv", "--pdeathsig", "KILL"),  # it does not outlive this process, however that ends
        qemu,
        *("-M", "microvm,accel=tcg,rtc=on", "-cpu", "max", "-smp", "2", "-m", "1024"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", str(boot_file(kernel)), "-initrd", str(CACHE / "initramfs")),
        *("-append", "console=ttyS0 panic=-1 reboot=t quiet"),
        *("-serial", f"file:{CACHE / 'console'}"),
        *("-drive", f"id=image,file={CACHE / 'image'},format=raw,if=none,readonly=on"),
        *("-device", "virtio-blk-device,drive=image", "-device", "virtio-rng-device"),
        *("-device", "virtio-serial-device"),
        *("-chardev", "stdio,id=terminal,signal=off", "-device", "virtconsole,chardev=terminal"),
        *("-chardev", f"file,id=result,path={CACHE / 'result'}"),
        *("-device", "virtserialport,chardev=result,name=result"),
    ]


def _boot(qemu: list[str], users: list[str]) -> int:
    """Run the machine to its end and judge what it wrote; whatever is missing is a failure."""
    (CACHE / "result").write_text("")
    stdin = None if sys.stdin.isatty() else subprocess.DEVNULL
    process = subprocess.Popen(qemu, stdin=stdin)
    try:
        process.wait(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        print(f"the guest did not end within {SECONDS} seconds", file=sys.stderr)
    finally:
        process.kill()
        process.wait()
    result = (CACHE / "result").read_text().splitlines()
    if result == [*(f"{user} 0" for user in users), "done"]:
        return 0
    print(f"the guest's result: {result}", file=sys.stderr)
    if "done" not in result:
        print((CACHE / "console").read_text(errors="replace")[-4000:], file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
