"""`corral why`: may a command read, write, execute or connect; by which rule; and what would change it."""

from __future__ import annotations

import os

from corral.cli.request import load_request
from corral.config.find import working_directory
from corral.config.setting import Origin, Source, shorten
from corral.model.decision import Decision, Reason
from corral.model.errors import PolicyError
from corral.model.event import flags_for
from corral.model.network.endpoint import DEFAULT_PORTS, Endpoint, has_port, parse_endpoint
from corral.model.record import Record
from corral.model.rules.capability import Capability, PolicyDraft
from corral.model.rules.pattern import escape, is_pattern, literal
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from corral.config.configuration import Configuration

_SENTENCES = {
    Reason.GRANTED: "it is granted",
    Reason.READ_ONLY: "it is granted for reading only",
    Reason.DENIED: "it is denied, and a denial beats every grant",
    Reason.HIDDEN: "homes hide it: a key, a login or a history, which a grant of the home does not show",
    Reason.PROTECTED: "the host may run or trust this file later, so commands cannot change it",
    Reason.PRIVATE: "the sandbox has a private directory there: empty at first, removed afterwards",
    Reason.STRUCTURAL: "the sandbox has its own /proc and /dev, with what programs cannot do without",
    Reason.NOT_EXECUTABLE: "it is not a program: the file is not executable",
    Reason.NOT_GRANTED: "no rule grants it",
    Reason.UNCONFINED: "it runs without a sandbox",
    Reason.REFUSED: "no command runs under this policy here",
}
#: Errors about what was asked; others are about the policy.
_OF_THE_QUESTION = frozenset({"not-a-target", "no-program"})
_COPIED = "a command changes a copy; harmless changes are taken over when it has ended"
_LOOPBACK = frozenset({"localhost", "127.0.0.1"})


class WhyReport(Record):
    """All there is to say."""

    operation: str
    target: str
    decision: Decision
    rule: tuple[Capability, Origin] | None
    change: Change
    refusal: str  # why nothing would run at all
    is_copied: bool  # a command may write a copy, and harmless settings of that are taken over


class Change(Record):
    """What would turn a refusal around."""

    capability: str = ""  # to be added
    advice: str = ""  # where a capability alone does not help


def explain_why(
    operation: str, target: str, options: Mapping[str, Any]
) -> tuple[int, Iterable[str], dict[str, Any]]:
    """The answer: exit status (0 allowed, 1 not, 3 nothing would run), lines for a person, JSON."""
    configuration = load_request(options)
    sandbox = configuration.sandbox(for_run=False)
    try:
        decision = _decide(operation, target, configuration, sandbox)
        refusal = "" if sandbox.is_unconfined else _refusal(sandbox)
    except PolicyError as problem:
        if problem.code in _OF_THE_QUESTION:
            raise
        return _explain_refused(operation, target, configuration, problem)
    if decision.reason is Reason.PRIVATE and operation != "write":
        decision = decision.replace(allowed=False)  # whoever asks means the host's file
    rule = _rule(configuration, operation, decision)
    change = Change() if decision.allowed else _change(configuration, operation, decision)
    if refusal and sandbox.falls_back:
        decision = Decision(True, Reason.UNCONFINED, decision.subject, is_missing=decision.is_missing)
        rule, change, refusal = None, Change(), ""
    is_copied = operation == "write" and decision.reason is Reason.PROTECTED and not refusal
    is_copied = is_copied and _has_copy(sandbox, decision.subject)
    answer = WhyReport(operation, target, decision, rule, change, refusal, is_copied)
    status = 3 if refusal else 0 if decision.allowed else 1
    return status, _render(answer), _json(answer)


def _explain_refused(
    operation: str, target: str, configuration: Configuration, problem: PolicyError
) -> tuple[int, Iterable[str], dict[str, Any]]:
    """No command runs under this policy in this workspace, so the answer is no, whatever is asked about."""
    if operation == "connect":
        decision = Decision(False, Reason.REFUSED, str(read_target(target)))
    else:
        path = os.path.normpath(_absolute(target, configuration.workspace))
        decision = Decision(False, Reason.REFUSED, path, is_missing=not os.path.lexists(path))
    refusal = f"{problem.what}: {problem.why}"
    answer = WhyReport(operation, target, decision, None, Change(advice=problem.fix), refusal, False)
    return 3, _render(answer), _json(answer)


def explain_last() -> tuple[int, Iterable[str], dict[str, Any]]:
    """What the last run was told that was told anything; exit status 1 if there was none."""
    from corral.cli.last import read_last

    lines = read_last()
    if not lines:
        return 1, ["no run of yours has been refused anything yet"], {"last": None}
    return 0, [lines[0], *(f"  {line}" for line in lines[1:])], {"last": lines}


