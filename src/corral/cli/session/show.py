"""`corral session start`, `status`, `list`, `stop`, `logs`, `clean`, `kill`: named sessions, from outside."""

from __future__ import annotations

import os
import signal
import time

from corral.audit import caller
from corral.cli.advice import advise
from corral.cli.limits import list_limits
from corral.cli.options import OF_A_TRIAL
from corral.cli.request import build_request
from corral.cli.run import announce, describe_result, say
from corral.cli.session.exec import seconds
from corral.cli.session.here import find_here, name_or_default
from corral.cli.stats import approximate
from corral.model.errors import CorralError, PolicyError, SetupError
from corral.model.rules.quantities import format_duration
from corral.sessions.named.client import ClientConnection, call, no_session, stop
from corral.sessions.named.log import read_log
from corral.sessions.named.record import FAILED, STARTING, SessionRecord, find_entry, list_entries
from corral.sessions.named.session_directory import check_name, default_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from corral.cli.policy.show import Answer
    from corral.model.result import Result
    from corral.sandbox import Sandbox
    from corral.sessions.named.session_directory import SessionDirectory

#: For a session that somebody else is starting.
_START_SECONDS = 30.0
_KEPT_SECONDS = 7 * 86_400.0
_SIGNALS = ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "KILL")


def start_session(
    name: str | None, options: Mapping[str, Any], idle: str | None, lifetime: str | None, *, reuse: bool
) -> Answer:
    """Start a session and say what it is called; or use one that runs, if it was started the same way."""
    if name is not None:
        check_name(name)
    limits = [0.0 if text is None else seconds(flag, text) for flag, text in _limits(idle, lifetime)]
    request = build_request(options, may_try=True)
    sandbox = request.sandbox
    if not sandbox.is_unconfined:
        announce(request, verbose=bool(options["verbose"]), as_json=bool(options["json"]))
    configuration = request.configuration
    keeps = configuration is None or configuration.keep_alive
    entry = SessionRecord(
        name if name is not None else default_name(sandbox.workspace),
        STARTING,
        policy=sandbox.policy.name,
        workspace=sandbox.workspace,
        limits=", ".join(list_limits(sandbox.policy.limits)),
        idle_seconds=limits[0],
        lifetime_seconds=limits[1],
        is_fresh=not keeps,
        agent=options["agent"] or caller.agent,
        check_mode="off" if configuration is None else configuration.check_mode,
        check_rules="" if configuration is None else "\n".join(configuration.check_rules),
    )
    _forget_old()
    if request.is_tried or any(options[name] for name in OF_A_TRIAL):
        _check_trial(entry, reuse=reuse)
        _start_trial(entry, sandbox, options)
        is_reused = False
    else:
        is_reused = _started(entry, sandbox, reuse=reuse)
    found = find_entry(entry.name)
    facts = _facts(*found, ask=False) if found is not None else None
    return 0, [entry.name], {"session": facts, **({"reused": is_reused} if reuse else {})}


def _started(entry: SessionRecord, sandbox: Sandbox, *, reuse: bool) -> bool:
    """Start it, unless one that runs is to be used; whether it is. Raises CorralError."""
    from corral.sessions.named.daemon import start

    deadline = time.monotonic() + _START_SECONDS
    while True:
        if reuse and _is_the_same(entry, sandbox):
            return True
        try:
            start(entry, sandbox, _describe)
            return False
        except SetupError as error:
            # Somebody else starts it at this moment, perhaps for the same reason.
            if not reuse or error.code != "session-exists" or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _check_trial(entry: SessionRecord, *, reuse: bool) -> None:
    if reuse or entry.is_fresh:
        raise PolicyError(
            "contradiction",
            f"--try and {'--reuse' if reuse else 'keep_alive = false'} do not go together",
            why="a session on trial has one layer, in one sandbox",
            fix="leave one of them out",
        )


