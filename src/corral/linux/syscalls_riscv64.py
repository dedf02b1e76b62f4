"""System-call numbers of riscv64: the kernel's common table, as aarch64 has it, and two of its own.

Origin: asm-generic/unistd.h of Linux 6.1 with what riscv asks of it (rlimit, clone3, memfd_secret, and no
renameat, which renameat2 had replaced before there was a riscv); riscv_hwprobe 6.4.
"""

from __future__ import annotations

from corral.linux.syscalls_aarch64 import TABLE as COMMON

TABLE = COMMON.replace(" renameat\n", "\n") + "258 riscv_hwprobe riscv_flush_icache\n"
