"""Test on an older kernel with cgroup v2: `make test-vm`.

prepare   Debian's cloud kernel is unpacked into .vm/ (kernel.py); what the tests need of this machine is
          written to a read-only image (image.py), at the same paths
boot      qemu emulates a machine in software; init.sh mounts the image, guest.sh makes a host of it
run       pytest, with what selection.txt says, as root and as an ordinary user with a delegated group, both
          at once
judge     the guest writes the status of each to a port of its own; what is missing there is a failure

run.py [--user NAME] [arguments of pytest]    instead of selection.txt
run.py [--user NAME] exec COMMAND...          any command inside
run.py shell                                  look around as root; `exit` ends the machine
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from image import ROOT, build_image, kept_paths
from kernel import Unprepared, boot_file, build_initramfs, fetch_kernel

HERE = Path(__file__).resolve().parent
CACHE = ROOT / ".vm"
SECONDS = 600
#: Everything takes long in an emulated machine: what is kept is proved by one of them, each a part.
LEFT_OUT = {"root": " and not (session and not limit)", "tester": " and not (session and limit)"}
USERS = {"root": (0, "/root"), "tester": (1000, "/home/tester")}
PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "--require", "native")
SHELL = ["shell"]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--user", action="append", choices=USERS, help="only as this one")
    options.add_argument(
        "--where-possible", action="store_true", help="leave it out if an ordinary user lacks something"
    )
    options.add_argument("arguments", nargs=argparse.REMAINDER)
    chosen = options.parse_args()
    interactive = chosen.arguments == SHELL
    users = ["root"] if interactive else chosen.user or list(USERS)
    try:
        machine = _prepare(_job(users, chosen.arguments))
    except Unprepared as problem:
        left_out = chosen.where_possible and os.geteuid() != 0
        print(f"test-vm {'is left out' if left_out else 'cannot run'}: {problem}", file=sys.stderr)
        return 0 if left_out else 2
    return _boot(machine, users, interactive=interactive)


def _job(users: list[str], arguments: list[str]) -> str:
    """What guest.sh has to know and to do, as shell."""
    lines = [f"PROJECT={shlex.quote(str(ROOT))}", f"KEEP={shlex.quote(' '.join(kept_paths()))}", "job() {"]
    first, *others = users  # at the same time: there are two processors
    lines += [f"session {user} {USERS[user][0]}" for user in users]
    for user in (*others, first):
        uid, home = USERS[user]
        function = "as_user" if user == first else "beside"
        lines.append(f"{function} {user} {uid} {home} {shlex.join(_command(user, arguments))}")
    lines += [f"show {user}" for user in others]
    return "\n".join([*lines, "}", ""])


def _command(user: str, arguments: list[str]) -> list[str]:
    if arguments == SHELL:
        return ["setsid", "--ctty", "--wait", "/bin/bash"]
    if arguments[:1] == ["exec"]:
        return arguments[1:]
    return [sys.executable, *PYTEST, *(arguments or _selection(user))]


def _selection(user: str) -> list[str]:
    words = shlex.split((HERE / "selection.txt").read_text(), comments=True)
    words[words.index("-k") + 1] += LEFT_OUT.get(user, "")
    return words


def _prepare(job: str) -> list[str]:
    """Everything on disk; the command that boots it."""
    for program in ("qemu-system-x86_64", "busybox", "mksquashfs", "setpriv", "ldd", "dpkg-query"):
        if shutil.which(program) is None:
            raise Unprepared(f"there is no {program}: run `make packages` as root, on Debian 12")
    CACHE.mkdir(exist_ok=True)
    kernel = fetch_kernel(CACHE)
    (CACHE / "job").write_text(job)
    build_initramfs(kernel, HERE / "init.sh", CACHE / "job", CACHE / "initramfs")
    build_image(CACHE / "image")
    # The clock is the processor's own, and its speed is told: to find it out goes wrong on a busy machine.
    clock = f"tsc_early_khz={_clock_khz()} tsc=reliable"
    return [
        *("setpriv", "--pdeathsig", "KILL"),  # it does not outlive this process, however that ends
        *("qemu-system-x86_64", "-M", "microvm,accel=tcg,rtc=on", "-cpu", "Nehalem-v1"),
        *("-smp", "2", "-m", "1024"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", str(boot_file(kernel)), "-initrd", str(CACHE / "initramfs")),
        *("-append", f"console=ttyS0 quiet panic=-1 reboot=triple mitigations=off {clock}"),
        *("-serial", f"file:{CACHE / 'console'}"),
        *("-drive", f"id=image,file={CACHE / 'image'},format=raw,if=none,readonly=on"),
        *("-device", "virtio-blk-device,drive=image", "-device", "virtio-rng-device"),
        *("-device", "virtio-serial-device"),
        *("-chardev", "stdio,id=terminal,signal=off", "-device", "virtconsole,chardev=terminal"),
        *("-chardev", f"file,id=result,path={CACHE / 'result'}"),
        *("-device", "virtserialport,chardev=result,name=result"),
    ]


def _clock_khz() -> int:
    """How often the processor's counter ticks: qemu shows the guest the same one."""
    with mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as page:
        page.write(b"\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
        first = ctypes.c_char.from_buffer(page)
        counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(first))
        ticks, nanoseconds = counter(), time.monotonic_ns()
        time.sleep(0.25)
        ticks, nanoseconds = counter() - ticks, time.monotonic_ns() - nanoseconds
        del first  # the page can be closed when nobody refers to it
    return ticks * 1_000_000 // nanoseconds


def _boot(machine: list[str], users: list[str], *, interactive: bool) -> int:
    """Run the machine to its end and judge what it wrote; whatever is missing is a failure."""
    for name in ("result", "console"):
        (CACHE / name).write_text("")
    process = subprocess.Popen(machine, stdin=None if interactive else subprocess.DEVNULL)
    try:
        process.wait(timeout=None if interactive else SECONDS)
    except subprocess.TimeoutExpired:
        print(f"test-vm: the guest did not end within {SECONDS} seconds", file=sys.stderr)
    finally:
        process.kill()
        process.wait()
    result = (CACHE / "result").read_text().splitlines()
    if result == [*(f"{user} 0" for user in sorted(users)), "done"]:
        return 0
    print(f"test-vm: failed; user and status: {', '.join(result) or 'none'}", file=sys.stderr)
    if "done" not in result:
        console = (CACHE / "console").read_text(errors="replace")
        print(f"test-vm: the guest did not come to its end. Its console:\n{console[-4000:]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
