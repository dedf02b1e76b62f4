"""Which tests go to the same worker, and which begin: an engine takes seconds to start, an image to build."""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pytest

#: By what a test's name says; the first that fits counts. Where nothing does, the cases of a function are
#: together. The tests of a file are where they are short: the fewer scopes, the less there is to schedule.
_TOGETHER = (
    (re.compile(r"^tests/(?:unit|golden|fuzz)/[^:]+"), ""),
    (re.compile(r"^tests/architecture/(?!test_suite|test_start)"), "sources"),  # parsed once
    (re.compile(r"^tests/(?:property|architecture)/[^\[]+"), ""),  # these need no real engine either
    (re.compile(r"^tests/images/test_real_images"), "images"),
    (re.compile(r"[\[-]docker\b"), "docker"),
    (re.compile(r"[\[-]podman\b"), "podman"),
    (re.compile(r"^[^\[]+"), ""),
)
#: What takes minutes by itself begins, and what is short fills the gaps at the end.
_FIRST = re.compile(r"test_as_ordinary_user|^docker$|^podman$|^images$")
_LAST = re.compile(r"^tests/(?:unit|golden|fuzz|property|architecture)/|^sources$")


class Scheduling(LoadScopeScheduling):
    """A worker gets the tests of one scope after the other; which scope a test is in is said here."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # it would begin with the scopes of the most tests

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    found = ((pattern.search(nodeid), name) for pattern, name in _TOGETHER)
    return next(name or match[0] for match, name in found if match)


def order(items: list[pytest.Item]) -> None:
    """As the workers are to begin with them; each of them sees the same."""
    items.sort(key=lambda item: _turn(scope_of(item.nodeid)))


def _turn(scope: str) -> int:
    return 0 if _FIRST.search(scope) else 2 if _LAST.search(scope) else 1
