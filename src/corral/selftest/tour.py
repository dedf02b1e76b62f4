"""The tour behind `corral demo`: a dozen attacks that anyone understands, then an honest piece of work."""

from __future__ import annotations

from corral.model.record import Record
from corral.selftest.battery import choose_backend, claims_of, run_probe, select_probes
from corral.selftest.chore import run_chore
from corral.selftest.explained import show_explained
from corral.selftest.probe import ProbeOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.selftest.probe import ProbeReport

HELD, FAILED, PASSED_OVER = "✔", "✘", "·"


class Stop(Record):
    """One attack of the tour, in three short texts."""

    probe: str
    attempt: str  # what it tries
    harm: str  # what it did without a sandbox
    answer: str  # why it fails inside


STOPS = (
    Stop(
        "read-ssh-key",
        "read the SSH key in the home directory",
        "it had the private key",
        "the home inside is another, an empty one",
    ),
    Stop(
        "remove-home",
        "rm -rf the documents in the home directory",
        "they were gone",
        "the real home is out of reach",
    ),
    Stop(
        "write-through-new-symlink",
        "write outside through a symbolic link",
        "the file was there",
        "no way leads to a place outside",
    ),
    Stop(
        "environment-secrets",
        "print AWS and GitHub tokens from the environment",
        "both were printed",
        "only harmless variables are passed on",
    ),
    Stop(
        "tcp-to-host",
        "send a secret to a TCP listener",
        "the listener was reached",
        "the only network inside is its own loopback",
    ),
    Stop(
        "unix-socket",
        "take over docker.sock",
        "the socket answered",
        "the host's sockets are out of reach",
    ),
    Stop(
        "git-plant-hook",
        "plant a git hook that you run at the next commit",
        "the hook was in place",
        ".git/hooks is read-only, the rest of .git is not",
    ),
    Stop(
        "plant-editor-task",
        "plant .vscode/tasks.json, which was not there",
        "the editor would have run it",
        "what appears there is removed at once",
    ),
    Stop(
        "kill-host-process",
        "kill another process of yours",
        "it was dead",
        "the host's processes are out of reach",
    ),
    Stop(
        "read-host-memory",
        "read the memory of this very program",
        "it found the secret there",
        "neither ptrace nor /proc leads to it",
    ),
    Stop(
        "outlive-the-run",
        "leave a daemon behind that goes on alone",
        "it was still running",
        "everything ends with the run",
    ),
    Stop(
        "process-storm",
        "start 48 processes where 16 are permitted",
        "all 48 were running",
        "the limit holds for the whole tree",
    ),
    Stop(
        "user-namespace",
        "become root in a namespace of its own",
        "it had every capability",
        "new namespaces are refused",
    ),
)


def run_tour(backend: str, say: Callable[[str], None]) -> bool:
    """Show every stop on a backend. True only if each attack held and the honest work was done."""
    chosen = choose_backend(backend)
    enforces = claims_of(chosen)
    say(f"{len(STOPS)} attacks, each once without a sandbox and once in corral ({chosen}).")
    say("All of them are aimed at decoys; nothing of yours is touched.")
    say("")
    outcomes = []
    for stop in STOPS:
        report = run_probe(select_probes([stop.probe])[0], chosen, enforces)
        for line in render_stop(stop, report):
            say(line)
        outcomes.append(report.outcome)
    say("")
    say("And now some honest work in the same sandbox:")
    done = run_chore(chosen, enforces, say)
    say("")
    say("And what corral says, at once, where something is in the way or does not stay:")
    told = show_explained(chosen, say)
    say("")
    for line in _summary(outcomes, done=done):
        say(line)
    return told and done and all(outcome is ProbeOutcome.HELD for outcome in outcomes)


def render_stop(stop: Stop, report: ProbeReport) -> tuple[str, ...]:
    """Two or three lines of at most 80 columns: the attempt, and what became of it."""
    match report.outcome:
        case ProbeOutcome.HELD:
            return f"{HELD} {stop.attempt}", f"    unconfined: {stop.harm}", f"    in corral:  {stop.answer}"
        case ProbeOutcome.ESCAPED | ProbeOutcome.BROKEN:
            return f"{FAILED} {stop.attempt}", f"    {report.outcome.value}: {report.reason}"[:80]
        case _:
            return f"{PASSED_OVER} {stop.attempt}", f"    {report.outcome.value}: {report.reason}"[:80]


def _summary(outcomes: list[ProbeOutcome], *, done: bool) -> tuple[str, ...]:
    held = sum(outcome is ProbeOutcome.HELD for outcome in outcomes)
    failed = sum(outcome in {ProbeOutcome.ESCAPED, ProbeOutcome.BROKEN} for outcome in outcomes)
    left = len(outcomes) - held - failed
    mark = FAILED if failed or not done else PASSED_OVER if left else HELD
    lines = [f"{mark} {held} of {len(outcomes)} attacks had no effect on the host."]
    if failed:
        lines.append(f"{FAILED} {failed} got through or could not be tried: see `corral selftest`.")
    if left:
        lines.append(f"{PASSED_OVER} {left} are not promised by this backend, or not possible on this host.")
    lines.append(f"{HELD} The work was done." if done else f"{FAILED} The work was NOT done.")
    return tuple(lines)
