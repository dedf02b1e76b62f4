"""Build the root file system of a variant with mmdebstrap: an archive, whole and checked, or nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager

from corral.host.programs import find_program
from corral.images.archive import check_contents, read_archive
from corral.images.tool import run_tool
from corral.model.errors import PolicyError, SetupError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from corral.images.archive import Contents
    from corral.images.recipe import Recipe
    from corral.images.sources import Sources
    from corral.images.tool import Ended

_TOOL = "mmdebstrap"
_PREFIX = "corral-build-"
_NO_ROOM = "No space left on device"
#: What mmdebstrap and apt may know of the caller: where programs and room are, and how to reach the mirrors.
_PASSED = (
    *("PATH", "HOME", "SOURCE_DATE_EPOCH", "TERM"),
    *("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
)


class BuildDirectory(Record):
    """A directory for all that a build makes on the way, and the lock that says that someone works there."""

    path: str
    lock: int


@contextmanager
def scratch_directory() -> Iterator[BuildDirectory]:
    """Make a scratch directory, which is gone afterwards; and remove those of builds that were killed.

    Raises SetupError. Others may pass through it, not look around: as an ordinary user mmdebstrap works under
    ids of its own.
    """
    try:
        _sweep(tempfile.gettempdir())
        scratch = _make_scratch()
    except OSError as problem:
        raise _no_room(tempfile.gettempdir(), problem.strerror or str(problem)) from problem
    try:
        yield scratch
    finally:
        os.close(scratch.lock)
        _remove(scratch.path)


def _make_scratch() -> BuildDirectory:
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(path):  # else it was swept away before it could be locked
            os.chmod(path, 0o711)  # noqa: S103
            return BuildDirectory(path, lock)
        os.close(lock)


def _sweep(directory: str) -> None:
    """Remove the caller's scratch directories in which nobody works: no build, and no tool that one left."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if not name.startswith(_PREFIX):
            continue
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # gone meanwhile, a link, or someone else's: none of these is ours to remove
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def build_archive(
    recipe: Recipe,
    target: str,
    sources: Sources,
    *,
    scratch: BuildDirectory,
    on_line: Callable[[str], None],
) -> Contents:
    """Build a variant into the file `target`, and return what is in it. Raises SetupError or Interrupted.

    `target` is replaced as a whole, when everything is done and checked.
    """
    tool = find_program(_TOOL) or None
    if tool is None:
        raise SetupError(
            "image-tool-missing",
            f"the image {recipe.variant} cannot be built",
            why=f"{_TOOL} is not installed",
            fix=f"apt-get install {_TOOL}",
        )
    partial = f"{target}.corral-{os.getpid()}"
    try:
        ended = run_tool(
            [*_enclosure(), tool, *_arguments(recipe), "--", *sources.arguments(partial)],
            stdin=sources.listing,
            environment=_environment(scratch.path),
            on_line=on_line,
            inherited=scratch.lock,
        )
        if ended.status != 0:
            raise _failed(recipe, ended, scratch.path)
        on_line("I: checking what is in it...")
        contents = read_archive(partial)
        check_contents(contents)
        os.replace(partial, target)
    except OSError as problem:
        raise _no_room(target, problem.strerror or str(problem)) from problem
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return contents


def check_target(path: str) -> None:
    """Raise PolicyError unless an archive can be written there; better now than after a minute of work."""
    directory = os.path.dirname(os.path.abspath(path))
    why = ""
    if os.path.isdir(path):
        why = "it is a directory"
    elif not os.path.isdir(directory):
        why = f"there is no directory {directory}"
    elif not os.access(directory, os.W_OK | os.X_OK):
        why = f"nothing can be created in {directory}"
    if why:
        raise PolicyError(
            "image-output", f"{path} cannot be written", why=why, fix="name a file in a directory of yours"
        )


def _enclosure() -> list[str]:
    """What keeps mmdebstrap's mounts and processes to itself, so that all of them end with it.

    As root it would mount /proc and /sys beneath the scratch directory for everyone to see, and leave them
    there if it is killed. For an ordinary user it makes such namespaces by itself. Root without the right to
    make them cannot mount anything either.
    """
    unshare = find_program("unshare") or None
    if os.geteuid() != 0 or unshare is None:
        return []
    enclosure = [unshare, "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc", "--"]
    return enclosure if run_tool([*enclosure, "true"]).status == 0 else []


def _arguments(recipe: Recipe) -> list[str]:
    """Debian's essential packages, and those of the recipe, without what they only recommend."""
    return [
        "--variant=essential",
        "--format=tar",
        "--dpkgopt=force-unsafe-io",  # what is lost if the machine stops meanwhile is only this
        "--skip=cleanup/apt",  # the script does it; an apt that runs after a script may not find this root
        f"--include={','.join(recipe.packages)}",
        f"--customize-hook={recipe.script()}",
    ]


def _environment(scratch: str) -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {**passed, "TMPDIR": scratch, "LC_ALL": "C.UTF-8"}


def _failed(recipe: Recipe, ended: Ended, scratch: str) -> SetupError:
    if any(_NO_ROOM in line for line in ended.words):
        return _no_room(os.path.dirname(scratch), ended.complaint())
    return SetupError(
        "image-build",
        f"the image {recipe.variant} could not be built",
        why=f"{_TOOL}: {ended.complaint()}",
        fix="see that its mirrors can be reached, or name others: --mirror URL --suite NAME",
    )


def _no_room(where: str, why: str) -> SetupError:
    return SetupError(
        "image-disk",
        "the image could not be written",
        why=f"{where}: {why}",
        fix="make room there, or set TMPDIR to another directory (4 GiB are enough for any variant)",
    )


def _remove(path: str) -> None:
    """Remove a scratch directory. What a killed mmdebstrap has left belongs to its ids, which it can use."""
    tool = find_program(_TOOL) or None
    try:
        _check_no_mounts(path)
        try:
            shutil.rmtree(path)
        except PermissionError:
            if tool is None:
                raise
            run_tool([tool, "--unshare-helper", "find", path, "-mindepth", "2", "-delete"])
            shutil.rmtree(path)
    except OSError as problem:
        raise SetupError(
            "image-leftover",
            f"{path} could not be removed",
            why=problem.strerror or str(problem),
            fix="unmount what is mounted there, and remove it as root",
        ) from problem


def _check_no_mounts(path: str) -> None:
    """Raise OSError if something is mounted there: removing would go on into it, and it may be the host's."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounted = [line.split()[4].replace("\\040", " ") for line in file]  # proc(5): the mount point
    for point in mounted:
        if point.startswith(f"{os.path.realpath(path)}/"):
            raise OSError(errno.EBUSY, f"{point} is mounted")
