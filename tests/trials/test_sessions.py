"""Sessions on trial, and a configuration that has commands tried."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral import Sandbox
from corral.model.errors import UnenforceableError
from support.named_sessions import Person
from support.probed import probe_of


def test_what_commands_of_a_session_write_stays_in_its_trial(person: Person) -> None:
    person.start("s", "--try")
    for line in ("echo one > made", "cat made >> more"):
        assert person.corral("session", "exec", "s", "--", "sh", "-c", line).returncode == 0
    assert sorted(os.listdir(person.project)) == []
    assert b"is in use" in person.corral("apply").stderr

    assert person.corral("session", "stop", "s").returncode == 0
    assert sorted(os.listdir(person.project)) == []
    done = person.corral("apply")

    assert done.returncode == 0, done.stderr
    assert (person.project / "more").read_text() == "one\n"


def test_a_session_that_changed_nothing_leaves_no_trial(root_person: Person) -> None:
    root_person.start("s", "--try")
    assert root_person.corral("session", "stop", "s").returncode == 0

    assert root_person.corral("trials").stdout == b"no trials in this workspace\n"
    assert root_person.corral("trials", "--prune").stderr == b"corral: no trial is discarded\n"


def test_a_session_on_trial_is_not_taken_for_another(root_person: Person) -> None:
    root_person.start("s", "--try")
    try:
        done = root_person.corral("session", "start", "s", "--reuse")
        assert done.returncode != 0 and b"--try" in done.stderr
        both = root_person.corral("session", "start", "t", "--reuse", "--try")
        assert both.returncode == 2 and b"do not go together" in both.stderr
    finally:
        root_person.corral("session", "stop", "s")


def test_an_agent_can_be_tried_by_default(root_person: Person) -> None:
    configuration = Path(root_person.environment["HOME"]) / "own.toml"
    configuration.write_text('[agent.helper.sandbox]\nworkspace = "trial"\n')
    chosen = str(configuration)

    tried = root_person.corral(
        "run", "--agent", "helper", "--", "sh", "-c", "echo a > tried", CORRAL_CONFIG=chosen
    )
    plain = root_person.corral("run", "--", "sh", "-c", "echo a > plain", CORRAL_CONFIG=chosen)
    learned = root_person.corral(
        "learn", "--agent", "helper", "--", "sh", "-c", "echo a > learned", CORRAL_CONFIG=chosen
    )

    assert (tried.returncode, plain.returncode) == (0, 0), tried.stderr
    assert learned.returncode == 2 and b"cannot be done on trial" in learned.stderr
    assert os.listdir(root_person.project) == ["plain"]
    assert b"1 added" in root_person.corral("changes").stdout


def test_a_project_cannot_have_commands_write_where_the_user_does_not(root_person: Person) -> None:
    (root_person.project / "corral.toml").write_text('[sandbox]\nworkspace = "direct"\n')
    own = Path(root_person.environment["HOME"]) / "own.toml"
    own.write_text('[sandbox]\nworkspace = "trial"\n')

    done = root_person.corral("run", "--", "sh", "-c", "echo a > made", CORRAL_CONFIG=str(own))

    assert done.returncode == 0, done.stderr
    assert not (root_person.project / "made").exists()


@pytest.mark.parametrize("name", ["landlock"])
def test_another_backend_refuses_and_names_the_one_that_can(work: Path, name: str) -> None:
    if not probe_of(name).available:
        pytest.skip(f"{name} is not available: {probe_of(name).reason}")
    with Sandbox(workspace=work, backend=name).trial() as trial, pytest.raises(UnenforceableError) as refused:
        trial.run("true")

    assert "native" in refused.value.fix and "waive" not in refused.value.fix


def test_commits_are_brought_over_for_everybody(person: Person) -> None:
    """As root and as an ordinary user, at the command line."""
    import subprocess

    become = person.argv()[:-1]
    who = "-c user.name=a -c user.email=a@example.org"
    prepare = f"git init -qb main; echo 1 > file; git add .; git {who} commit -qm first"
    subprocess.run([*become, "sh", "-c", prepare], cwd=person.project, env=person.environment, check=True)
    script = f"echo 2 >> file; git {who} commit -qam second; echo 3 > new; git add new; echo 4 >> file"

    tried = person.corral("try", "--", "sh", "-c", script)
    assert tried.returncode == 0 and b"refs/heads/main" in tried.stderr, tried.stderr
    applied = person.corral("apply")
    assert applied.returncode == 0, applied.stderr

    say = "git log --format=%s; git status --short; git fsck"
    said = subprocess.run(
        [*become, "sh", "-c", say],
        cwd=person.project,
        env=person.environment,
        check=True,
        capture_output=True,
    )
    assert said.stdout.decode().split("\n") == ["second", "first", " M file", "A  new", ""]
    assert person.corral("undo").returncode == 0
    said = subprocess.run(
        [*become, "sh", "-c", say],
        cwd=person.project,
        env=person.environment,
        check=True,
        capture_output=True,
    )
    assert b"second" not in said.stdout and said.stdout.startswith(b"first\n")
