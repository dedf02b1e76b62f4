"""Laws of narrowed policies on hosts full of links: the meet never reaches what one side does not."""

from __future__ import annotations

import posixpath

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model.errors import PolicyError
from corral.model.plan import Ground
from corral.model.policy import FsAccess, FsRule, Policy
from corral.planning.ground import build_ground
from corral.planning.resolve import is_beneath
from support.trees import NAMES, ROOT, hosts

LEVEL = {None: 0, FsAccess.READ: 1, FsAccess.WRITE: 2}
#: The workspace, and a home that is an ordinary directory inside it: three spellings of the same places.
HOME = f"{ROOT}/a"
_parts = st.lists(st.sampled_from(NAMES[:3]), max_size=3)
said = st.builds(
    lambda root, parts: "/".join([root, *parts]), st.sampled_from([ROOT, "${workspace}", "~"]), _parts
)
rules = st.builds(FsRule, said, st.sampled_from(FsAccess), st.just(True))
wanted = st.builds(
    Policy, fs=st.lists(rules, min_size=1, max_size=4).map(tuple), private=st.frozensets(said, max_size=1)
)
real = _parts.map(lambda parts: "/".join([ROOT, *parts, "x"]))


def _level(ground: Ground, path: str) -> int:
    """What a plan opens at a real path: as the mounts would, the deepest counts, and denials beat all."""
    if any(is_beneath(path, denial.path) for denial in ground.denied):
        return 0
    opened = dict.fromkeys(ground.private) | {grant.target.path: grant.access for grant in ground.grants}
    while path != "/":
        if path in opened:
            return LEVEL[opened[path]]
        path = posixpath.dirname(path)
    return 0


@settings(max_examples=600)
@given(hosts, st.lists(wanted, min_size=2, max_size=3), st.lists(real, min_size=4, max_size=8))
def test_on_every_host_the_meet_opens_no_more_than_each_side(host, sides, places) -> None:
    host.home = HOME
    met = sides[0] & sides[1] if len(sides) == 2 else sides[0] & sides[1] & sides[2]
    try:
        narrow = build_ground(met, ROOT, host)
        wide = [build_ground(side, ROOT, host) for side in sides]
    except PolicyError:
        return
    named = [posixpath.join(grant.target.path, "x") for ground in (narrow, *wide) for grant in ground.grants]

    for place in (*places, *named):
        assert _level(narrow, place) <= min(_level(ground, place) for ground in wide), place
