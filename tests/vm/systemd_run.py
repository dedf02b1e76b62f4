"""Boot systemd in software emulation: do its scopes hold what corral asks for, for root and for a user?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

from kernel import MODULES, Unprepared, boot_file, build_initramfs, fetch_kernel
from systemd_root import HERE, USERS, build_image

from run import CACHE, _clock_khz

CONSOLE = CACHE / "systemd-console"
SUITE = "bookworm"  # or what the argument says: each release of Debian has its own systemd
WHERE_POSSIBLE = "--where-possible"  # leave it out if an ordinary user lacks something
SECONDS = 300
PARAMETERS = ("console=ttyS0", "panic=-1", "quiet", "mitigations=off", "systemd.unit=check.target")


def main() -> int:
    words = [word for word in sys.argv[1:] if word != WHERE_POSSIBLE]
    try:
        began = time.monotonic()
        qemu = _prepare(words[0] if words else SUITE)
        print(f"prepared in {time.monotonic() - began:.1f} s", flush=True)
    except Unprepared as problem:
        left_out = WHERE_POSSIBLE in sys.argv and os.geteuid() != 0
        print(f"test-vm-systemd {'is left out' if left_out else 'cannot run'}: {problem}", file=sys.stderr)
        return 0 if left_out else 2
    began = time.monotonic()
    _boot(qemu)
    console = CONSOLE.read_text(errors="replace").splitlines()
    told = ("ok ", "not ok ", "verdict ", *(f"{user}: the " for user in USERS))
    print("\n".join(line for line in console if line.startswith(told)))
    print(f"the guest ran for {time.monotonic() - began:.1f} s")
    verdicts = sorted(line for line in console if line.startswith("verdict "))
    if verdicts == sorted(f"verdict {user}: ok" for user in USERS):
        return 0
    print("\n".join(console[-80:]), file=sys.stderr)
    return 1


def _prepare(suite: str) -> list[str]:
    """Everything on disk; the command that boots it."""
    qemu = shutil.which("qemu-system-x86_64")
    if qemu is None:
        raise Unprepared("there is no qemu-system-x86_64: run `make packages` as root")
    kernel = fetch_kernel(CACHE)
    files = (HERE / "systemd_init.sh", HERE / "systemd_check.py", CACHE / "systemd-initramfs")
    build_initramfs(kernel, *files, modules=(*MODULES, "overlay"))
    build_image(CACHE, CACHE / "systemd-image", suite)
    clock = (f"tsc_early_khz={_clock_khz()}", "tsc=reliable")  # see run.py
    return [
        *("setpriv", "--pdeathsig", "KILL"),  # it does not outlive this process, however that ends
        qemu,
        *("-M", "microvm,accel=tcg,rtc=on", "-cpu", "Nehalem", "-smp", "2", "-m", "1024"),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-kernel", str(boot_file(kernel)), "-initrd", str(CACHE / "systemd-initramfs")),
        *("-append", " ".join([*PARAMETERS, *clock])),
        *("-serial", f"file:{CONSOLE}"),
        *("-drive", f"id=image,file={CACHE / 'systemd-image'},format=raw,if=none,readonly=on"),
        *("-device", "virtio-blk-device,drive=image", "-device", "virtio-rng-device"),
    ]


def _boot(qemu: list[str]) -> None:
    CONSOLE.write_text("")
    process = subprocess.Popen(qemu, stdin=subprocess.DEVNULL)
    try:
        process.wait(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        print(f"the guest did not end within {SECONDS} seconds", file=sys.stderr)
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
