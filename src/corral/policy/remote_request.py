"""RemoteRequest: a command and its whole policy as one line of text, for a corral on another machine."""

from __future__ import annotations

from corral.model.errors import PolicyError
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
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VERSION = 1
_SETS = ("private", "read_only", "protect", "deny_syscalls", "publish", "modules", "requires")


class RemoteRequest(Record):
    run_id: str
    argv: tuple[str, ...]
    cwd: str
    workspace: str
    policy: Policy
    waived: tuple[str, ...] = ()  # names of features
    terminal: bool = False


def encode_request(request: RemoteRequest) -> str:
    """ASCII, without a line feed: what may stand in an argument of any program."""
    import json  # few backends send anyone on a request

    fields = {name: getattr(request, name) for name in RemoteRequest._fields if name != "policy"}
    return json.dumps({"v": _VERSION, **fields, "policy": _policy_fields(request.policy)})


def decode_request(text: str) -> RemoteRequest:
    """The request that was encoded. Raises PolicyError for anything else: nothing is guessed."""
    import json

    try:
        found = json.loads(text)
        if not isinstance(found, dict) or found.pop("v") != _VERSION:
            raise ValueError("it is of another version")
        policy = _read_policy(found.pop("policy"))
        run_id = found["run_id"]
        if not (isinstance(run_id, str) and run_id.isalnum() and run_id.isascii()):
            raise ValueError("it has no number")
        request = RemoteRequest(
            **{
                **found,
                "policy": policy,
                "argv": tuple(map(_text, found["argv"])),
                "waived": tuple(map(_text, found["waived"])),
            }
        )
        if encode_request(request) != text or not _is_sound(request):
            raise ValueError("it says something that cannot be understood")
    except (ValueError, TypeError, KeyError, AttributeError, LookupError) as problem:
        raise PolicyError(
            "remote-request",
            "the request cannot be carried out",
            why=f"it cannot be read: {problem}",
            fix="have the same version of corral on both machines",
        ) from problem
    return request


def _is_sound(request: RemoteRequest) -> bool:
    """Fields that are taken over as they come are of their own type, and limits are numbers."""
    limits = [getattr(request.policy.limits, name) for name in Limits._fields]
    limits += [getattr(request.policy.defaults, name) for name in Defaults._fields]
    return (
        isinstance(request.terminal, bool)
        and all(isinstance(text, str) for text in (request.cwd, request.workspace))
        and all(type(value) in {int, float, type(None)} for value in limits)
    )


def _policy_fields(policy: Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "fs": [[rule.path, rule.access.value, rule.optional, list(rule.within)] for rule in policy.fs],
        **{name: sorted(getattr(policy, name)) for name in _SETS},
        "tools": policy.tools,
        "spawn": policy.spawn,
        "debug": policy.debug,
        "net": [policy.net.mode.value, sorted(policy.net.allow), sorted(policy.net.deny)],
        "limits": {name: getattr(policy.limits, name) for name in Limits._fields},
        "defaults": {name: getattr(policy.defaults, name) for name in Defaults._fields},
        "env": [sorted(policy.env.passed), [list(pair) for pair in policy.env.fixed]],
        "response": policy.response.value,
    }


def _read_policy(fields: dict[str, Any]) -> Policy:
    mode, allow, deny = fields["net"]
    passed, fixed = fields["env"]
    return Policy(
        name=_text(fields["name"]),
        fs=tuple(
            FsRule(_text(path), FsAccess(access), bool(optional), tuple(map(_text, within)))
            for path, access, optional, within in fields["fs"]
        ),
        tools=bool(fields["tools"]),
        spawn=bool(fields["spawn"]),
        debug=bool(fields["debug"]),
        net=NetPolicy(NetMode(mode), frozenset(map(_text, allow)), frozenset(map(_text, deny))),
        limits=Limits(**fields["limits"]),
        defaults=Defaults(**fields["defaults"]),
        env=EnvPolicy(
            frozenset(map(_text, passed)), tuple((_text(name), _text(value)) for name, value in fixed)
        ),
        response=Response(fields["response"]),
    ).replace(**{name: frozenset(map(_text, fields[name])) for name in _SETS})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
