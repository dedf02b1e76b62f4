"""Strategies for policies whose parts meet: few names, so that paths nest and patterns overlap."""

from __future__ import annotations

from hypothesis import strategies as st

from corral.model.policy import (
    Defaults,
    EnvPolicy,
    FsAccess,
    FsRule,
    Limits,
    NetMode,
    NetPolicy,
    Policy,
    Response,
)

_parts = st.lists(st.sampled_from(["a", "b"]), max_size=3)
#: A handful of nested paths, in all three spellings.
paths = st.builds(
    lambda root, parts: "/".join([root, *parts]) or "/",
    st.sampled_from(["", "", "~", "${workspace}", "${workspace}/.."]),
    _parts,
)
#: Anchored patterns, which one path or several fulfil, and floating ones.
patterns = st.one_of(
    st.builds(
        lambda root, parts, last: "/".join([root, *parts, last]),
        st.sampled_from(["", "~", "${workspace}", "**"]),
        st.lists(st.sampled_from(["a", "b", "*", "[ab]"]), max_size=1),
        st.sampled_from(["a*", "?", "*/", "[!a]"]),
    ),
    st.sampled_from(["**/a", "**/b/a", "/**/b/?"]),
)
_plain_rules = st.builds(FsRule, paths, st.sampled_from(FsAccess), st.booleans())
_pattern_rules = st.builds(FsRule, patterns, st.sampled_from([FsAccess.READ, FsAccess.DENY]))
rules = st.one_of(_plain_rules, _plain_rules, _plain_rules, _pattern_rules)
grants = st.builds(FsRule, paths, st.sampled_from([FsAccess.READ, FsAccess.WRITE]), st.booleans())

hosts = st.sampled_from(["*", "*.a.org", "*.b.a.org", "a.org", "b.a.org", "c.b.a.org", "x.net", "10.0.0.1"])
#: Ports that two schemes share, and one that is nobody's.
endpoints = st.builds(
    lambda scheme, host, port: f"{scheme}:{host}{port if scheme == 'tcp' else ''}",
    st.sampled_from(["http", "https", "tcp"]),
    hosts,
    st.sampled_from([":80", ":443", ":5432"]),
)
nets = st.one_of(
    st.builds(
        NetPolicy,
        st.just(NetMode.LIMITED),
        st.frozensets(endpoints, max_size=4),
        st.frozensets(hosts, max_size=2),
    ),
    st.builds(
        NetPolicy,
        st.sampled_from([NetMode.NONE, NetMode.FULL]),
        st.just(frozenset()),
        st.frozensets(hosts, max_size=2),
    ),
)
#: One connection that a command could try: a plain host, never a pattern.
connections = st.tuples(
    st.sampled_from(["http", "https", "tcp"]),
    st.sampled_from(["a.org", "b.a.org", "c.b.a.org", "d.a.org", "x.net", "y.net", "10.0.0.1"]),
    st.sampled_from([80, 443, 5432]),
)

_amounts = st.one_of(st.none(), st.sampled_from([2**20, 2**21, 3 * 2**20]))
limits = st.builds(Limits, memory_bytes=_amounts, pids=_amounts, output_bytes=_amounts)
_shares = st.one_of(st.none(), st.sampled_from([0.25, 0.5, 1.0]))
defaults = st.builds(Defaults, memory_bytes=_amounts, memory_share=_shares, cpus=_shares, pids=_amounts)

variables = st.sampled_from(["LANG", "LC_ALL", "LC_CTYPE", "L", "PATH", "P"])
_patterns = st.one_of(variables, st.sampled_from(["L*", "LC_*", "LC_A*", "P*"]))
_fixed = st.dictionaries(variables, st.sampled_from(["", "1", "2"]), max_size=2)
envs = st.builds(
    EnvPolicy, st.frozensets(_patterns, max_size=3), _fixed.map(lambda pairs: tuple(pairs.items()))
)


def _sets(*names: str) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names), max_size=2)


def policies(fs: st.SearchStrategy[FsRule] = rules) -> st.SearchStrategy[Policy]:
    return st.builds(
        Policy,
        name=st.sampled_from(["one", "two"]),
        fs=st.lists(fs, max_size=5).map(tuple),
        private=st.frozensets(paths, max_size=2),
        protect=_sets(".git", ".git/hooks", ".envrc", "**/a", "b/*"),
        tools=st.booleans(),
        net=nets,
        limits=limits,
        defaults=defaults,
        env=envs,
        deny_syscalls=_sets("chmod", "chown"),
        spawn=st.booleans(),
        debug=st.booleans(),
        publish=_sets("3000", "8080:3000"),
        modules=_sets("parser", "report"),
        response=st.sampled_from(Response),
        requires=_sets("fs.deny", "net.none"),
    )
