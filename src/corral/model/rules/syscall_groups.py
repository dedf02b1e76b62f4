"""Groups of system calls: the ways the kernel has for one thing, as far as a filter sees them.

`/bin/chmod` calls `fchmodat`; who denies `chmod` alone has denied an old program, and nothing else. Ways
that are an argument of other calls are in `linux/group_rules.py`; what no filter sees is in docs/limits.md.
"""

from __future__ import annotations

_SETTING_ATTRIBUTES = (
    *("fremovexattr", "fsetxattr", "lremovexattr", "lsetxattr", "removexattr", "removexattrat"),
    *("setxattr", "setxattrat"),
)

GROUPS: dict[str, tuple[str, ...]] = {
    # An access list is an attribute, and sets the mode as well; the name is behind a pointer.
    "@chmod": ("chmod", "fchmod", "fchmodat", "fchmodat2", *_SETTING_ATTRIBUTES),
    "@chown": ("chown", "fchown", "lchown", "fchownat"),
    "@link": ("link", "linkat", "symlink", "symlinkat"),
    "@memfd": ("memfd_create", "memfd_secret"),
    "@mkdir": ("mkdir", "mkdirat"),
    "@mknod": ("mknod", "mknodat"),
    "@remove": ("rename", "renameat", "rmdir", "unlink", "unlinkat"),  # what is renamed over is gone
    "@rename": ("rename", "renameat", "renameat2"),
    "@scheduling": (
        *("ioprio_set", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"),
        "setpriority",
    ),
    "@signal": (*("kill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill"),),
    "@socket": ("socket", "socketpair"),
    "@times": ("futimesat", "utime", "utimensat", "utimes"),
    "@truncate": ("creat", "ftruncate", "truncate"),
    "@xattr": _SETTING_ATTRIBUTES,
}


def expand_group(name: str) -> tuple[str, ...]:
    """The calls of a group, or the call itself."""
    return GROUPS.get(name, (name,))
