"""`corral check`, and `[check]` as `corral run`, hooks and BashTool apply it."""

from __future__ import annotations

import json

import pytest

import corral as library


def _configure(tmp_path, monkeypatch, mode: str):
    file = tmp_path / "own.toml"
    file.write_text(f'[check]\nmode = "{mode}"\n', encoding="utf-8")
    monkeypatch.setenv("CORRAL_CONFIG", str(file))
    workspace = tmp_path / "work"
    workspace.mkdir()
    return workspace


@pytest.mark.parametrize(
    ("text", "status", "verdict"), [("ls", 0, "allow"), ("sudo ls", 10, "ask"), ("rm -rf /", 11, "deny")]
)
def test_the_verdict_is_said_and_is_the_status(corral, text: str, status: int, verdict: str) -> None:
    done = corral("check", "--json", text)

    assert done.returncode == status
    assert json.loads(done.stdout.decode())["verdict"] == verdict


def test_a_person_reads_the_rule_and_the_place(corral) -> None:
    done = corral("check", "echo; rm -rf / --no-preserve-root")

    assert done.stdout.decode().startswith("deny\n")
    assert "[remove-everything]" in done.stdout.decode()
    assert "characters 6 to 33" in done.stdout.decode()
    assert "not that the command is safe" in done.stdout.decode()


@pytest.mark.starts_sandboxes
def test_run_refuses_what_the_check_denies_and_the_command_does_not_run(
    corral, tmp_path, monkeypatch
) -> None:
    workspace = _configure(tmp_path, monkeypatch, "enforce")
    line = "touch ran; sudo true"

    refused = corral("run", "-c", line, cwd=workspace)
    assert refused.returncode == 2
    assert "the command did not run: the check of its text says ask" in refused.stderr.decode()
    assert not (workspace / "ran").exists()

    (tmp_path / "own.toml").write_text('[check]\nmode = "warn"\n', encoding="utf-8")
    warned = corral("run", "-c", line, cwd=workspace)
    assert "runs a command as another user" in warned.stderr.decode()
    assert (workspace / "ran").exists()


def test_a_refusal_is_on_record(corral, tmp_path, monkeypatch) -> None:
    workspace = _configure(tmp_path, monkeypatch, "enforce")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CORRAL_AUDIT_ENABLED", "true")

    assert corral("run", "-c", "sudo true", cwd=workspace).returncode == 2
    assert b"code=check-refused" in corral("audit", "tail").stdout


@pytest.mark.starts_sandboxes
def test_a_project_can_have_it_stricter_and_not_milder(corral, tmp_path, monkeypatch) -> None:
    workspace = _configure(tmp_path, monkeypatch, "enforce")
    (workspace / "corral.toml").write_text('[check]\nmode = "off"\nrules = ["${workspace}/r.toml"]\n')

    assert corral("run", "-c", "sudo true", cwd=workspace).returncode == 2

    monkeypatch.setenv("CORRAL_CONFIG", "")
    (workspace / "corral.toml").write_text('[check]\nmode = "enforce"\n')
    assert corral("run", "-c", "sudo true", cwd=workspace).returncode == 2
    assert corral("run", "-c", "true", cwd=workspace).returncode == 0


@pytest.mark.starts_sandboxes
def test_a_session_checks_what_it_is_sent_as_it_was_configured(corral, tmp_path, monkeypatch) -> None:
    workspace = _configure(tmp_path, monkeypatch, "enforce")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert corral("session", "start", "checked", cwd=workspace).returncode == 0
    monkeypatch.delenv("CORRAL_CONFIG")
    try:
        refused = corral("session", "exec", "checked", "-c", "touch ran; sudo true", cwd=workspace)
        permitted = corral("session", "exec", "checked", "-c", "touch permitted", cwd=workspace)
    finally:
        corral("session", "stop", "checked", cwd=workspace)

    assert refused.returncode == 2 and b"the check of its text says ask" in refused.stderr
    assert permitted.returncode == 0 and (workspace / "permitted").exists()
    assert not (workspace / "ran").exists()


@pytest.mark.starts_sandboxes
def test_a_hook_refuses_before_there_is_a_sandbox(corral, tmp_path, monkeypatch) -> None:
    workspace = _configure(tmp_path, monkeypatch, "enforce")
    done = corral(
        "hook", "exec", "codex", "conversation", str(workspace), "touch ran; rm -rf ~", cwd=workspace
    )

    assert done.returncode == 2
    assert "check of its text says deny" in done.stderr.decode()
    assert not (workspace / "ran").exists()


@pytest.mark.starts_sandboxes
def test_a_tool_tells_the_model_why_a_command_did_not_run(tmp_path, monkeypatch) -> None:
    workspace = _configure(tmp_path, monkeypatch, "enforce")
    sandbox = library.Sandbox(workspace=workspace)
    with library.BashTool(sandbox) as tool:
        told = tool.execute({"command": "touch ran; rm -rf ~"})
    assert told.is_error
    assert "[not run: the check of its text says deny" in told.text
    assert not (workspace / "ran").exists()

    with library.BashTool(sandbox, check="warn") as tool:
        told = tool.execute({"command": "echo; sudo true; echo ran"})
    assert "ran" in told.text
    assert "[corral: check: ask: runs a command as another user" in told.text


def test_what_may_be_asked_for_is_asked(tmp_path) -> None:
    asked: list[str] = []

    def ask(result) -> bool:
        asked.append(result.verdict.value)
        return False

    with library.BashTool(library.Sandbox(workspace=tmp_path), check="ask", ask_check=ask) as tool:
        told = tool.execute({"command": "sudo ls"})
    assert told.is_error
    assert asked == ["ask"]
