"""What a program may give: the right kinds of things, or an error in words that names the argument."""

from __future__ import annotations

import asyncio
import json
from enum import Enum
from pathlib import Path

import pytest

import corral
from corral import aio
from corral.model.errors import CorralError, PolicyError
from corral.model.spoken import in_python
from corral.pipeline.arguments import read_options
from support.fake_host import FakeHost

HERE = str(Path(__file__).parent)


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: corral.Sandbox(None), ("None", "`policy`", "corral.Policy")),
        (lambda: corral.Sandbox(corral.Policy(limits=5)), ("limits is 5", "corral.Limits")),
        (
            lambda: corral.Sandbox(corral.Policy(limits=corral.Limits(wall_seconds="5"))),
            ("wall_seconds is '5'",),
        ),
        (lambda: corral.Sandbox(waive="net.none"), ("`waive`", "waive=['net.none']")),
        (lambda: corral.Sandbox(waive=[5]), ("`waive`", "int")),
        (lambda: corral.Sandbox(backends="native"), ("`backends`", "a list")),
        (lambda: corral.Sandbox(container="python:3.12"), ("`container`", "corral.Container")),
        (lambda: corral.Sandbox(fallback=[]), ("there is no fallback []",)),
        (lambda: corral.Sandbox(workspace=5), ("5", "a path")),
        (lambda: corral.Sandbox(within=5), ("`within`", "corral.Ceiling")),
        (lambda: corral.Sandbox(network=5), ("`network`", "corral.NetworkOptions")),
        (lambda: corral.Pool(None), ("`policy`",)),
        (lambda: corral.run(5), ("5", "`command`", "['make', 'test']")),
        (lambda: corral.run(b"ls"), ("b'ls'", "bytes")),
        (lambda: corral.run(["ls", 5]), ("5", "`command`")),
        (lambda: corral.run([]), ("no command", "a list of a program and its arguments")),
        (lambda: corral.run("ls", cwd=5), ("5", "`cwd`", "a path", "cwd='project'")),
        (lambda: corral.run("ls", stdin=5), ("`stdin`", "bytes or a text")),
        (lambda: corral.run("ls", timeout="5"), ("`timeout`", "seconds")),
        (lambda: corral.run("ls", timeout=0), ("0 seconds",)),
        (lambda: corral.run("ls", env=["A=b"]), ("`env`", "a mapping")),
        (lambda: corral.run("ls", env={"A": 1}), ("`env`", "int")),
        (lambda: corral.run("ls", env={"A=": "1"}), ("'A='",)),
        (
            lambda: corral.build_policy("strict", "time:limit:10s"),
            ("`capabilities`", "['time:limit:10s']"),
        ),
        (lambda: corral.build_policy("strict", 5), ("`capabilities`",)),
        (lambda: corral.build_policy("strict", [5]), ("`capabilities`", "int")),
        (lambda: corral.build_policy(5), ("`policy`",)),
        (lambda: corral.load_preset(None), ("`policy`",)),
        (lambda: corral.parse_capability(5), ("`capability`",)),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(attempt, words: tuple[str, ...]) -> None:
    with pytest.raises(corral.PolicyError) as caught:
        attempt()

    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("with `--backend native --waive net.none,fs.deny`; see", None),
        ("in a container use --backend landlock", "in a container use backend='landlock'"),
        ("added with --read", "added with 'filesystem:read:PATH'"),
        ("use `--net none`, or a newer kernel", "use `'network:none'`, or a newer kernel"),
        ("run `systemd-run --user --scope -p Delegate=yes`", "run `systemd-run --user --scope"),
        ("run `corral doctor --json`", "run `corral doctor --json`"),
        ("outside, as in --publish 8080:3000", "outside, as in 'network:publish:8080:3000'"),
        ("names hosts (`--allow HOST`), or", "names hosts (`'network:https:HOST'`), or"),
        ("takes `--cap process:debug`", "takes `'process:debug'`"),
    ],
)
def test_flags_are_arguments_in_python(text: str, spoken: str | None) -> None:
    found = in_python(text)

    if spoken is None:
        spoken = "with `backend='native', waive=['net.none', 'fs.deny']`; see"
    assert found.startswith(spoken)


