"""Groups of system calls: all the ways the kernel has for one thing, on every architecture.

`/bin/chmod` calls `fchmodat`; who denies `chmod` alone has denied an old program, and nothing else.
"""

from __future__ import annotations

GROUPS: dict[str, tuple[str, ...]] = {
    "@chmod": ("chmod", "fchmod", "fchmodat", "fchmodat2"),
    "@chown": ("chown", "fchown", "lchown", "fchownat"),
    "@link": ("link", "linkat", "symlink", "symlinkat"),
    "@memfd": ("memfd_create", "memfd_secret"),
    "@mkdir": ("mkdir", "mkdirat"),
    "@mknod": ("mknod", "mknodat"),
    "@remove": ("rmdir", "unlink", "unlinkat"),
    "@rename": ("rename", "renameat", "renameat2"),
    "@scheduling": (
        *("ioprio_set", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"),
        "setpriority",
    ),
    "@signal": (*("kill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill"),),
    "@socket": ("socket", "socketpair"),
    "@times": ("futimesat", "utime", "utimensat", "utimes"),
    "@truncate": ("ftruncate", "truncate"),
    "@xattr": (
        *("fremovexattr", "fsetxattr", "lremovexattr", "lsetxattr", "removexattr", "removexattrat"),
        *("setxattr", "setxattrat"),
    ),
}


def expand_group(name: str) -> tuple[str, ...]:
    """The calls of a group, or the call itself."""
    return GROUPS.get(name, (name,))