def _start_trial(entry: SessionRecord, sandbox: Sandbox, options: Mapping[str, Any]) -> None:
    """A session whose commands write in a layer over the workspace. Raises CorralError."""
    from corral.sessions.named.daemon import start
    from corral.sessions.trial import begin_trial
    from corral.trials.record import layer_size

    size = layer_size(options["trial_size"], options["trial_files"])
    trial = begin_trial(sandbox, f"session {entry.name}", size)
    for path in trial.record.direct:
        say(f"not on trial: {path} is written directly, as the policy permits")
    try:
        start(entry, trial.sandbox, _describe, trial)
    except CorralError:
        trial.discard()
        raise
    also = "" if size is None else ", in memory"
    see = f"`corral changes {trial.id}` lists the changes; apply them when it has stopped"
    say(f"on trial {trial.id}{also}: {see}")


def _describe(result: Result, command: str | tuple[str, ...], verbose: bool) -> list[str]:
    """What `corral run` would say besides."""
    return [*describe_result(result, verbose=verbose), *filter(None, (advise(command, result),))]


def _is_the_same(entry: SessionRecord, sandbox: Sandbox) -> bool:
    """Whether such a session runs. Raises SetupError if another one has the name."""
    from corral.sessions.named.terms import check_terms, terms_of

    found = find_entry(entry.name)
    if found is None or not found[1].is_living or not found[1].token:
        return False
    with ClientConnection(*found) as connection:
        heard = connection.ask("terms")
    check_terms(entry.name, tuple(heard["terms"]), terms_of(entry, sandbox))
    return True


def _limits(idle: str | None, lifetime: str | None) -> Iterator[tuple[str, str | None]]:
    yield "--idle", idle
    yield "--lifetime", lifetime


def show_status(name: str | None) -> Answer:
    """Everything about one session. The status is 0 if it runs, or will."""
    if name is None:
        entry = find_here()
        name = entry.name if entry is not None else name_or_default(None)
    found = find_entry(check_name(name))
    if found is None:
        raise no_session(name)
    facts = _facts(*found)
    _sweep(*found)
    return 0 if found[1].is_living else 1, list(_lines(facts)), {"session": facts}


def list_sessions() -> Answer:
    """Every session of this user, a line each."""
    found = [(place, entry, _facts(place, entry)) for place, entry in list_entries()]
    for place, entry, _ in found:
        _sweep(place, entry)
    every = [facts for *_, facts in found]
    if not every:
        return 0, ["no sessions"], {"sessions": []}
    width = max(len(facts["name"]) for facts in every)
    lines = [
        f"{facts['name']:<{width}}  {facts['state']:<8}  {facts['backend'] or '-':<10}  "
        f"{_age(facts):<10}  {facts['workspace']}"
        for facts in every
    ]
    return 0, lines, {"sessions": every}


def stop_session(name: str | None) -> Answer:
    """End a session, and wait until all is gone."""
    name = name_or_default(name)
    stop(name)
    return 0, [f"{name} stopped"], {"session": name}


def reset_session(name: str | None) -> Answer:
    """End what runs in a session, forget its private areas, and begin anew."""
    name = name_or_default(name)
    with call(name) as connection:
        connection.ask("reset")
    return 0, [f"{name} reset"], {"session": name}


def show_log(name: str | None) -> Answer:
    """What has happened in a session, and what its detached commands printed."""
    found = find_entry(name := name_or_default(name))
    if found is None:
        raise no_session(name)
    lines = read_log(found[0], name).decode("utf-8", "surrogateescape").split("\n")
    return 0, lines[:-1], {"session": name, "lines": lines[:-1]}


def signal_command(key: str, name: str | None, text: str) -> Answer:
    """Pass a signal on to a command of a session."""
    word = text.upper().removeprefix("SIG")
    if word not in _SIGNALS:
        raise PolicyError(
            "unknown-signal",
            f"{text[:40]!r} cannot be sent",
            why=f"the signals that are passed on are {', '.join(_SIGNALS)}",
            fix="name one of them",
        )
    with call(name_or_default(name)) as connection:
        connection.ask("signal", id=key, number=getattr(signal, f"SIG{word}").value)
    return 0, [], {"id": key, "signal": word}


def clean_sessions() -> Answer:
    """Remove the records and logs of ended sessions."""
    gone = [entry.name for place, entry in list_entries() if not entry.is_living and _forget(place, entry)]
    return 0, [f"{name} forgotten" for name in gone] or ["nothing to clean"], {"forgotten": gone}


