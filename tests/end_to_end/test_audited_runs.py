"""Runs are recorded: by the command line, in sessions, by functions; out of their own reach."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest

import corral as library
from corral.audit import log as audit_log
from corral.audit.log import CURRENT, AuditLog
from corral.audit.records import EVENTS
from corral.audit.verify import log_files, read_records, verify
from corral.policy.compose import build_policy
from support.probed import require

pytestmark = pytest.mark.starts_sandboxes


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A user with an audit log."""
    (tmp_path / "own.toml").write_text("[audit]\nenabled = true\n", encoding="utf-8")
    monkeypatch.setenv("CORRAL_CONFIG", str(tmp_path / "own.toml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    return tmp_path


def _records(place) -> list[dict]:
    return list(read_records(log_files(str(place / "state/corral/audit"))))


def test_a_run_leaves_what_was_planned_refused_and_how_it_ended_and_nothing_secret(corral, place) -> None:
    done = corral(
        *("run", "--env", "TOKEN=hunter2", "--waive", "fs.metadata", "-c"),
        "echo hunter3; exit 3 # http://x/?q=hunter4",
        cwd=place / "work",
    )
    records = _records(place)

    assert done.returncode == 3
    assert [record["event"] for record in records] == ["opened", "planned", "waiver", "started", "ended"]
    assert records[1]["policy_hash"] == records[4]["policy_hash"]
    assert (records[4]["outcome"], records[4]["exit_status"]) == ("exited", 3)
    assert records[1]["uid"] == os.geteuid()
    assert "hunter" not in json.dumps(records)
    assert verify(str(place / "state/corral/audit")).is_intact


def test_every_line_is_as_the_published_schema_says(corral, place) -> None:
    corral("run", "--waive", "fs.metadata", "--agent", "x", "--", "true", cwd=place / "work")
    corral("run", "-c", "echo x > /etc/hosts; cat /nowhere; exit 1", cwd=place / "work")
    corral("run", "--", "no-such-program", cwd=place / "work")
    directory = Path(audit_log.__file__).parent
    schema = json.loads((directory / "audit.schema.json").read_text(encoding="utf-8"))

    assert schema["properties"]["event"]["enum"] == list(EVENTS)
    for record in _records(place):
        jsonschema.validate(record, schema)


def test_a_command_that_could_not_start_is_on_record(corral, place) -> None:
    assert corral("run", "--", "no-such-program", cwd=place / "work").returncode == 127

    assert [record["event"] for record in _records(place)] == ["opened", "planned", "setup-failed"]
    assert _records(place)[-1]["code"] == "exec"


def test_no_command_reads_or_writes_the_log_even_where_its_directory_is_granted(corral, place) -> None:
    corral("run", "--", "true", cwd=place / "work")
    log = place / "state/corral/audit" / CURRENT
    before = log.read_bytes()
    script = (
        f"cat {log} && echo READ; echo x >> {log} && echo WRITTEN; ls {log.parent} && echo LISTED; echo alive"
    )

    done = corral("run", "--read", str(place / "state"), "-c", script, cwd=place / "work")
    assert b"alive" in done.stdout
    assert not {b"READ", b"WRITTEN", b"LISTED"} & set(done.stdout.split())
    assert log.read_bytes().startswith(before)
    assert verify(str(log.parent)).is_intact

    control = corral("run", "--no-sandbox", "-c", f"cat {log} > /dev/null && echo READ", cwd=place / "work")
    assert b"READ" in control.stdout


def test_what_other_runs_leave_is_hidden_also_in_a_session_that_is_older(place) -> None:
    state = place / "state/corral"
    state.mkdir(parents=True)
    policy = build_policy("moderate", (f"filesystem:read:{place}/state",))
    with library.Sandbox(policy, workspace=place / "work").session() as session:
        for name in ("control", "audit", "copies", "hidden", "quarantine", "stored", "trials"):
            (state / name).mkdir(exist_ok=True)
            (state / name / "file").write_text(name)
        assert session.run(f"cat {state}/*/file").stdout == "control"


def test_where_nothing_can_be_recorded_nothing_runs_unless_a_warning_is_enough(corral, place) -> None:
    (place / "state/corral/audit").mkdir(parents=True)
    (place / "state/corral/audit" / CURRENT).mkdir()
    refused = corral("run", "--", "touch", "ran", cwd=place / "work")

    assert refused.returncode == 125
    assert b"cannot be recorded in the audit log" in refused.stderr
    assert not (place / "work/ran").exists()

    (place / "own.toml").write_text('[audit]\nenabled = true\non_failure = "warn"\n', encoding="utf-8")
    warned = corral("run", "--", "touch", "ran", cwd=place / "work")
    assert warned.returncode == 0
    assert b"the audit log was not written" in warned.stderr
    assert (place / "work/ran").exists()


def test_a_project_cannot_switch_it_off_and_a_plan_is_not_compiled(corral, place) -> None:
    (place / "work/corral.toml").write_text("[audit]\nenabled = false\n")
    corral("run", "--", "true", cwd=place / "work")

    assert _records(place)[-1]["event"] == "ended"
    assert b"leaves no record" in corral("compile", "-o", str(place / "plan"), cwd=place / "work").stderr


def test_verify_says_what_was_changed_and_anchors_what_was_cut(corral, place) -> None:
    corral("run", "--", "true", cwd=place / "work")
    assert corral("audit", "verify").returncode == 0
    assert corral("audit", "anchor", "--to", str(place / "anchors")).returncode == 0
    log = place / "state/corral/audit" / CURRENT
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))

    assert corral("audit", "verify").returncode == 0
    cut = corral("audit", "verify", "--anchor", str(place / "anchors"))
    assert cut.returncode == 1
    assert b"its end is gone" in cut.stdout

    log.write_bytes(b"".join(lines).replace(b'"exit_status":0', b'"exit_status":1'))
    assert corral("audit", "verify", "--json").returncode == 1
    assert b"setup-failed" not in corral("audit", "query", "--event", "ended").stdout
    assert b'"class_uid": 1007' in corral("audit", "export", "--format", "ocsf").stdout


