"""Launches of both engines on a host in memory, and what was said in them."""

from __future__ import annotations

import csv
import io

import pytest

from corral.backends.registry import get_backend
from corral.linux.decode import decode
from corral.linux.spec import Expect, ExpectFlag
from corral.model.container import Container
from corral.model.plan import Command
from corral.planning.build import build, nested_repositories
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from support.fake_host import FakeHost
from support.golden_cases import REPOSITORY, RUN_ID, WORKSPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.linux.spec import Spec
    from corral.model.launch import Launch

ENGINES = ("docker", "podman")
READ_ONLY, MOUNT_POINT, OTHER = ExpectFlag.READ_ONLY, ExpectFlag.MOUNT_POINT, ExpectFlag.OTHER
both = pytest.mark.parametrize("engine", ENGINES)


def launch_of(
    engine: str,
    *capabilities: str,
    host: FakeHost | None = None,
    cwd: str = WORKSPACE,
    preset: str = "moderate",
    **settings,
) -> Launch:
    host = host or FakeHost(REPOSITORY, cwd=WORKSPACE)
    backend = get_backend(engine)
    probe = backend.probe(host)
    policy = build_policy(preset, capabilities)
    resolved = resolve_policy(policy, WORKSPACE, host)
    plan = build(
        policy,
        Command(("make", "all"), cwd),
        resolved,
        host,
        run_id=RUN_ID,
        nested=nested_repositories(resolved, host),
        waived=resolved.requires - probe.enforces,
        container=Container(**settings),
    )
    return backend.lower(plan, probe)


def values(launch: Launch, option: str) -> list[str]:
    pairs = zip(launch.argv, launch.argv[1:], strict=False)
    return [value for name, value in pairs if name == option]


def mounted(launch: Launch) -> dict[str, dict[str, str]]:
    """Place -> the words of its mount, read as Go reads them."""
    found = {}
    for text in values(launch, "--mount"):
        (row,) = csv.reader(io.StringIO(text, newline=""), strict=True)
        words = dict((field.partition("=") if "=" in field else (field, "", ""))[::2] for field in row)
        found[words["dst"]] = words
    return found


def spec_of(launch: Launch) -> Spec:
    return decode(launch.spec)


def expected(launch: Launch) -> dict[str, Expect]:
    return {expect.path: expect for expect in spec_of(launch).expects}
