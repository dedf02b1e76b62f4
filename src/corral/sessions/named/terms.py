"""Terms: what a named session was started with, in words, for whoever would start the same."""

from __future__ import annotations

from corral.model.container import describe_container
from corral.model.errors import SetupError
from corral.model.policy import NetMode
from corral.model.rules.capability import capabilities_of
from corral.model.rules.quantities import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.sandbox import Sandbox
    from corral.sessions.named.record import SessionRecord

_MOST_SAID = 6
_DIGEST = "policy "


def terms_of(entry: SessionRecord, sandbox: Sandbox) -> tuple[str, ...]:
    """Each in words; two sessions with the same terms hold commands to the same."""
    return tuple(dict.fromkeys(_terms(entry, sandbox)))


def _terms(entry: SessionRecord, sandbox: Sandbox) -> Iterator[str]:
    yield f"workspace {sandbox.workspace}"
    yield f"backend {' or '.join(sandbox.planner.names)}"
    names_hosts = sandbox.policy.net.mode is NetMode.LIMITED  # then there is no such thing as no network
    said = map(str, capabilities_of(sandbox.policy))
    yield from (text for text in said if not (names_hosts and text == "network:none"))
    yield f"{_DIGEST}{sandbox.policy.digest()[:12]}"  # what no capability says
    yield from (f"--waive {feature.value}" for feature in sorted(sandbox.waived, key=lambda one: one.value))
    yield f"image {sandbox.planner.container.image}"
    yield from (f"container.{text}" for text in describe_container(sandbox.planner.container))
    if entry.idle_seconds:
        yield f"--idle {format_duration(entry.idle_seconds)}"
    if entry.lifetime_seconds:
        yield f"--lifetime {format_duration(entry.lifetime_seconds)}"
    if sandbox.planner.trial is not None:
        yield "--try"
    if entry.is_fresh:
        yield "keep_alive = false"


def check_terms(name: str, has: tuple[str, ...], wants: tuple[str, ...]) -> None:
    """Raise SetupError, which says what differs, unless both are the same."""
    more = [term for term in has if term not in wants]
    less = [term for term in wants if term not in has]
    if not more and not less:
        return
    if not all(term.startswith(_DIGEST) for term in (*more, *less)):
        # It follows from the rest, and says nothing to people.
        more, less = ([term for term in terms if not term.startswith(_DIGEST)] for terms in (more, less))
    raise SetupError(
        "session-differs",
        f"the session {name} that runs was started otherwise",
        why="; ".join(filter(None, (_list("only it has", more), _list("only asked for now:", less)))),
        fix=f"start it the same way, stop it with `corral session stop {name}`, or choose another name",
    )


def _list(what: str, terms: list[str]) -> str:
    more = f" and {len(terms) - _MOST_SAID} others" if len(terms) > _MOST_SAID else ""
    return f"{what} {', '.join(terms[:_MOST_SAID])}{more}" if terms else ""
