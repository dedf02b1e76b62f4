"""Interpreter: the caller's own Python, and what of its installation must be readable for it to start."""

from __future__ import annotations

import os
import sys

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Directories of installed packages, by whoever installed them.
_PACKAGES = frozenset({"site-packages", "dist-packages"})
#: -I: nothing of the environment or the working directory; -S: the search path is sent; -B: no files.
_FLAGS = ("-I", "-S", "-B")
_BOOT = """\
import marshal, sys
read = sys.stdin.buffer.read
parts = []
for name in ("codec", "worker"):
    part = type(sys)("corral_" + name)
    exec(marshal.loads(read(int(read(8), 16))), part.__dict__)
    parts.append(part)
parts[1].serve(parts[0], read())
"""


class Interpreter(Record):
    """The program of the base installation: a virtual environment is a search path on top of it."""

    program: str
    reads: tuple[str, ...]  # real paths

    @property
    def argv(self) -> tuple[str, ...]:
        return (self.program, *_FLAGS, "-c", _BOOT)


def find_interpreter() -> Interpreter:
    """What runs this very process."""
    program = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    standard = os.path.realpath(os.path.dirname(os.__file__))
    reads = [program, standard, *_shared_library(), *_conda_libraries()]
    reads += [path for path in search_path() if _is_installed(path, standard)]
    present = (path for path in dict.fromkeys(reads) if os.path.exists(path))
    return Interpreter(program, tuple(present))


def search_path() -> tuple[str, ...]:
    """Where the caller finds modules, as real paths; what is not visible inside is simply not found there."""
    return tuple(dict.fromkeys(os.path.realpath(entry or os.getcwd()) for entry in sys.path))


def describe_place() -> dict[str, Any]:
    """What the worker is to take over from the caller. Not its arguments: they may hold anything."""
    return {
        "path": list(search_path()),
        "prefix": sys.prefix,
        "exec_prefix": sys.exec_prefix,
        "executable": sys.executable or "",
    }


def build_program() -> bytes:
    """What is sent before a call: the codec and the worker, compiled, each with its length in front.

    Compiling it in every worker would take as long as starting Python. The same Python reads it, so the
    form fits; and it goes into the sandbox: what comes out is never read in this way.
    """
    from marshal import dumps

    here = os.path.dirname(os.path.realpath(__file__))
    program = b""
    for name in ("codec", "worker"):
        with open(os.path.join(here, f"{name}.py"), "rb") as file:
            code = dumps(compile(file.read(), f"<corral {name}>", "exec", dont_inherit=True, optimize=2))
        program += b"%08x" % len(code) + code
    return program


def _is_installed(path: str, standard: str) -> bool:
    return os.path.basename(path) in _PACKAGES or path.startswith(standard + "/")


def _shared_library() -> tuple[str, ...]:
    """The library that the interpreter itself lies in, where it was built so."""
    from sysconfig import get_config_var

    directory, name = get_config_var("LIBDIR"), get_config_var("INSTSONAME")
    is_shared = bool(get_config_var("Py_ENABLE_SHARED")) and directory and name
    return (os.path.join(os.path.realpath(directory), name),) if is_shared else ()


def _conda_libraries() -> tuple[str, ...]:
    base = os.path.realpath(sys.base_prefix)
    return (os.path.join(base, "lib"),) if os.path.isdir(os.path.join(base, "conda-meta")) else ()
