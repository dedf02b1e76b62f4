"""Find where the programs on the caller's PATH are installed, without opening the home directory."""

from __future__ import annotations

import posixpath

from corral.model.plan import PathKind
from corral.planning.homes import HOMES, list_homes
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.backend import Host
    from corral.model.plan import ResolvedPath
    from corral.planning.resolve import Resolver

_PROGRAM_DIRECTORIES = frozenset({"bin", "sbin", "shims", ".bin", "scripts"})

#: Homes of tools that hold nothing but tools: readable as a whole.
_TOOL_HOMES = frozenset(
    {
        *(".pyenv", ".rbenv", ".nodenv", ".goenv", ".jenv", ".asdf", ".nvm", ".fnm", ".volta", ".bun"),
        *(".deno", ".sdkman", ".rustup", ".ghcup", ".opam", ".juliaup", ".elan", ".conda", ".linuxbrew"),
    }
)
#: Of any other directory in the home, which may hold a login beside its programs, only these parts.
_PROGRAM_PARTS = ("bin", "lib", "lib64", "libexec", "include", "versions", "toolchains", "installs")
_MORE_PARTS = {
    ".local": ("pipx", "share/pipx", "share/uv", "share/fnm", "share/mise"),
    ".cargo": ("registry", "git", "config.toml", "env"),
}
#: Programs that the system, or its administrator, has installed.
_SYSTEM_TOPS = (
    *("/usr", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/snap", "/home/linuxbrew"),
)
#: What a program directory needs besides itself, relative to the home.
_COMPANIONS = {".cargo/bin": (".rustup",)}

#: What an installation consists of.
_PREFIX_PARTS = (
    *("bin", "sbin", "shims", "lib", "lib32", "lib64", "libexec", "include", "share", "etc", "ssl"),
    *("versions", "version", "toolchains", "installs", "plugins", "pyenv.d", "conda-meta", "condabin"),
    "pyvenv.cfg",
)

#: Interpreters that a project brings along; their links lead to the installation they belong to.
_PROJECT_INTERPRETERS = (".venv/bin/python", "venv/bin/python", "env/bin/python")
_MAX_ENTRIES = 512


def find_tools(host: Host, resolver: Resolver, workspace: str, writable: tuple[str, ...]) -> tuple[str, ...]:
    """Paths that must be readable for the caller's programs to work, in no order.

    TRUST: what lies in a writable path, or in the workspace, may be the work of an earlier command. No
    link in it is followed, except a project's interpreter, and that only to a tree that is a Python
    installation. Elsewhere an earlier command may have had its workspace too. So a link outside of where
    programs are installed is followed only into such a place, or into the tree it lies in; and always only to
    a program: a file with the right to be executed.
    """
    finder = _Finder(host, resolver, (*writable, workspace))
    for entry in host.environment().get("PATH", "").split(":"):
        if entry.startswith("/"):
            finder.add_directory(posixpath.normpath(entry))
    for name in _PROJECT_INTERPRETERS:
        finder.add_interpreter(posixpath.join(workspace, name))
    return tuple(sorted(path for path in finder.shown() if not _is_in_any(path, writable)))


def _is_in_any(path: str, directories: tuple[str, ...]) -> bool:
    return any(is_beneath(path, directory) for directory in directories)


class _Finder:
    def __init__(self, host: Host, resolver: Resolver, writable: tuple[str, ...]) -> None:
        self._writable = writable
        self._host = host
        self._resolver = resolver
        self._home = host.home
        others = (home for home in list_homes(host) if not _is_in_any(home, _SYSTEM_TOPS))
        self._homes = (host.home, *others)
        self.found: set[str] = set()

    def add_directory(self, directory: str) -> None:
        """Take one entry of PATH, and the installations that its links lead to."""
        real = self._trusted(directory, directory)
        if real is None or real.path in {"/usr/bin", "/usr/sbin", "/bin", "/sbin"}:
            return
        if self._resolver.follow(directory)[1] and not self._is_installed(real.path):
            return  # a directory is shown whole: a link to it has to lead to where programs are
        if self._holds_home(real.path):
            return  # a home or something above it: nothing that programs are installed in
        self.found.add(directory)  # with its own links, so that PATH works as it is written
        self.found.update(self._installation(real.path))
        for name in self._host.links(real.path)[:_MAX_ENTRIES]:
            self._add_program(posixpath.join(real.path, name), posixpath.dirname(real.path))

    def _trusted(self, path: str, tree: str) -> ResolvedPath | None:
        """Where a path leads, if no command can have had a say in it."""
        real, links = self._resolver.follow(path)
        steps = (path, real.path, *links)
        if any(_is_in_any(step, self._writable) for step in steps):
            return None
        is_known = all(self._is_installed(link) for link in links)
        return real if is_known or self._is_installed(real.path) or is_beneath(real.path, tree) else None

    def shown(self) -> Iterator[str]:
        """What was found, without what is a link: unless it leads to where programs are, or to what is shown.

        TRUST: `ln -s . lib` beside a `bin` on the PATH would show all that lies around it.
        """
        plain = tuple(path for path in self.found if not self._resolver.follow(path)[1])
        for path in self.found:
            real = self._resolver.resolve(path).path
            if path in plain or self._is_installed(real) or _is_in_any(real, plain):
                yield path

    def _is_installed(self, path: str) -> bool:
        """Whether a path lies where programs are installed, and projects are not."""
        if _is_in_any(path, _SYSTEM_TOPS):
            return not is_beneath(path, "/usr/src")
        if not is_beneath(path, self._home) or path == self._home:
            return False
        first, _, rest = posixpath.relpath(path, self._home).partition("/")
        parts = (*_PROGRAM_PARTS, *_MORE_PARTS.get(first, ()))
        is_part = first.startswith(".") and any(is_beneath(f"/{rest}", f"/{part}") for part in parts)
        return first in _TOOL_HOMES or first == "bin" or is_part

    def _add_program(self, path: str, tree: str) -> None:
        """Follow a link to where the program is installed."""
        real = self._trusted(path, tree)
        stat = self._resolver.look(real.path) if real is not None else None
        if real is not None and stat is not None and stat.is_executable:
            self.found.add(real.path)
            self.found.update(self._prefix(posixpath.dirname(real.path)))

    def add_interpreter(self, path: str) -> None:
        """Follow a project's own interpreter, if it leads to a Python installation."""
        real = self._resolver.resolve(path)
        prefix, directory = posixpath.split(posixpath.dirname(real.path))
        if real.kind is not PathKind.FILE or directory != "bin" or prefix == "/":
            return
        if any(is_beneath(path, prefix) for path in self._writable):
            return  # a command could have made an installation of it
        libraries = self._host.subdirectories(posixpath.join(prefix, "lib"))
        marks = (f"{prefix}/lib/{name}/os.py" for name in libraries if name.startswith("python3"))
        if any(self._resolver.look(mark) for mark in marks):
            self.found.update(self._shown(prefix))

    def _installation(self, directory: str) -> Iterator[str]:
        """The tree that programs in a directory belong to, as far as it is safe to show."""
        yield directory
        yield from self._prefix(directory)

    def _holds_home(self, path: str) -> bool:
        return self._home_around(path) == path or any(is_beneath(h, path) for h in (*self._homes, *HOMES))

    def _home_around(self, path: str) -> str:
        """The home that a path lies in; programs may be in another's, where HOME was set to elsewhere."""
        around = [home for home in self._homes if is_beneath(path, home)]
        for place in HOMES:
            if path.startswith(f"{place}/") and not _is_in_any(path, _SYSTEM_TOPS):
                around.append(f"{place}/{path[len(place) + 1 :].partition('/')[0]}")
        return max(around, key=len, default="")

    def _prefix(self, directory: str) -> Iterator[str]:
        home = self._home_around(directory)
        relative = posixpath.relpath(directory, home) if home and directory != home else ""
        for companion in _COMPANIONS.get(relative, ()):
            yield posixpath.join(home, companion)
        first, _, rest = relative.partition("/")
        prefix = posixpath.dirname(directory)
        if rest and "/" not in rest and first.startswith(".") and first not in _TOOL_HOMES:
            for part in (*_PROGRAM_PARTS, *_MORE_PARTS.get(first, ())):
                yield posixpath.join(prefix, part)
        elif posixpath.basename(directory) in _PROGRAM_DIRECTORIES and self._is_shown(prefix):
            yield from self._shown(prefix)

    def _shown(self, prefix: str) -> Iterator[str]:
        """A prefix as a whole where programs are installed; elsewhere, where it may be a project, its parts.

        TRUST: a mark such as pyvenv.cfg can be made by a command, to have all that lies beside it shown.
        """
        if self._is_installed(prefix):
            yield prefix
        else:
            for part in _PREFIX_PARTS:
                yield posixpath.join(prefix, part)

    def _is_shown(self, prefix: str) -> bool:
        """Whether a whole prefix may be read: not the home, nor a directory of somebody's projects."""
        if self._holds_home(prefix) or prefix == "/":
            return False
        if any(self._resolver.look(f"{prefix}/{mark}") for mark in ("pyvenv.cfg", "conda-meta")):
            return True
        if home := self._home_around(prefix):
            return posixpath.relpath(prefix, home).startswith(".")
        return any(self._resolver.look(f"{prefix}/{mark}") for mark in ("lib", "lib64", "libexec"))
