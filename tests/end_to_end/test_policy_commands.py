"""`corral policy` and `corral why`: what they say is what a run does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from corral.policy.preset import PRESETS
from support.mistakes import FIVE_MISTAKES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral


def answer(corral: Corral, *arguments: str, status: int = 0) -> dict[str, object]:
    done = corral(*arguments, "--json")
    assert done.returncode == status, done.stderr
    return dict(json.loads(done.stdout))


def test_validate_shows_five_mistakes_with_their_places(corral: Corral, project: Path) -> None:
    (project / "corral.toml").write_text(FIVE_MISTAKES)

    done = corral("policy", "validate")

    assert done.returncode == 2
    places = [line.split(": ")[0].rsplit("/", 1)[1] for line in done.stdout.decode().splitlines()[::2]]
    assert places == [f"corral.toml:{place}" for place in ("2:11", "3:1", "4:11", "7:10", "8:8")]
    assert all(line.startswith("  fix: ") for line in done.stdout.decode().splitlines()[1::2])
    report = answer(corral, "policy", "validate", status=2)
    assert len(report["files"][0]["problems"]) == 5  # type: ignore[index]


def test_validate_takes_files_and_answers_for_right_ones(corral: Corral, project: Path) -> None:
    (project / "a.toml").write_text("[sandbox]\nenabled = true\n")
    (project / "b.json").write_text("{")

    assert corral("policy", "validate", "a.toml").returncode == 0
    assert corral("policy", "validate", "a.toml", "b.json").returncode == 2
    assert corral("policy", "validate", "no-such.toml").returncode == 2
    assert b"no configuration was found" in corral("policy", "validate").stdout


def test_list_has_every_preset_with_its_sentence(corral: Corral) -> None:
    presets = answer(corral, "policy", "list")["presets"]

    assert [entry["name"] for entry in presets] == list(PRESETS)  # type: ignore[attr-defined]
    assert all(entry["description"].startswith("for ") for entry in presets)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", PRESETS)
def test_show_prints_capabilities_that_can_be_given_back(corral: Corral, name: str) -> None:
    from corral.model.policy import Policy
    from corral.model.rules.capability import PolicyDraft, parse_capability
    from corral.policy.preset import load_preset

    draft = PolicyDraft(Policy())
    for text in answer(corral, "policy", "show", name)["capabilities"]:  # type: ignore[attr-defined]
        draft.add(parse_capability(text))

    assert draft.build() <= load_preset(name) <= draft.build()


def test_diff_says_which_one_permits_more(corral: Corral, project: Path) -> None:
    assert answer(corral, "policy", "diff", "strict", "moderate")["relation"] == "narrower"
    assert answer(corral, "policy", "diff", "permissive", "moderate")["relation"] == "wider"
    assert answer(corral, "policy", "diff", "moderate", "moderate")["relation"] == "equal"
    (project / "mine.toml").write_text('[sandbox]\nnetwork = "full"\n[sandbox.resources]\ntime = "1s"\n')
    found = answer(corral, "policy", "diff", "moderate", "./mine.toml")
    assert found["relation"] == "different"
    assert set(found["only_in_second"]) == {"network:full", "time:limit:1s"}  # type: ignore[call-overload]


def test_init_writes_a_file_that_is_right_and_never_replaces_one(corral: Corral, project: Path) -> None:
    done = corral("policy", "init", "--profile", "strict", "--read-only", "--time", "5m")
    assert done.returncode == 0, done.stderr
    text = (project / "corral.toml").read_text()
    assert 'profile = "strict"' in text and "workspace_writable = false" in text
    assert corral("policy", "validate").returncode == 0
    assert not can_write(corral, project)

    assert corral("policy", "init", "--profile", "moderate").returncode == 2
    assert (project / "corral.toml").read_text() == text
    assert corral("policy", "init", "--profile", "moderate", "--force").returncode == 0
    assert can_write(corral, project)
    assert corral("policy", "init", "--profile", "nonsense", "--force").returncode == 2


def test_init_for_the_user_goes_where_it_is_read_from(corral: Corral, project: Path, home: Path) -> None:
    assert corral("policy", "init", "--user", "--read-only").returncode == 0

    assert (home / ".config" / "corral" / "corral.toml").exists()
    assert not can_write(corral, project)


def can_write(corral: Corral, project: Path) -> bool:
    (project / "made").unlink(missing_ok=True)
    assert corral("run", "-c", "echo alive; touch made").stdout == b"alive\n"
    return (project / "made").exists()


def test_the_schema_is_a_schema_and_the_one_that_is_installed(corral: Corral) -> None:
    from corral.config import schema

    printed = json.loads(corral("policy", "schema").stdout)

    jsonschema.Draft202012Validator.check_schema(printed)
    installed = Path(schema.__file__).with_name(schema.FILE_NAME)
    assert json.loads(installed.read_text()) == printed
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"sandbox": {"netwrok": "none"}}, printed)


# ---- why

PROBES = {
    "read": "cat {target} >/dev/null",
    "write": "echo x >> {target}",
    "exec": "{target} >/dev/null",
}


@pytest.mark.parametrize(
    ("operation", "target", "options"),
    [
        ("read", "{project}/file", ()),
        ("read", "{home}/.ssh/id_ed25519", ()),
        ("read", "{home}/.ssh/id_ed25519", ("--read", "{home}/.ssh")),
        ("read", "/etc/shadow", ()),
        ("read", "/etc/passwd", ()),
        ("read", "{outside}/file", ()),
        ("read", "{project}/link", ()),
        ("read", "{project}/denied", ("--deny", "{project}/denied")),
        ("write", "{project}/file", ()),
        ("write", "{project}/new", ()),
        ("write", "{project}/.git/config", ()),
        ("write", "{project}/file", ("-p", "strict")),
        ("write", "{outside}/file", ()),
        ("write", "{outside}/file", ("--write", "{outside}")),
        ("write", "{outside}/file", ("--read", "{outside}")),
        ("exec", "/bin/true", ()),
        ("exec", "{outside}/program", ()),
        ("exec", "{outside}/program", ("--read", "{outside}")),
    ],
)
def test_why_answers_what_a_run_does(
    corral: Corral,
    project: Path,
    home: Path,
    tmp_path: Path,
    operation: str,
    target: str,
    options: tuple[str, ...],
) -> None:
    """The command is tried; unconfined it works, so that a refusal is the sandbox's."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for directory in (project, outside):
        (directory / "file").write_text("x")
    (project / "denied").write_text("x")
    (project / "link").symlink_to(outside / "file")
    (outside / "program").write_text("#!/bin/sh\nexit 0\n")
    (outside / "program").chmod(0o755)
    names = {"project": project, "home": home, "outside": outside}
    path, flags = target.format(**names), [flag.format(**names) for flag in options]
    line = PROBES[operation].format(target=path)
    if path == "/etc/shadow" and os.geteuid() != 0:
        pytest.skip("an ordinary user cannot read it outside either")
    assert subprocess.run(line, shell=True, cwd=project, capture_output=True).returncode == 0

    said = corral("why", operation, path, "--json", *flags)
    before = Path(path).stat().st_size if operation == "write" else -1
    done = corral("run", *flags, "-c", line)
    worked = done.returncode == 0 and before != (Path(path).stat().st_size if operation == "write" else 0)

    assert json.loads(said.stdout)["allowed"] == worked, (said.stdout, done.stderr)
    assert said.returncode == (0 if worked else 1)


