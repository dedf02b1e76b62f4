"""Remove a tree that a hostile command has left: without rights, without end, full of links."""

from __future__ import annotations

import os


def remove_tree(directory: int | str, name: str) -> None:
    """Remove `name` in a directory (a descriptor or a path), as far as this user can.

    By chmod(1) and rm(1): neither follows a link on the way down, and neither minds a depth at which
    Python's own recursion ends.
    """
    import subprocess

    within = f"/proc/self/fd/{directory}" if isinstance(directory, int) else directory
    for command in (["chmod", "-R", "u+rwx", "--"], ["rm", "-rf", "--one-file-system", "--"]):
        subprocess.run(
            [*command, os.path.join(".", name)],
            cwd=within,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin"},
            check=False,
        )
