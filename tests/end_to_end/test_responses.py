"""What follows a refusal is the policy's to say: deny, warn, throttle, terminate, quarantine."""

from __future__ import annotations

import os
import threading

import pytest

from corral.model.errors import PolicyError, SetupError
from corral.model.policy import Response
from corral.model.result import Outcome
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from corral.sessions.pool import Pool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Corral

REFUSED = "unshare -U true 2>/dev/null"
#: With a network that permits something else, sessions hear of this as well.
LOOKUP = "getent hosts refused.example.com"
LIMITED = ("network:none", "network:https:files.example.org")
#: Prints how many milliseconds each of thirteen refused calls took, in one process.
TIMED = """
import ctypes, time
libc = ctypes.CDLL(None)
for _ in range(13):
    began = time.monotonic()
    libc.unshare(0x10000000)
    print(int((time.monotonic() - began) * 1000))
"""


def sandbox(work: Path, response: str, *more: str) -> Sandbox:
    return Sandbox(build_policy("moderate", [f"refusal:{response}", *more]), backend="native", workspace=work)


@pytest.mark.parametrize("response", ["deny", "warn", "throttle"])
def test_the_mild_ones_let_a_command_go_on_and_permit_nothing(
    project: Path, home: Path, response: str
) -> None:
    result = sandbox(project, response).run(f"{REFUSED} && touch permitted; touch went-on")

    assert result.ok
    assert [event.subject for event in result.events] == ["unshare"]
    assert (project / "went-on").exists() and not (project / "permitted").exists()


@pytest.mark.parametrize("response", ["terminate", "quarantine"])
def test_the_strict_ones_end_it_at_the_first_refusal(project: Path, home: Path, response: str) -> None:
    result = sandbox(project, response).run(f"{REFUSED}; touch went-on; sleep 300")

    assert result.outcome is Outcome.BLOCKED
    assert not (project / "went-on").exists()


@pytest.mark.parametrize("response", ["terminate", "quarantine"])
def test_words_alone_end_nobody(project: Path, home: Path, response: str) -> None:
    result = sandbox(project, response).run("echo 'mount: /x: permission denied' >&2; touch went-on")

    assert result.ok and (project / "went-on").exists()


def test_who_goes_on_trying_waits_longer_for_each_answer(project: Path, home: Path) -> None:
    """The ninth pause is at least 128 ms by the clock of the sandbox: what is measured is the mechanism."""
    script = ("/usr/bin/python3", "-c", TIMED)

    throttled = sandbox(project, "throttle").run(script)

    waits = [int(word) for word in throttled.stdout.split()]
    # The answer to the nth call comes after the pause that followed the one before.
    assert len(waits) == 13 and throttled.ok
    assert waits[12] >= 100 and sum(waits[6:]) >= 200


def test_quarantine_keeps_what_ran_and_what_lay_in_its_private_areas(project: Path, home: Path) -> None:
    line = f"echo evidence > /tmp/left; (sleep 300; touch lived) & {REFUSED}; touch went-on"

    result = sandbox(project, "quarantine").run(line)

    (note,) = (note for note in result.notes if "private files" in note)
    kept = note.rpartition(" in ")[2]
    with open(os.path.join(kept, "processes.txt")) as file:
        said = file.read()
    copies = [
        os.path.join(directory, name)
        for directory, _, names in os.walk(kept)
        for name in names
        if name == "left"
    ]
    assert "syscalls: unshare" in said and "'unshare' '-U' 'true'" in said
    assert len(copies) == 1 and open(copies[0]).read() == "evidence\n"
    assert os.stat(kept).st_mode & 0o077 == 0


def test_a_session_ends_the_command_and_goes_on(project: Path, home: Path) -> None:
    with sandbox(project, "terminate", *LIMITED).session() as session:
        ended = [session.run(f"{what}; sleep 300").outcome for what in (LOOKUP, REFUSED)]
        after = session.run("touch after")

    assert ended == [Outcome.BLOCKED, Outcome.BLOCKED]
    assert after.ok and (project / "after").exists()