def explain_message(message: str, options: Mapping[str, Any]) -> tuple[int, Iterable[str], dict[str, Any]]:
    """What a policy has to do with what a program printed; exit status 1 if that explains it, else 0."""
    from corral.model.event import event_of
    from corral.runtime.inference import candidates, infer

    sandbox = load_request(options).sandbox(for_run=False)
    plan = sandbox.planner.plan(sandbox.read_command(("true",)))
    events = [event_of(violation) for violation in infer(plan, message)]
    missing = message.lower().find("no such file or directory")
    if not events and missing >= 0:
        for name in candidates(message, missing):
            path = os.path.join(sandbox.workspace, os.path.expanduser(name))
            if "/" in name and os.path.lexists(path):  # it is there, outside
                return explain_why("read", path, options)
    if not events:
        return 0, ["nothing in this policy explains it"], {"events": []}
    return 1, [event.describe() for event in events], {"events": [event.to_json() for event in events]}


def _decide(operation: str, target: str, configuration: Configuration, sandbox: Sandbox) -> Decision:
    if operation == "connect":
        return sandbox.decide_connection(read_target(target))
    if not target:
        raise PolicyError("not-a-target", "there is no question", why="it is empty", fix="name a path")
    if operation != "exec":
        return sandbox.decide_path(_absolute(target, configuration.workspace), writes=operation == "write")
    program = _find_program(target, configuration.workspace)
    if configuration.bypass_tools:
        from corral.config.bypass import find_bypass

        if find_bypass(configuration, (target,), os.environ) is not None:
            return Decision(True, Reason.UNCONFINED, program)
    decision = sandbox.decide_path(program)
    is_program = os.path.isfile(program) and os.access(program, os.X_OK)
    return decision if is_program else decision.replace(allowed=False, reason=Reason.NOT_EXECUTABLE)


def _refusal(sandbox: Sandbox) -> str:
    """Why no command would run at all; empty if one would."""
    problem = sandbox.refusal()
    return "" if problem is None else problem.why


def _has_copy(sandbox: Sandbox, path: str) -> bool:
    """Whether the backend that would be chosen gives commands a copy of this git configuration."""
    copies = sandbox.explain(("true",)).launch.copies
    return any(mount.copy.target.path == path for mount in copies)


def read_target(text: str) -> Endpoint:
    """`https://host/path`, `host`, `host:port` or `tcp:host:port` as an endpoint."""
    scheme, separator, rest = text.partition("://")
    try:
        if separator and scheme.lower() in DEFAULT_PORTS:
            return parse_endpoint(scheme.lower(), rest.partition("/")[0].rpartition("@")[2])
        head, _, tail = text.partition(":")
        if head in {*DEFAULT_PORTS, "tcp"} and tail:
            return parse_endpoint(head, tail)
        return parse_endpoint("tcp" if has_port(text) else "https", text)
    except ValueError as problem:
        raise PolicyError(
            "not-a-target",
            f"{text!r} is not a host",
            why=str(problem),
            fix="write a host, host:port or https://host",
        ) from None


def _absolute(path: str, workspace: str) -> str:
    """A path as people and rules write it."""
    expanded = os.path.expanduser(path)
    if expanded == "${workspace}" or expanded.startswith("${workspace}/"):
        expanded = workspace + expanded[len("${workspace}") :]
    return os.path.join(working_directory(), expanded)  # what `..` means, after a link, the planner says


def _find_program(name: str, workspace: str) -> str:
    if "/" in name:
        return _absolute(name, workspace)
    import shutil

    found = shutil.which(name)
    if found is None:
        raise PolicyError(
            "no-program",
            f"there is no program {name!r}",
            why="no directory of PATH has it",
            fix="name it by its path",
        )
    return os.path.abspath(found)


def _rule(
    configuration: Configuration, operation: str, decision: Decision
) -> tuple[Capability, Origin] | None:
    """The capability that decided, and where it was said."""
    for capability, origin in configuration.clauses():
        if _is_about(capability, operation, decision, configuration.workspace):
            return capability, origin
    if decision.reason in {Reason.GRANTED, Reason.READ_ONLY} and operation != "connect":
        tools = Capability("filesystem", "tools", "path")
        said = configuration.compiled.origins.get(str(tools))
        return (tools, said) if said is not None else None
    if operation == "connect" and decision.reason is Reason.NOT_GRANTED:
        mode = Capability("network", "none")
        return mode, configuration.compiled.origins.get(str(mode), Origin(Source.DEFAULT))
    return None


def _is_about(capability: Capability, operation: str, decision: Decision, workspace: str) -> bool:
    if operation == "connect":
        if decision.reason is Reason.DENIED:
            return (capability.kind, capability.verb, capability.target) == ("network", "deny", decision.rule)
        return capability.kind == "network" and decision.rule in {
            f"{capability.verb}:{capability.target}",
            capability.verb,
            *(("http:*", "https:*") if capability.verb == "limited" else ()),
        }
    verbs = {
        Reason.GRANTED: ("write",) if operation == "write" else ("write", "read"),
        Reason.READ_ONLY: ("read",),
        Reason.DENIED: ("deny",),
        Reason.PRIVATE: ("private",),
        Reason.PROTECTED: ("protect",),
    }.get(decision.reason, ())
    if capability.kind != "filesystem" or capability.verb not in verbs:
        return False
    if is_pattern(capability.target):
        return capability.target == decision.rule
    if decision.reason is Reason.PROTECTED:
        is_name = capability.verb == "protect" and not is_pattern(decision.rule)
        return is_name and f"/{literal(capability.target)}/" in f"{decision.subject}/"
    path = literal(capability.target).replace("${workspace}", workspace)
    return os.path.expanduser(path) == decision.rule


