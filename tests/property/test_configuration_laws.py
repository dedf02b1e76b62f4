"""Laws of configurations.

- whatever a project's file says, nothing is permitted that the user's own does not permit
- flags mean the same with and without the machinery of configurations
- whatever the text of a file, it is read or its mistakes are told; nothing else happens
- what the validator accepts, the JSON Schema accepts too, and what the schema refuses, so does the validator
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from corral.cli.flags import flag_settings
from corral.cli.options import OPTIONS, defaults
from corral.cli.request import flag_capabilities
from corral.config.document import DocumentProblems
from corral.config.keys import KEYS, TOP_TABLES
from corral.config.narrow import narrow
from corral.config.read import read_settings
from corral.config.schema import build_schema
from corral.config.setting import Setting, Source
from corral.config.to_policy import Compiled, compile_settings
from corral.policy.compose import compose
from corral.policy.preset import DEFAULT_PRESET, PRESETS
from support.examples import examples

PATHS = ["/", "/srv", "/srv/a", "/srv/a/b", "/usr", "/etc", "~", "~/a", "~/.ssh", "~/../x", "${workspace}"]
PATHS += ["${workspace}/a", "${workspace}/a/b", "${workspace}/../x", "/tmp", "/tmp/x"]
HOSTS = ["*", "*.org", "a.org", "*.a.org", "b.a.org", "a.org:8080", "localhost", "[::1]:443", "10.0.0.1"]
VARIABLES = ["*", "A*", "AB", "AB*", "PATH", "GITHUB_TOKEN"]
CAPABILITIES = [
    *(f"filesystem:{verb}:{path}" for verb in ("read", "write", "deny", "private") for path in PATHS),
    *(f"network:{word}" for word in ("none", "limited", "full", "https:a.org", "tcp:b.org:1", "deny:a.org")),
    *("memory:limit:1g", "memory:limit:9g", "time:limit:1s", "cpu:time:1s", "pids:limit:5"),
    *(
        "process:spawn",
        "process:debug",
        "process:none",
        "module:call:x",
        "syscall:deny:chmod",
        "filesystem:tools:path",
    ),
    *("filesystem:protect:x", "filesystem:protect:.git", "env:pass:*", "env:pass:AB", "env:set:AB=1"),
]

#: What a project's file may ask for in any case.
NARROW = {
    "fallback": "refuse",
    "container.pull": "never",
    "container.root": "read-only",
    "container.keep": False,
}

#: Values for each key: right ones, so that most documents mean something.
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "allow_domains": st.lists(st.sampled_from(HOSTS), max_size=3),
    "deny_domains": st.lists(st.sampled_from([host for host in HOSTS if ":" not in host]), max_size=2),
    "environment.pass": st.lists(st.sampled_from(VARIABLES), max_size=2),
    "environment.set": st.dictionaries(st.sampled_from(["AB", "PATH"]), st.sampled_from(["", "1"])),
    "capabilities": st.lists(st.sampled_from(CAPABILITIES), max_size=4),
    "require": st.lists(st.sampled_from(["fs.deny", "syscalls"]), max_size=2),
    "waive": st.lists(st.sampled_from(["fs.read", "net.none"]), max_size=2),
    "bypass_tools": st.lists(st.sampled_from(["sh", "git"]), max_size=2),
    "image": st.sampled_from(["a", "b"]),
    "backends": st.lists(st.sampled_from(["native", "landlock", "docker", "podman"]), max_size=3),
    "container.workspace": st.sampled_from(["/workspace", "/work", "same"]),
    "container.ports": st.lists(st.sampled_from(["80:80", "127.0.0.1:53:53/udp"]), max_size=2),
    "container.volumes": st.lists(st.sampled_from(["cache:/cache", "/srv:/srv:ro"]), max_size=2),
    "container.entrypoint": st.lists(st.sampled_from(["/bin/a", "-b"]), max_size=2),
    "container.user": st.sampled_from(["caller", "root", "5", "1000:5"]),
    "container.name": st.sampled_from(["ab", "abc"]),
    "resources.memory": st.sampled_from(["1g", "4g", 2**31]),
    "defaults.memory": st.sampled_from(["1g", "50%", "100%", 2**31]),
    "resources.time": st.sampled_from(["1s", "1h", 5]),
    "resources.pids": st.sampled_from([1, 10, "100"]),
    "check.rules": st.lists(st.sampled_from(PATHS), max_size=2),
    "audit.key": st.sampled_from(PATHS),
    "resources.cpus": st.sampled_from([0.5, 2, "50%"]),
}


def values_for(name: str, schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if name in _VALUES:
        return _VALUES[name]
    if name.endswith("_paths"):
        return st.lists(st.sampled_from(PATHS), max_size=3)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return st.booleans() if schema["type"] == "boolean" else st.sampled_from([1000, "20000"])


sandboxes = st.fixed_dictionaries(
    {}, optional={key.name: values_for(key.name, key.kind.schema) for key in KEYS}
)


def document(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`resources.memory` and `audit.enabled` as a file has them."""
    table: dict[str, Any] = {}
    for name, value in flat.items():
        group, _, last = name.rpartition(".")
        (table.setdefault(group, {}) if group else table)[last] = value
    beside = {name: table.pop(name) for name in TOP_TABLES if name in table}
    return {"sandbox": table, **beside}


