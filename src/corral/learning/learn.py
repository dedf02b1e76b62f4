"""Learn: run a command in an observed sandbox, and add what it used to what is known of this workspace."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile

from corral.host.state import read_state, write_state
from corral.learning.observation import Observation, observation_from, observe
from corral.learning.trace import OPTIONS, AccessKind, parse_trace
from corral.model.decision import Reason
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.plan import StdioMode
from corral.model.rules.capability import Capability, PolicyDraft
from corral.model.rules.pattern import escape
from corral.planning.decide import decide_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TextIO

    from corral.learning.trace import Access
    from corral.model.policy import Policy
    from corral.model.result import Result
    from corral.sandbox import Sandbox

_MOST_BYTES = 8 * 1024 * 1024
_MOST_TRACE_BYTES = 1024 * 1024 * 1024


def learn(
    sandbox: Sandbox, command: str | tuple[str, ...], say: Callable[[str], None]
) -> tuple[Result, Observation]:
    """Run a command under strace in the sandbox, on the caller's streams. Raises CorralError."""
    if sandbox.planner.host.platform != "linux":
        raise UnenforceableError(
            "learn-strace",
            "nothing can be learned on this platform",
            why="commands are observed by strace, which only Linux has",
            fix="`corral why` says what to add for a refusal",
        )
    tracer = shutil.which("strace")
    if tracer is None:
        raise UnenforceableError(
            "learn-strace",
            "nothing can be learned here",
            why="strace is not installed",
            fix="install strace, with your package manager",
        )
    if sandbox.is_unconfined or sandbox.falls_back:
        raise PolicyError(
            "learn-unconfined",
            "a policy is learned in a sandbox only",
            why="the options or the configuration run commands without one",
            fix="leave out --no-sandbox, `enabled = false` and `fallback`",
        )
    words = sandbox.read_command(command).argv
    place = os.path.realpath(tempfile.mkdtemp(prefix="corral-learn-"))
    try:
        trace = os.path.join(place, "trace")
        observed = sandbox.with_policy(_observable(sandbox, place))
        argv = (tracer, *OPTIONS, "-o", trace, "--", *words)
        planned = observed.prepare(observed.read_command(argv, stdin=None, stdio=StdioMode.INHERIT))
        result = planned.run(say)
        with _open_trace(trace) as lines:
            accesses = list(_of_the_host(observed, parse_trace(lines, sandbox.workspace), place))
    except OSError as problem:
        raise PolicyError(
            "learn-trace", "nothing was traced", why=str(problem), fix="read what strace printed"
        ) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return result, observe(accesses, result, os.path.basename(words[0]))


def _open_trace(path: str) -> TextIO:
    """TRUST: the command could write there, and may have left a link, a pipe, or more than anybody reads."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_TRACE_BYTES:
        os.close(descriptor)
        raise OSError(errno.EFBIG, "it is not a trace of a usual size", path)
    return open(descriptor, encoding="utf-8", errors="surrogateescape")


def _of_the_host(sandbox: Sandbox, accesses: Iterable[Access], place: str) -> Iterator[Access]:
    """What the policy granted: nobody need grant areas of the sandbox's own, nor directories on the way."""
    plan = sandbox.planner.plan(sandbox.read_command(("true",)))
    known: dict[str, bool] = {}
    for access in accesses:
        if access.path not in known:
            decision = decide_path(plan, sandbox.planner.host, access.path, writes=False)
            is_own = decision.reason in {Reason.PRIVATE, Reason.STRUCTURAL} or access.path.startswith(place)
            known[access.path] = decision.allowed and not is_own
        if known[access.path] or access.kind is AccessKind.MISSED:
            yield access


def _observable(sandbox: Sandbox, place: str) -> Policy:
    """The same policy, in which strace works and has a place for what it sees."""
    draft = PolicyDraft(sandbox.policy)
    draft.add(Capability("process", "debug"))
    draft.add(Capability("filesystem", "write", escape(place)))
    return draft.build()


def load_observation(workspace: str) -> Observation:
    """What is known from earlier runs in a workspace."""
    data = read_state(_name(workspace), _MOST_BYTES)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return observation_from(json.loads(data))
    return Observation()


def keep_observation(workspace: str, seen: Observation) -> None:
    """Keep it for the next run. Raises OSError."""
    write_state(_name(workspace), json.dumps(seen.to_json()).encode("utf-8", "surrogateescape"))


def _name(workspace: str) -> str:
    return f"learned/{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]}"
