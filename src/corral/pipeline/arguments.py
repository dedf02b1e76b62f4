"""What a caller gives, in the form that sandboxes and runs are made of: the same for all ways to run one.

Whatever cannot be what it is given as is a PolicyError that names the argument.
"""

from __future__ import annotations

import os

from corral.model.arguments import texts_of, wrong_argument
from corral.model.errors import PolicyError
from corral.model.feature import Feature
from corral.model.policy import Policy
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypedDict

    from corral.limits.ceiling import Ceiling
    from corral.model.backend import Host
    from corral.model.container import Container
    from corral.model.event import Listener
    from corral.network.options import NetworkOptions
    from corral.streams.destinations import Destinations, Stream, Target

    class SandboxOptions(TypedDict, total=False):
        """What `Sandbox` takes besides its policy."""

        backend: str
        backends: Iterable[str]
        workspace: str | os.PathLike[str] | None
        waive: Iterable[Feature | str]
        require: Iterable[Feature | str]
        container: Container
        fallback: str
        within: Ceiling | None
        host: Host | None


class RunOptions(Record):
    """The options of one run in a kept sandbox, read."""

    cwd: str | os.PathLike[str] | None
    env: Mapping[str, str] | None
    stdin: bytes
    output: Destinations | None
    timeout: float | None
    on_event: Listener | None


#: What to do where no backend can enforce the policy.
REFUSE, RUN_UNCONFINED = "refuse", "unconfined"


def arguments_of(command: str | Sequence[str]) -> tuple[str, ...]:
    """The arguments of a command: a text is given to a shell, a sequence is not. Empty: there is none."""
    if isinstance(command, str):
        return ("/bin/sh", "-c", command) if command.strip() else ()
    example = "'make test' or ['make', 'test']"
    if isinstance(command, bytes | bytearray) or not hasattr(command, "__iter__"):
        raise wrong_argument("command", command, "a text, or a list of a program and its arguments", example)
    found = []
    for word in command:
        path = os.fspath(word) if hasattr(word, "__fspath__") else word
        if not isinstance(path, str):
            raise wrong_argument("command", word, "texts and paths as its words", example)
        found.append(path)
    return tuple(found)


def read_options(
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | str = b"",
    timeout: float | None = None,
    stream: Stream | None = None,
    stdout: Target | None = None,
    stderr: Target | None = None,
    on_event: Listener | None = None,
) -> RunOptions:
    """The options of `Session.run` and `Pool.run`; a name that is none of them is a TypeError."""
    return RunOptions(cwd, env, bytes_of(stdin), destinations_of(stream, stdout, stderr), timeout, on_event)


def bytes_of(text: bytes | str) -> bytes:
    """What is fed to a command or put into a file; names of files that are not UTF-8 pass unharmed."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if not isinstance(text, bytes | bytearray | memoryview):
        raise wrong_argument("stdin", text, "bytes or a text", "stdin=b'yes\\n'")
    return bytes(text)


def destinations_of(
    stream: Stream | None, stdout: Target | None, stderr: Target | None
) -> Destinations | None:
    """Where output is to go besides the result; None: nowhere."""
    if stream is None and stdout is None and stderr is None:
        return None
    from corral.streams.destinations import Destinations

    return Destinations(stream, stdout, stderr)


def seconds_of(limit: float | None, timeout: float | None) -> float | None:
    """How long a command may take: a `timeout` can only shorten the policy's own limit."""
    if timeout is None:
        return limit
    if not isinstance(timeout, int | float):
        raise wrong_argument("timeout", timeout, "a number of seconds", "timeout=10")
    if not timeout > 0:
        raise PolicyError(
            "timeout",
            f"a command cannot have {timeout:g} seconds",
            why="it would be over before it began",
            fix="give a number of seconds above zero, or leave it out",
        )
    return timeout if limit is None else min(limit, timeout)


def variables_of(env: Mapping[str, str] | None) -> dict[str, str]:
    """Further variables of a command."""
    if env is not None and not hasattr(env, "items"):
        raise wrong_argument("env", env, "a mapping of texts", "env={'DEBUG': '1'}")
    found = dict(env or {})
    for name, value in found.items():
        for part in (name, value):
            if not isinstance(part, str):
                raise wrong_argument("env", part, "texts as names and values", "env={'DEBUG': '1'}")
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise PolicyError(
                "environment-name",
                f"{name!r} cannot be passed to a program",
                why="a name is not empty and has no =, and neither it nor its value has a NUL",
                fix="give it another name",
            )
    return found


def narrow(policy: Policy, timeout: float | None, env: Mapping[str, str] | None) -> Policy:
    """A policy for one command: with less time, and with variables that the caller sets."""
    limits = policy.limits.replace(wall_seconds=seconds_of(policy.limits.wall_seconds, timeout))
    fixed = {**dict(policy.env.fixed), **variables_of(env)}
    return policy.replace(limits=limits, env=policy.env.replace(fixed=tuple(sorted(fixed.items()))))


def features_of(option: str, names: Iterable[Feature | str]) -> frozenset[Feature]:
    """What is given up, on record, or required: the features that an option names."""
    return frozenset(map(_feature, texts_of(option, names, f"{option}=['net.none']")))


def check_waived(policy: Policy, waived: frozenset[Feature]) -> None:
    """Nobody gives up what he insists on."""
    for feature in sorted(waived & policy.requires):
        raise PolicyError(
            "contradiction",
            f"{feature.value} is both required and waived",
            why="what is waived is not enforced, and what is required has to be",
            fix="leave one of them out",
        )


def falls_back(fallback: str) -> bool:
    """Whether commands may run without any sandbox."""
    if not isinstance(fallback, str) or fallback not in {REFUSE, RUN_UNCONFINED}:
        raise PolicyError(
            "unknown-fallback",
            f"there is no fallback {fallback!r}",
            why=f"it is `{REFUSE}` or `{RUN_UNCONFINED}`",
            fix="leave it out: then a policy that cannot be enforced is refused",
        )
    return fallback == RUN_UNCONFINED


def check_companions(within: Ceiling | None, network: NetworkOptions | None) -> None:
    """What else a sandbox is given. By its looks: most runs need neither class."""
    if within is not None and not hasattr(within, "hierarchy"):
        raise wrong_argument("within", within, "a corral.Ceiling", "with corral.Ceiling(...) as ceiling")
    if network is not None and not hasattr(network, "ask"):
        raise wrong_argument("network", network, "corral.NetworkOptions", "corral.NetworkOptions(ask=...)")


def _feature(name: str) -> Feature:
    try:
        return Feature(name)
    except ValueError:
        raise PolicyError(
            "unknown-feature",
            f"there is no feature {name!r}",
            why=f"the features are {', '.join(feature.value for feature in Feature)}",
            fix="name one of them",
        ) from None