def read(flat: Mapping[str, Any], source: Source) -> tuple[Setting, ...]:
    text = json.dumps(document(flat))
    return read_settings(text, "corral.json", source).for_agent("")


@examples(300)
@given(sandboxes, sandboxes, sandboxes)
def test_a_project_never_widens(
    user: dict[str, Any], project: dict[str, Any], another: dict[str, Any]
) -> None:
    allowed = compile_settings(read(user, Source.USER))
    narrowed = narrow(allowed, read(project, Source.PROJECT), allowed).compiled
    twice = narrow(narrowed, read(another, Source.PROJECT), allowed).compiled

    for inner, outer in ((narrowed, allowed), (twice, narrowed), (twice, allowed)):
        assert inner.policy <= outer.policy
        assert dict(inner.policy.env.fixed) == dict(outer.policy.env.fixed)
        assert_no_wider(inner, outer)


def assert_no_wider(inner: Compiled, outer: Compiled) -> None:
    assert inner.is_confined or not outer.is_confined
    assert inner.backend in {outer.backend, "none"} or outer.backend in {"auto", "none"}
    assert inner.backend != "none" or outer.backend == "none" or not inner.is_confined
    settled = ("user", "name", "start_timeout", "network", "workspace")
    for name in ("image", *(f"container.{name}" for name in settled)):
        assert inner.value(name) == outer.value(name)
    permitted = outer.layer("backends")
    assert not permitted or set(inner.layer("backends")) <= set(permitted)
    assert inner.backend in {outer.backend, "none", "auto", *permitted} or not permitted
    for name, narrow_value in NARROW.items():
        assert inner.value(name) in {narrow_value, outer.value(name)}
    assert inner.layer("container.entrypoint") == outer.layer("container.entrypoint")
    assert inner.value("mounts.persist_caches") <= outer.value("mounts.persist_caches")  # type: ignore[operator]
    for name in ("waive", "bypass_tools", "container.ports", "container.volumes"):
        assert {each.value for each in inner.all(name)} <= {each.value for each in outer.all(name)}


@examples(200)
@given(sandboxes, sandboxes)
def test_what_was_cut_is_told_and_what_was_not_is_followed(
    user: dict[str, Any], project: dict[str, Any]
) -> None:
    allowed = compile_settings(read(user, Source.USER))
    requested = read(project, Source.PROJECT)
    narrowed = narrow(allowed, requested, allowed)

    if not narrowed.cuts:
        asked = compile_settings((*allowed.settings, *requested))
        assert asked.policy <= narrowed.compiled.policy


flag_values = {
    "profile": st.sampled_from(PRESETS),
    "read": st.lists(st.sampled_from(PATHS)),
    "write": st.lists(st.sampled_from(PATHS)),
    "deny": st.lists(st.sampled_from(PATHS)),
    "net": st.sampled_from(["none", "limited", "full"]),
    "allow": st.lists(st.sampled_from(["example.org", "*.example.org", "example.org:22", "[::1]:80"])),
    "cap": st.lists(st.sampled_from(CAPABILITIES)),
    "env": st.lists(st.sampled_from(["AB", "AB=1", "AB=a=b", "A*"])),
    "memory": st.sampled_from(["1g", "512m"]),
    "cpus": st.sampled_from(["1", "50%"]),
    "pids": st.sampled_from(["5", "64"]),
    "timeout": st.sampled_from(["5", "1m"]),
    "output_limit": st.sampled_from(["1m", "5k"]),
}


@given(st.fixed_dictionaries({}, optional=flag_values))
def test_flags_mean_the_same_with_and_without_a_configuration(given_flags: dict[str, Any]) -> None:
    options = defaults() | {
        name: tuple(value) if isinstance(value, list) else value for name, value in given_flags.items()
    }
    assert {option.name for option in OPTIONS} == set(options)

    plain = compose(
        str(options["profile"] or DEFAULT_PRESET), [text for _, text in flag_capabilities(options)]
    )

    assert compile_settings(flag_settings(options)).policy == plain


documents = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(PATHS + CAPABILITIES),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "sandbox",
                    "agent",
                    "security",
                    "resources",
                    "mounts",
                    *(k.name.split(".")[-1] for k in KEYS),
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
VALIDATOR = jsonschema.Draft202012Validator(build_schema())


@examples(400)
@given(st.dictionaries(st.sampled_from(["sandbox", "agent", "security", "x"]), documents, max_size=3))
def test_the_schema_accepts_whatever_the_validator_accepts(document: dict[str, Any]) -> None:
    try:
        read_settings(json.dumps(document), "corral.json", Source.USER)
    except DocumentProblems:
        return
    assert list(VALIDATOR.iter_errors(document)) == []


@given(sandboxes)
def test_right_documents_are_right_for_both(flat: dict[str, Any]) -> None:
    read(flat, Source.USER)
    assert list(VALIDATOR.iter_errors(document(flat))) == []


@examples(300)
@given(st.text(max_size=200), st.sampled_from(["corral.toml", "corral.json", "pyproject.toml"]))
def test_any_text_is_read_or_its_mistakes_are_told(text: str, file: str) -> None:
    try:
        read_settings(text, file, Source.PROJECT)
    except DocumentProblems as wrong:
        assert wrong.problems
        for problem in wrong.problems:
            assert problem.line >= 1 and problem.column >= 1 and problem.fix
