"""Other names that a disk of macOS has for the same file, and policies that use them.

Rules of Seatbelt are about the one name that the kernel has for a file. A grant by another name fits nothing,
and a denial by another name would hide nothing: that one is refused. Names are other than the kernel's by
their case, by how an accent is written, and where the disk is named once more.
"""

from __future__ import annotations

from corral.backends._sbpl import DATA_VOLUME
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.policy import FsAccess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan

#: Files by the numbers of their disk and of themselves.
_BY_NUMBER = "/.vol"
_PATTERN = frozenset("*?[\\")


def check_spelling(plan: Plan) -> None:
    """Raise UnenforceableError for a path by a name that rules could not be about."""
    resolved = plan.resolved
    roots = [grant.target.path for grant in resolved.grants]
    for path in (*roots, *_denials(plan)):
        if _is_in(path, DATA_VOLUME):
            raise _refused(path, "the disk has it by a shorter name", f"write {_short(path)}")
        if _is_in(path, _BY_NUMBER):
            raise _refused(path, "it is a file by its number", "write its path")
    writable = [grant.target.path for grant in resolved.grants if grant.access is FsAccess.WRITE]
    readable = [grant.target.path for grant in resolved.grants if grant.access is FsAccess.READ]
    pairs = [(path, root) for path in (*resolved.private, *_denials(plan)) for root in roots]
    pairs += [(path, root) for path in readable for root in writable]
    for path, root in pairs:
        if _is_related(fold_name(path), fold_name(root)) and not _is_related(path, root):
            why = f"a disk may take it for a name of {root}, or of something in it or above it"
            raise _refused(path, why, f"spell it as {root} is spelled, which has to be as the disk has it")


def fold_name(path: str) -> str:
    """The same text for all names that a disk may take for one another."""
    from unicodedata import normalize  # only on macOS

    return normalize("NFKD", normalize("NFKD", path).casefold())


def _denials(plan: Plan) -> Iterator[str]:
    """What the policy denies, as it is written; of patterns the part that is no pattern."""
    resolved = plan.resolved
    for rule in plan.policy.fs:
        if rule.access is not FsAccess.DENY:
            continue
        path = rule.path.replace("${workspace}", resolved.workspace)
        path = resolved.home + path[1:] if path == "~" or path.startswith("~/") else path
        first = next((place for place, char in enumerate(path) if char in _PATTERN), None)
        path = path if first is None else path[:first].rpartition("/")[0]
        if path.startswith("/") and path != "/":
            yield path


def _short(path: str) -> str:
    return path[len(DATA_VOLUME) :] or "the directories in it by their own names"


def _is_in(path: str, root: str) -> bool:
    return fold_name(path) == fold_name(root) or fold_name(path).startswith(f"{fold_name(root)}/")


def _is_related(one: str, other: str) -> bool:
    """Whether they are the same, or one is above the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _refused(path: str, why: str, fix: str) -> UnenforceableError:
    return UnenforceableError(
        "unenforceable",
        f"{path} cannot be held by this name",
        why=why,
        fix=fix,
        lacking=frozenset({Feature.FS_DENY}),
    )
