"""A child policy that names a link: it must not reach by it what its parent never granted.

Each test has two controls: the same command unconfined, and under the request alone, where the trap works.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from corral.model.errors import PolicyError, UnenforceableError
from corral.model.policy import Policy
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from corral.selftest.battery import claims_of
from corral.selftest.stage import Stage, StagedHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BACKEND = "native"


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The parent grants `out/shared`. `out/secret` lies beside it, and `out/shared/link` leads there."""
    try:
        claims_of(BACKEND)
    except UnenforceableError as problem:
        required = request.config.getoption("--require", default="").split(",")
        (pytest.fail if BACKEND in required else pytest.skip)(problem.why)
    with Stage() as made:
        made.write("out/shared/plain", made.token)
        made.write("out/shared/part/file", "untouched")
        os.symlink("../secret", made.at("out/shared/link"))
        os.symlink("shared/part", made.at("out/alias"))
        yield made


def _run(stage: Stage, policy: Policy, line: str) -> str:
    sandbox = Sandbox(policy, backend=BACKEND, workspace=stage.workspace, host=StagedHost(stage))
    return sandbox.run(["/bin/sh", "-c", f"echo {stage.sentinel}; {line}"]).stdout


def _optional(policy: Policy) -> Policy:
    return policy.replace(fs=tuple(rule.replace(optional=True) for rule in policy.fs))


def test_a_link_inside_the_parents_grant_does_not_lead_to_a_secret_outside(stage: Stage) -> None:
    shared, link = stage.at("out/shared"), stage.at("out/shared/link")
    line = f"cat {stage.at('out/secret')} {link} {shared}/plain"
    parent = build_policy("strict", [f"filesystem:read:{shared}"])
    request = build_policy("strict", [f"filesystem:read:{link}", f"filesystem:read:{shared}/plain"])
    control = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False, timeout=10)
    assert control.stdout.count(stage.secret) == 2
    assert stage.secret in _run(stage, request, line), "the request alone leads to the secret"

    with pytest.raises(PolicyError) as refused:
        _run(stage, parent.grant(request).policy, line)
    seen = _run(stage, parent.grant(_optional(request)).policy, line)

    assert refused.value.code == "grant-through-link"
    assert stage.sentinel in seen
    assert stage.token in seen, "what does lie in the parent's grant is there"
    assert stage.secret not in seen


def test_what_is_read_only_to_the_parent_by_another_name_stays_so(stage: Stage) -> None:
    shared, file = stage.at("out/shared"), stage.at("out/shared/part/file")
    parent = build_policy(
        "strict", [f"filesystem:write:{shared}", f"filesystem:read:{stage.at('out/alias')}"]
    )
    request = build_policy("strict", [f"filesystem:write:{shared}"])
    line = f"echo changed >{file}; echo changed >{shared}/plain"
    subprocess.run(["/bin/sh", "-c", line], check=True, timeout=10)
    assert stage.read("out/shared/part/file") == "changed\n"
    stage.write("out/shared/part/file", "untouched")
    _run(stage, request, line)
    assert stage.read("out/shared/part/file") == "changed\n", "the request alone may write there"
    stage.write("out/shared/part/file", "untouched")
    stage.write("out/shared/plain", stage.token)

    seen = _run(stage, parent.grant(request).policy, line)

    assert stage.sentinel in seen
    assert stage.read("out/shared/part/file") == "untouched"
    assert stage.read("out/shared/plain") == "changed\n", "elsewhere the child may write"
