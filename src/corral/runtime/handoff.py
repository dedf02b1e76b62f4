"""Handoff: files of the workspace that a run has changed, and that the host runs later if nobody looks first.

They are there to be changed, so nothing protects them. It is looked for by name, where tools look for them:
at the top of the workspace and of its tests, which takes some fifty calls of the system.
"""

from __future__ import annotations

import contextlib
import os
import time

from corral.untrusted_files.unchanged import is_settled, stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: What build tools, test runners, package managers and services run without being told which file that is.
_NAMES = (
    *("conftest.py", "setup.py", "setup.cfg", "pyproject.toml", "tox.ini", "noxfile.py", "tasks.py"),
    *("sitecustomize.py", "manage.py", "package.json", "Makefile", "makefile", "GNUmakefile", "justfile"),
    *("build.rs", "Cargo.toml", "build.gradle", "build.gradle.kts", "pom.xml", "CMakeLists.txt", "Rakefile"),
    *("Gemfile", "Dockerfile", "docker-compose.yml", "compose.yaml", "Jenkinsfile", ".gitlab-ci.yml"),
    *(".travis.yml", ".pre-commit-config.yaml", "lefthook.yml", "Vagrantfile", "Taskfile.yml", "gulpfile.js"),
    *("webpack.config.js", "vite.config.js", "vite.config.ts", "jest.config.js", ".eslintrc.js"),
    *("tests/conftest.py", "test/conftest.py"),
)
_DIRECTORIES = (".github/workflows", ".circleci", ".cargo")
_MOST_IN_DIRECTORY = 64
_KNOWN, _BELOW = frozenset(_NAMES), tuple(f"{directory}/" for directory in _DIRECTORIES)

#: The workspace itself, if all that its time stands for was seen.
_TOP = ""

Stamps = dict[str, tuple[int, int, int]]


def stamp_handoff(workspace: str) -> Stamps:
    """How such files are now; those that are missing are not in it."""
    top = workspace.rstrip("/")
    looked_ns, stamp = time.time_ns(), stamp_of(top)
    found = _stamp(top, _NAMES)
    if stamp is not None and is_settled(stamp, looked_ns):
        found[_TOP] = stamp
    return found


def _stamp(top: str, names: Iterable[str]) -> Stamps:
    found: Stamps = {}
    lstat = os.lstat
    for name in (*names, *_in_directories(top)):  # plainly: this is done twice in each run
        try:
            status = lstat(f"{top}/{name}")
        except OSError:
            continue
        # Nobody can set the last of these, so that no change is hidden.
        found[name] = (status.st_dev, status.st_ino, status.st_ctime_ns)
    return found


def find_handoff(workspace: str, before: Stamps) -> tuple[str, ...]:
    """Those that are there, and are not as they were."""
    top = workspace.rstrip("/")
    names: tuple[str, ...] = _NAMES
    if _TOP in before and before[_TOP] == stamp_of(top):  # no name has come to it
        names = tuple(name for name in _NAMES if "/" in name or name in before)
    return tuple(name for name, stamp in _stamp(top, names).items() if before.get(name) != stamp)


def _in_directories(top: str) -> list[str]:
    found = []
    for directory in _DIRECTORIES:
        with contextlib.suppress(OSError):
            names = sorted(os.listdir(f"{top}/{directory}"))
            found += [f"{directory}/{name}" for name in names[:_MOST_IN_DIRECTORY]]
    return found


def is_handoff(name: str) -> bool:
    """Whether a file, by its path in the workspace, is one that the host runs without being told which."""
    return name in _KNOWN or name.startswith(_BELOW)