def test_a_function_takes_records_of_single_runs_and_sessions(tmp_path) -> None:
    found: list = []
    sandbox = library.Sandbox("strict", workspace=tmp_path, audit=found.append)
    sandbox.run(("true",))
    with sandbox.session() as session:
        session.run(("false",))

    assert [record["event"] for record in found] == ["planned", "started", "ended"] * 2
    assert "session" not in found[0]
    assert found[3]["session"] == found[5]["session"] != ""
    assert found[3]["run"] == found[5]["run"] != found[0]["run"]
    assert found[3]["program"] == "false"
    with pytest.raises(library.PolicyError, match="does not accept records"):
        library.Sandbox(audit=3)


def test_a_log_of_ones_own_is_a_sink(tmp_path) -> None:
    log = AuditLog(str(tmp_path / "log"))
    library.Sandbox("strict", workspace=tmp_path, audit=log).run(("true",))

    assert verify(str(tmp_path / "log")).events == 4


def test_of_a_line_given_as_a_name_only_its_first_word_is_recorded(corral, place) -> None:
    corral("run", "login --password hunter2", cwd=place / "work")

    records = _records(place)
    assert "hunter" not in json.dumps(records)
    assert "login" in {record.get("program") for record in records}


def test_a_module_is_recorded_like_a_command(corral, place) -> None:
    (place / "work/m.wat").write_text('(module (func (export "_start")))', encoding="utf-8")
    done = corral("run", "--backend", "wasm", "--", "m.wat", cwd=place / "work")

    assert done.returncode == 0, done.stderr
    told = [(record["event"], record.get("backend")) for record in _records(place)]
    assert ("planned", "wasm") in told and ("ended", "wasm") in told


def test_a_module_that_is_run_is_on_record(corral, place, request) -> None:
    require(request, "wasm")
    (place / "work" / "m.wat").write_text('(module (memory (export "memory") 1) (func (export "_start")))')

    assert corral("module", "run", "m.wat", cwd=place / "work").returncode == 0

    assert [record["event"] for record in _records(place)] == ["opened", "planned", "started", "ended"]