def test_an_error_speaks_to_whoever_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = corral.build_policy("moderate", ["network:full", "network:deny:example.org"])
    sandbox = corral.Sandbox(policy, backend="native", workspace=HERE, host=FakeHost(cwd=HERE))
    in_words = {}
    for is_line in (False, True):
        monkeypatch.setattr(CorralError, "speaks_of_flags", is_line)
        with pytest.raises(corral.UnenforceableError) as caught:
            sandbox.explain("true")
        in_words[is_line] = caught.value.fix

    assert "backend='native', waive=['net.except']" in in_words[False]
    assert "--backend native --waive net.except" in in_words[True]
    assert "--" not in in_words[False]


def test_a_mistake_in_a_capability_points_to_no_command_line() -> None:
    with pytest.raises(corral.CapabilitySyntaxError) as caught:
        corral.parse_capability("network:https:a b")

    assert caught.value.fix == "write it as in 'filesystem:read:/docs' or 'time:limit:10s'"


@pytest.mark.parametrize(
    ("subject", "hint", "in_flags", "in_python"),
    [
        ("x.org", "network:https:x.org", "--allow x.org", "'network:http:x.org' and 'network:https:x.org'"),
        ("x.org", "network:https:10.0.0.5", "--allow 10.0.0.5", "'network:http:10.0.0.5' and "),
        ("x.org:443", "network:https:x.org", "--cap network:https:x.org", "'network:https:x.org'"),
        ("/srv", "filesystem:read:/srv", "--read /srv", "'filesystem:read:/srv'"),
    ],
)
def test_a_violation_speaks_to_whoever_reads_it(
    monkeypatch: pytest.MonkeyPatch, subject: str, hint: str, in_flags: str, in_python: str
) -> None:
    violation = corral.Violation(corral.Feature.NET_DOMAINS, subject, corral.Evidence.OBSERVED, "no", hint)

    assert f"to permit it: {in_python}" in violation.describe()
    monkeypatch.setattr(CorralError, "speaks_of_flags", True)
    assert violation.describe().endswith(f"to permit it: {in_flags}")


def test_every_enumeration_goes_into_json() -> None:
    kinds = [
        kind
        for kind in (getattr(corral, name) for name in corral.__all__)
        if isinstance(kind, type) and issubclass(kind, Enum)
    ]

    assert corral.Outcome in kinds and corral.Feature in kinds
    for kind in kinds:
        assert json.loads(json.dumps({member: member for member in kind})) == {
            member.value: member.value for member in kind
        }


@pytest.mark.parametrize("run", [corral.run, lambda *args, **options: asyncio.run(aio.run(*args, **options))])
def test_a_container_can_be_given_for_one_command(run) -> None:
    """It is the one that counts: what no engine should be told is refused before anything is asked of one."""
    with pytest.raises(PolicyError) as caught:
        run(["true"], backend="docker", container=corral.Container(image="--privileged"))

    assert caught.value.code == "container-setting" and "--privileged" in caught.value.what


@pytest.mark.parametrize("setting", [{"name": "review"}, {"keep": True}], ids=str)
def test_a_pool_has_no_container_that_there_is_only_one_of(setting: dict[str, object]) -> None:
    sandbox = corral.Sandbox(backend="docker", container=corral.Container(**setting), workspace=HERE)
    with pytest.raises(PolicyError) as caught:
        corral.Pool(sandbox)

    assert caught.value.code == "container-setting"


def test_the_options_of_a_run_in_a_kept_sandbox_are_read_and_a_misspelt_one_is_an_error() -> None:
    read = read_options(stdin="in", timeout=2.0, stream=lambda _name, _data: None)

    assert (read.stdin, read.timeout, read.cwd) == (b"in", 2.0, None)
    assert read.output is not None
    assert read_options().output is None
    with pytest.raises(TypeError, match="tiemout"):
        read_options(tiemout=2.0)  # type: ignore[call-arg]
