"""Defaults: limits where the host can hold them, on record where it cannot; never a reason to refuse."""

from __future__ import annotations

import pytest

from corral.backends._limits import BY_GROUPS
from corral.model.enforcer import SYSTEMD, Enforcer
from corral.model.errors import CapabilitySyntaxError, UnenforceableError
from corral.model.feature import Feature
from corral.model.policy import Defaults, Policy
from corral.model.rules.capability import PolicyDraft, capabilities_of, parse_capability
from corral.policy.compose import build_policy
from corral.policy.preset import PRESETS, load_preset
from corral.policy.remote_request import RemoteRequest, decode_request, encode_request
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

MEMINFO = {"/proc/meminfo": "MemTotal:        8000000 kB\nMemFree:          100 kB\n"}


class ScopedHost(FakeHost):
    """A host where an ordinary user has systemd's manager, and no control groups of his own."""

    def enforcers(self) -> tuple[Enforcer, ...]:
        return (Enforcer("cgroup2"), Enforcer(SYSTEMD, BY_GROUPS))


def explained(*capabilities: str, preset: str = "moderate", host: FakeHost | None = None, **options):
    sandbox = Sandbox(build_policy(preset, capabilities), host=host or FakeHost(), **options)
    return sandbox.explain(("true",))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_bounds_the_number_of_processes(preset: str) -> None:
    policy = load_preset(preset)

    assert policy.limits.pids is not None or policy.defaults.pids == 4096


def test_an_ordinary_user_is_held_to_it_without_control_groups() -> None:
    explanation = explained()

    assert explanation.plan.resolved.limits.pids == 4096
    assert explanation.launch.enforced[Feature.LIMIT_PIDS] == "RLIMIT_NPROC in the user namespace"
    assert explanation.plan.unheld == ()


def test_where_nobody_can_hold_it_the_command_runs_and_the_record_says_so() -> None:
    explanation = explained(host=FakeHost(uid=0, home="/root"))

    assert explanation.plan.resolved.limits.pids is None
    assert explanation.plan.unheld == ((Feature.LIMIT_PIDS, "4096"),)
    assert Feature.LIMIT_PIDS not in explanation.plan.requires


def test_a_limit_that_nobody_can_hold_is_refused_all_the_same() -> None:
    with pytest.raises(UnenforceableError):
        explained("pids:limit:10", host=FakeHost(uid=0, home="/root"), backends=["native"])


def test_what_was_waived_is_on_record_already() -> None:
    explanation = explained(waive=["limit.pids"])

    assert explanation.plan.resolved.limits.pids is None
    assert explanation.plan.unheld == ()


def test_the_same_ground_is_the_same_object_for_every_run() -> None:
    """Backends keep what they compiled from it."""
    sandbox = Sandbox("moderate", host=FakeHost())

    assert sandbox.explain(("a",)).plan.resolved is sandbox.explain(("b",)).plan.resolved


def test_memory_is_a_share_of_the_machine() -> None:
    explanation = explained("memory:default:75%", host=FakeHost(MEMINFO, holds=BY_GROUPS))

    assert explanation.plan.resolved.limits.memory_bytes == 6_000_000 * 1024
    assert Feature.LIMIT_MEMORY in explanation.launch.enforced


def test_memory_that_cannot_be_held_is_not_looked_at_by_the_launcher_either() -> None:
    explanation = explained("memory:default:1GiB", "cpu:default:100%")

    assert explanation.plan.unheld == ((Feature.LIMIT_MEMORY, "1.0 GiB"), (Feature.LIMIT_CPU, "100%"))
    assert explanation.plan.resolved.limits.memory_bytes is None


def test_a_share_of_a_machine_that_does_not_say_how_much_it_has_is_on_record() -> None:
    assert explained("memory:default:75%", host=FakeHost(holds=BY_GROUPS)).plan.unheld == (
        (Feature.LIMIT_MEMORY, "75%"),
    )


def test_no_scope_is_made_for_a_default_that_the_kernel_holds_without() -> None:
    assert explained(host=ScopedHost()).launch.group is None
    asked = explained("pids:limit:100", host=ScopedHost()).launch.group
    assert asked is not None and asked.enforcer == SYSTEMD


def test_a_limit_takes_the_place_of_a_default() -> None:
    policy = build_policy("moderate", ["memory:default:50%", "memory:limit:8GiB", "pids:limit:9999"])

    assert policy.defaults == Defaults()
    assert policy.limits.memory_bytes == 8 << 30


def test_a_narrower_policy_does_not_lift_a_default() -> None:
    user = build_policy("moderate", ["memory:default:1GiB"])
    project = build_policy("moderate", ["memory:default:1GiB", "memory:limit:64GiB", "pids:default:9000"])
    met = user & project

    assert met <= user
    assert not project <= user
    assert met.defaults.pids == 4096
    resolved = Sandbox(met, host=FakeHost(holds=BY_GROUPS)).explain(("true",)).plan.resolved
    assert resolved.limits.memory_bytes == 1 << 30


@pytest.mark.parametrize("text", ["memory:default:75%", "memory:default:2GiB", "cpu:default:150%"])
def test_a_default_is_the_same_after_a_journey(text: str) -> None:
    policy = build_policy("strict", [text])
    draft = PolicyDraft(Policy(name="strict"))
    for capability in capabilities_of(policy):
        draft.add(capability, optional=True)
    request = decode_request(encode_request(RemoteRequest("a1", ("true",), "/w", "/w", policy)))

    assert draft.build().defaults == policy.defaults == request.policy.defaults
    assert str(parse_capability(text)) == text
    assert policy.digest() != build_policy("strict").digest()


@pytest.mark.parametrize(
    "text", ["memory:default:0%", "memory:default:101%", "memory:default:10", "pids:default:0"]
)
def test_what_cannot_be_a_default_is_refused(text: str) -> None:
    with pytest.raises(CapabilitySyntaxError):
        parse_capability(text)


def test_a_refused_limit_comes_with_the_command_that_would_have_it_held() -> None:
    class Unreached(FakeHost):
        def enforcers(self) -> tuple[Enforcer, ...]:
            return (
                Enforcer(SYSTEMD, frozenset(), "it cannot be asked", "`sudo loginctl enable-linger 1000`"),
            )

    with pytest.raises(UnenforceableError) as refused:
        explained(preset="testing", host=Unreached(), backends=["native"])

    assert refused.value.fix.startswith("`sudo loginctl enable-linger 1000`; or ask for less")