def test_a_session_in_quarantine_is_frozen_until_it_is_reset(project: Path, home: Path) -> None:
    beside: list[Outcome] = []
    began = threading.Event()
    with sandbox(project, "quarantine", *LIMITED).session() as session:
        other = threading.Thread(
            target=lambda: beside.append(
                session.run("echo up; sleep 300; touch lived", stream=lambda *_: began.set()).outcome
            )
        )
        other.start()
        assert began.wait(30)
        prepared = session.prepare("touch prepared-before")
        ended = session.run(f"echo evidence > /tmp/left; {LOOKUP}; sleep 300; touch went-on")
        other.join(30)
        with pytest.raises(SetupError) as refused:
            session.run("touch again")
        with pytest.raises(SetupError):
            session.finish(prepared)
        found = session.read_file("/tmp/left")
        session.reset()
        after = session.run("test ! -e /tmp/left && touch after")

    assert ended.outcome is Outcome.BLOCKED and beside == [Outcome.BLOCKED]
    assert refused.value.code == "session-quarantined" and "refused.example.com" in refused.value.why
    assert found == b"evidence\n"
    assert after.ok and sorted(path.name for path in project.glob("[a-z]*")) == ["after"]


def test_a_pool_records_and_ends_a_command_in_quarantine(project: Path, home: Path) -> None:
    with Pool(sandbox(project, "quarantine", *LIMITED), size=1) as pool:
        ended = [pool.run(f"{what}; sleep 300") for what in (LOOKUP, REFUSED)]
        after = pool.run("touch after")

    for one in ended:
        assert one.outcome is Outcome.BLOCKED and any("what ran" in note for note in one.notes)
    assert after.ok and (project / "after").exists()


def test_a_project_may_be_stricter_and_not_milder() -> None:
    strict, mild = build_policy("moderate", ["refusal:terminate"]), build_policy("moderate")

    assert (strict & mild).response is (mild & strict).response is Response.TERMINATE
    assert strict <= mild and not mild <= strict
    (cut,) = strict.grant(["refusal:warn"]).cuts
    assert str(cut.kept[0]) == "refusal:terminate"


def test_what_a_compiled_plan_cannot_do_is_refused(project: Path, home: Path) -> None:
    from corral.compiled_plans.compiler import compile_sandbox

    with pytest.raises(PolicyError) as refused:
        compile_sandbox(lambda _: sandbox(project, "terminate"))

    assert refused.value.code == "refusal-compiled"


def test_the_key_and_the_flag_say_the_same(project: Path, home: Path, corral: Corral) -> None:
    (project / "corral.toml").write_text('[sandbox]\non_refusal = "terminate"\n')

    by_key = corral("run", "-c", f"{REFUSED}; touch by-key", cwd=project)
    (project / "corral.toml").unlink()
    by_flag = corral("run", "--on-refusal", "terminate", "-c", f"{REFUSED}; touch by-flag", cwd=project)
    warned = corral("run", "--on-refusal", "warn", "-c", f"{REFUSED}; true", cwd=project)
    wrong = corral("run", "--on-refusal", "shrug", "--", "true", cwd=project)

    assert b"(blocked)" in by_key.stderr and b"(blocked)" in by_flag.stderr
    assert not (project / "by-key").exists() and not (project / "by-flag").exists()
    assert warned.returncode == 0 and b"warning: 1 different things were refused" in warned.stderr
    assert wrong.returncode == 2 and b"quarantine" in wrong.stderr


def test_lookups_that_are_refused_wait_with_and_without_a_network(project: Path, home: Path) -> None:
    """Twelve names: the pauses after the fifth to eleventh add up to 127 ms, by the sandbox's own clock."""
    script = (
        "import socket, time\nbegan = time.monotonic()\n"
        "for i in range(12):\n"
        "    try: socket.gethostbyname(f'n{i}.example.com')\n"
        "    except OSError: pass\n"
        "print(int((time.monotonic() - began) * 1000))"
    )

    for more in ((), LIMITED):
        throttled = sandbox(project, "throttle", *more).run(("/usr/bin/python3", "-c", script))

        assert int(throttled.stdout) >= 120
        assert len(throttled.events) == 12


@pytest.mark.parametrize("response", ["terminate", "quarantine"])
def test_the_process_that_is_refused_a_call_does_nothing_else(
    project: Path, home: Path, response: str
) -> None:
    script = "import ctypes, os; libc = ctypes.CDLL(None); libc.unshare(0x10000000); os.mkdir('went-on')"

    denied = sandbox(project, "deny").run(("/usr/bin/python3", "-c", script))
    assert denied.ok and (project / "went-on").exists()
    (project / "went-on").rmdir()
    ended = sandbox(project, response).run(("/usr/bin/python3", "-c", script))

    assert ended.outcome is Outcome.BLOCKED
    assert not (project / "went-on").exists()