def _change(configuration: Configuration, operation: str, decision: Decision) -> Change:
    """A capability that helps, tried before it is recommended; or what else would."""
    if decision.reason is Reason.DENIED:
        return Change(advice="remove the denial; nothing else permits it")
    if decision.reason is Reason.HIDDEN:
        verb = "write" if operation == "write" else "read"
        return Change(advice=f"grant {decision.rule} by its own name (filesystem:{verb}:{decision.rule})")
    if decision.reason is Reason.PROTECTED:
        return Change(advice="give the protection up, on record, with --waive fs.protect; or do it yourself")
    if decision.reason is Reason.STRUCTURAL:
        return Change(advice="no capability grants what the host has there")
    if decision.reason is Reason.NOT_EXECUTABLE:
        return Change(advice="make it executable: chmod +x")
    if decision.reason is Reason.PRIVATE and decision.is_missing:
        return Change(advice="make it on the host first, then grant it")
    wanted = _wanted(operation, decision)
    draft = PolicyDraft(configuration.policy)
    draft.add(wanted)
    sandbox = Sandbox(
        draft.build(),
        backend=configuration.backend,
        workspace=configuration.workspace,
        waive=configuration.waived,
    )
    try:
        if operation == "connect":
            return _change_of_network(sandbox, wanted)
        if sandbox.decide_path(decision.subject, writes=operation == "write").allowed:
            return Change(str(wanted))
    except PolicyError as refused:
        return Change(advice=f"no capability grants it: {refused.why}")
    return Change(advice="no capability grants it")


def _change_of_network(sandbox: Sandbox, wanted: Capability) -> Change:
    if not _refusal(sandbox):
        return Change(str(wanted))
    advice = f"{wanted} would, but no backend here enforces it; network:full permits it, with all else"
    return Change(str(wanted), advice)


def _wanted(operation: str, decision: Decision) -> Capability:
    if operation == "connect":
        scheme, _, target = decision.subject.partition(":")
        return Capability("network", scheme, target)
    path = decision.subject
    while decision.is_missing and not os.path.lexists(path):
        path = os.path.dirname(path)  # what is not there cannot be granted; where it would be can
    return Capability("filesystem", "write" if operation == "write" else "read", escape(path))


def _render(answer: WhyReport) -> Iterator[str]:
    operation, target, decision, change = answer.operation, answer.target, answer.decision, answer.change
    yield f"{_verdict(answer)}: {operation} {target}"
    if operation != "connect" and os.path.basename(decision.subject) != os.path.basename(target):
        yield f"  really   {shorten(decision.subject)}"
    if decision.reason is Reason.REFUSED:
        yield f"  because  {_SENTENCES[decision.reason]}: {answer.refusal}"
    else:
        yield f"  because  {_COPIED if answer.is_copied else _SENTENCES[decision.reason]}"
    if answer.rule is not None:
        yield f"  rule     {answer.rule[0]}"
        yield f"  set in   {answer.rule[1]}"
    if decision.is_missing:
        yield "  note     it does not exist now"
    if operation == "connect" and decision.subject.split(":")[1] in _LOOPBACK:
        yield "  note     inside, loopback is the sandbox's own, and works; this is about the host's"
    if change.advice:
        yield f"  change   {change.advice}"
    elif change.capability:
        is_host = change.capability.startswith("network:https:")
        yield f"  change   {flags_for(change.capability, is_lookup=is_host)}"
    if answer.refusal and decision.reason is not Reason.REFUSED:
        yield f"  but      nothing would run at all: {answer.refusal}"


def _verdict(answer: WhyReport) -> str:
    if answer.is_copied:
        return "in part"
    if answer.decision.reason is not Reason.PRIVATE:
        return "yes" if answer.decision.allowed else "no"
    return "yes, but it is discarded" if answer.decision.allowed else "no, it is hidden"


def _json(answer: WhyReport) -> dict[str, Any]:
    decision, rule = answer.decision, answer.rule
    return {
        "operation": answer.operation,
        "target": answer.target,
        "allowed": decision.allowed,
        "reason": decision.reason.value,
        "subject": decision.subject,
        "exists": not decision.is_missing,
        "rule": str(rule[0]) if rule is not None else None,
        "origin": rule[1].to_json() if rule is not None else None,
        "capability": answer.change.capability or None,
        "advice": answer.change.advice or None,
        "refusal": answer.refusal or None,
        "copied": answer.is_copied,
    }
