"""Laws of narrowed policies on hosts full of links: the meet never reaches what one side does not."""

from __future__ import annotations

import posixpath
from functools import reduce
from operator import and_

from hypothesis import given
from hypothesis import strategies as st

from corral.model.errors import PolicyError
from corral.model.plan import ResolvedPolicy
from corral.model.policy import FsAccess, FsRule, Policy
from corral.planning.resolve import is_beneath
from corral.planning.resolved_policy import resolve_policy
from support.examples import examples
from support.fake_host import FakeHost

LEVEL = {None: 0, FsAccess.READ: 1, FsAccess.WRITE: 2}
#: The workspace has two spellings, and links may lead into it and out of it.
WORKSPACE = "/w/a"
DIRECTORIES = [f"/{top}/{first}/{second}" for top in "wv" for first in "ab" for second in "ab"]
LINKS = ["/w/l", "/v/l", "/w/a/l", "/w/b/l", "/w/a/a/l"]
PLACES = sorted({path for deep in DIRECTORIES for path in (deep, posixpath.dirname(deep))})

hosts = st.dictionaries(st.sampled_from(LINKS), st.sampled_from([*PLACES, "../b"]), max_size=4).map(
    lambda links: FakeHost(
        {
            **{f"{path}/x/": "" for path in PLACES},
            **{path: f"-> {text}" for path, text in links.items()},
        },
        system=False,
        cwd=WORKSPACE,
        corral_files=(),
    )
)
said = st.one_of(
    st.sampled_from(["/w", "/v", *PLACES, *LINKS]),
    st.sampled_from(LINKS).map(lambda link: f"{link}/a"),
    st.sampled_from(["${workspace}", "${workspace}/a", "${workspace}/l", "${workspace}/a/l"]),
)
rules = st.builds(
    FsRule,
    said,
    st.sampled_from([*FsAccess, FsAccess.READ, FsAccess.WRITE]),
    st.sampled_from([True] * 3 + [False]),
)
policies = st.builds(
    Policy, fs=st.lists(rules, min_size=1, max_size=4).map(tuple), private=st.frozensets(said, max_size=1)
)


def _level(resolved: ResolvedPolicy, path: str) -> int:
    """What a plan opens at a real path: as the mounts would, the deepest counts, and denials beat all."""
    if any(is_beneath(path, denial.path) for denial in resolved.denied):
        return 0
    opened = dict.fromkeys(resolved.private) | {grant.target.path: grant.access for grant in resolved.grants}
    while path != "/":
        if path in opened:
            return LEVEL[opened[path]]
        path = posixpath.dirname(path)
    return 0


@examples(1000)
@given(hosts, st.lists(policies, min_size=2, max_size=3))
def test_on_every_host_the_meet_opens_no_more_than_each_side(host: FakeHost, sides: list[Policy]) -> None:
    try:
        narrow = resolve_policy(reduce(and_, sides), WORKSPACE, host)
        wide = [resolve_policy(side, WORKSPACE, host) for side in sides]
    except PolicyError:
        return

    for place in ("/w/x", "/v/x", *(f"{path}/x" for path in PLACES)):
        assert _level(narrow, place) <= min(_level(resolved, place) for resolved in wide), place