def test_the_capability_that_why_names_changes_the_answer(
    corral: Corral, project: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("TEXT")

    for operation in ("read", "write"):
        found = answer(corral, "why", operation, str(outside / "file"), status=1)
        capability = str(found["capability"])
        assert answer(corral, "why", operation, str(outside / "file"), "--cap", capability)["allowed"]
        assert corral("run", "--cap", capability, "--", "cat", str(outside / "file")).stdout == b"TEXT"


def test_why_says_that_settings_of_git_are_changed_in_a_copy(corral: Corral, project: Path) -> None:
    (project / ".git/config").write_text("[core]\n\tbare = false\n")
    native = ("--backend", "native")

    said = {
        name: corral("why", "write", f".git/{name}", *native).stdout.decode() for name in ("config", "hooks")
    }
    script = r"printf '[user]\n\tname = x\n[core]\n\tpager = x\n' >> .git/config"
    ran = corral("run", *native, "--", "sh", "-c", script)

    assert said["config"].splitlines()[:2] == [
        "in part: write .git/config",
        "  because  a command changes a copy; harmless changes are taken over when it has ended",
    ]
    assert said["hooks"].startswith("no: write .git/hooks\n")
    assert ran.returncode == 0
    assert (project / ".git/config").read_text() == "[core]\n\tbare = false\n[user]\n\tname = x\n"


def test_why_names_the_rule_and_the_file_that_decided(corral: Corral, project: Path, home: Path) -> None:
    (project / "corral.toml").write_text('[sandbox]\ndenied_paths = ["${workspace}/secret"]\n')
    (project / "secret").write_text("x")

    found = answer(corral, "why", "read", "secret", status=1)

    assert (found["reason"], found["rule"]) == ("denied", "filesystem:deny:${workspace}/secret")
    assert found["origin"]["name"] == str(project / "corral.toml")  # type: ignore[index]
    assert found["origin"]["line"] == 2  # type: ignore[index]
    assert "denial" in str(found["advice"])


@pytest.mark.parametrize(
    ("target", "options", "allowed", "capability"),
    [
        ("https://pypi.org/simple", (), False, "network:https:pypi.org"),
        ("pypi.org", ("--net", "full"), True, None),
        ("db.internal:5432", (), False, "network:tcp:db.internal:5432"),
        ("http:localhost", ("--cap", "network:http:localhost"), True, None),
        ("sub.example.com", ("--cap", "network:https:*.example.com"), True, None),
        ("example.com", ("--cap", "network:https:*.example.com"), False, "network:https:example.com"),
        ("example.com", ("--net", "full", "--cap", "network:deny:example.com"), False, None),
        ("example.com:22", ("--net", "limited"), False, "network:tcp:example.com:22"),
    ],
)
def test_why_connect_answers_by_name_and_port(
    corral: Corral, target: str, options: tuple[str, ...], allowed: bool, capability: str | None
) -> None:
    # Nobody keeps single hosts away from an open network, and nothing runs so: that is said as well.
    is_hopeless = "network:deny:example.com" in options
    status = 3 if is_hopeless else 0 if allowed else 1
    found = answer(corral, "why", "connect", target, *options, status=status)

    assert (found["allowed"], found["capability"]) == (allowed, capability)


def test_errors_are_json_when_json_was_asked_for(corral: Corral, project: Path) -> None:
    (project / "corral.toml").write_text(FIVE_MISTAKES)

    for command in (("why", "read", "x"), ("policy", "show", "--effective"), ("run", "--", "true")):
        options = ("run", "--json", "--", "true") if command[0] == "run" else (*command, "--json")
        done = corral(*options)
        assert done.returncode == 2
        assert len(json.loads(done.stdout)["error"]["problems"]) == 5


def test_init_asks_on_a_terminal(project: Path, home: Path) -> None:
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "corral", "policy", "init"],
        cwd=project,
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    os.write(parent, b"strict\nnone\nn\n\n")
    printed = b""
    try:
        while piece := os.read(parent, 4096):
            printed += piece
    except OSError:  # the terminal is gone when the last one has closed it
        pass
    assert process.wait(timeout=30) == 0, printed
    os.close(parent)

    text = (project / "corral.toml").read_text()
    assert 'profile = "strict"' in text and "workspace_writable = false" in text
    assert "#memory = " in text


def test_why_says_no_where_nothing_runs_at_all(corral: Corral, home: Path) -> None:
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh/id_rsa").write_text("KEY")

    said = corral("why", "read", ".ssh/id_rsa", "--cwd", str(home))
    lines = said.stdout.decode().splitlines()

    assert corral("run", "--cwd", str(home), "--", "true").returncode == 2
    assert said.returncode == 3
    assert lines[0] == "no: read .ssh/id_rsa"
    assert "no command runs under this policy here" in lines[1]
    assert lines[-1].startswith("  change   ")
    assert answer(corral, "why", "read", "x", "--cwd", str(home), status=3)["reason"] == "refused"
    connect = answer(corral, "why", "connect", "example.org", "--cwd", str(home), status=3)
    assert (connect["allowed"], connect["reason"]) == (False, "refused")