def _forget_old() -> None:
    limit = time.time() - _KEPT_SECONDS
    for place, entry in list_entries():
        if not entry.is_living and max(entry.ended, entry.began) < limit:
            _forget(place, entry)


def _forget(place: SessionDirectory, entry: SessionRecord) -> bool:
    lock = place.lock(entry.name)
    if lock < 0:
        return False
    try:
        place.forget(entry.name)
    finally:
        os.close(lock)
    return True


def _sweep(place: SessionDirectory, entry: SessionRecord) -> None:
    """A session whose process was killed has left its socket: nobody listens there any more."""
    if entry.state != FAILED or entry.ended:
        return
    lock = place.lock(entry.name)
    if lock < 0:  # it is being started anew
        return
    try:
        from corral.sessions.named.record import write_entry
        from corral.sessions.named.session_directory import SOCKET

        place.remove(f"{entry.name}{SOCKET}")
        write_entry(place, entry.replace(token="", ended=time.time()))
    finally:
        os.close(lock)


def _facts(place: SessionDirectory, entry: SessionRecord, *, ask: bool = True) -> dict[str, Any]:
    """A session in JSON's own types, with what it says itself, if it answers."""
    now = time.time()
    end = now if entry.is_living else entry.ended or entry.began
    facts = {
        "name": entry.name,
        "state": entry.state,
        "reason": entry.reason or None,
        "backend": entry.backend or None,
        "policy": entry.policy,
        "workspace": entry.workspace,
        "agent": entry.agent or None,
        "pid": entry.pid if entry.is_living else None,
        "began": entry.began,
        "age_seconds": round(end - entry.began, 3),
        "limits": entry.limits or None,
        "idle_limit_seconds": entry.idle_seconds or None,
        "lifetime_seconds": entry.lifetime_seconds or None,
        "fresh": entry.is_fresh,
        "directory": place.path,
    }
    heard = None
    if ask and entry.is_living and entry.token:
        try:
            with ClientConnection(place, entry) as connection:
                heard = connection.ask_quickly("status")
        except CorralError:
            heard = None
    names = ("commands", "running", "idle_for", "usage")
    return {**facts, **{name: heard[name] if heard is not None else None for name in names}}


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"{facts['name']}  {facts['state']}"
    if facts["reason"]:
        yield f"  because    {facts['reason']}"
    yield f"  backend    {facts['backend'] or '-'}"
    yield f"  policy     {facts['policy']}"
    yield f"  workspace  {facts['workspace']}"
    process = f"{facts['pid']}, " if facts["pid"] else ""
    yield f"  process    {process}for {_age(facts)}"
    if facts["commands"] is not None:
        idle = "" if facts["running"] else f", idle for {_short(facts['idle_for'])}"
        yield f"  commands   {facts['commands']} run, {len(facts['running'])} running now{idle}"
    usage = facts["usage"]
    if usage is not None:
        yield f"  usage      {', '.join(_usage(usage))}"
    limits = [facts["limits"]] if facts["limits"] else []
    limits += [f"idle {format_duration(facts['idle_limit_seconds'])}"] if facts["idle_limit_seconds"] else []
    limits += [f"lifetime {format_duration(facts['lifetime_seconds'])}"] if facts["lifetime_seconds"] else []
    yield f"  limits     {', '.join(limits) or 'none'}"
    if facts["fresh"]:
        yield "  kept       nothing: every command has its own sandbox (keep_alive = false)"
    for running in facts["running"] or ():
        how = ", detached" if running["detached"] else ""
        yield f"  {running['id']}   {running['command']} ({_short(running['seconds'])}{how})"


def _usage(usage: Mapping[str, Any]) -> Iterator[str]:
    if usage["memory_bytes"] is not None:
        yield approximate(usage["memory_bytes"])
    if usage["cpu_seconds"] is not None:
        yield f"{usage['cpu_seconds']:.1f} s of processor time"
    if usage["pids"] is not None:
        yield "1 process" if usage["pids"] == 1 else f"{usage['pids']} processes"


def _age(facts: Mapping[str, Any]) -> str:
    return _short(facts["age_seconds"])


def _short(length: float) -> str:
    return format_duration(float(int(max(0.0, length))))
