"""What `corral` says on Windows: that it confines nothing there, and where it works. It imports nothing else.

A run in docker takes corral's own launcher in the container, which looks at each mount before the command
runs. From Windows it could not: Docker Desktop's containers are in a virtual machine, in which a directory of
Windows has other numbers than here, its names are not told apart by their case, and the launcher's sockets
lead nowhere. WSL2 is Linux, and has all of it.
"""

from __future__ import annotations

import sys

from corral import __version__

_WHERE = (
    "install it inside WSL2, which is Linux: `wsl --install`, then `pip install corral` in that shell; "
    "Docker Desktop's engine is reached from there too (`corral doctor`)"
)
_DOCTOR = f"""\
No backend works here: corral refuses to run commands.
corral {__version__} on Windows
  docker      does not work
    because: its containers are in a virtual machine with a separate Linux (Docker Desktop), in which the
             launcher could not see that what is mounted is what was meant
    fix: {_WHERE}
auto takes the first that enforces everything: docker
"""
_REFUSED = f"""\
corral: the command did not run: nothing on Windows can enforce the policy
  because: docker: its containers are in a virtual machine with a separate Linux (Docker Desktop), in which
           the launcher could not see that what is mounted is what was meant
  fix: {_WHERE}
"""
#: As everywhere else: the host cannot enforce it.
_EXIT_UNENFORCEABLE = 3


def main(arguments: list[str]) -> int:
    """Say it; returns the exit status."""
    match arguments[:1]:
        case ["--version"]:
            sys.stdout.write(f"corral, version {__version__}\n")
            return 0
        case ["doctor"]:
            sys.stdout.write(_DOCTOR)
            return 1
    sys.stderr.write(_REFUSED)
    return _EXIT_UNENFORCEABLE
