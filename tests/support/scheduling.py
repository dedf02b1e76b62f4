"""Which tests go to the same worker: an engine takes many seconds to start, and an image to build."""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

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


class Scheduling(LoadScopeScheduling):
    """A worker gets the tests of one scope after the other; which scope a test is in is said here."""

    def _split_scope(self, nodeid: str) -> str:
        found = ((pattern.search(nodeid), name) for pattern, name in _TOGETHER)
        return next(name or match[0] for match, name in found if match)
