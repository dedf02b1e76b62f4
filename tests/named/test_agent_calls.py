"""Commands of agents, by the hook and by the shell that Claude Code is given: confined, or not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.hook.execute import session_name
from support.named_sessions import wait_for_ends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from support.named_sessions import Person

_TALK = "0a2a367d-a2f4-477c-b840-9a7e7af810d8"
_ENTRY = {
    "corral": "from corral.cli.main import main",
    "corral-agent-shell": "from corral.cli.hook.agent_shell import main",
}


@pytest.fixture
def programs(root_person: Person) -> Path:
    """What `pip install corral` puts into a directory of programs."""
    place = root_person.root / "bin"
    place.mkdir()
    for name, text in _ENTRY.items():
        script = place / name
        script.write_text(f"#!{sys._base_executable}\n{text}\nmain()\n")  # type: ignore[attr-defined]
        script.chmod(0o755)
    return place


def _run(
    person: Person, argv: list[str], *, stdin: bytes = b"", cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        argv,
        input=stdin,
        capture_output=True,
        cwd=cwd or person.project,
        env={**person.environment, **env},
        timeout=90,
        check=False,
    )
    return subprocess.CompletedProcess(argv, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def codex(root_person: Person, programs: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Calls a command as Codex does: it asks the hook, and runs what that answers by a login shell."""

    def call(command: str) -> subprocess.CompletedProcess[str]:
        asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
        asked |= {"session_id": _TALK, "cwd": str(root_person.project)}
        hook = _run(
            root_person, [str(programs / "corral"), "hook", "codex"], stdin=json.dumps(asked).encode()
        )
        assert hook.returncode == 0, hook.stderr
        line = json.loads(hook.stdout)["hookSpecificOutput"]["updatedInput"]["command"]
        return _run(root_person, ["/bin/bash", "-lc", line])

    return call


@pytest.fixture
def claude(root_person: Person, programs: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Calls a command as Claude Code does, with the working directory of the last call."""
    told = root_person.root / "claude-8ad6-cwd"
    snapshot = root_person.home / ".claude/shell-snapshots/snapshot-bash-1.sh"

    def call(command: str) -> subprocess.CompletedProcess[str]:
        here = Path(told.read_text().strip()) if told.exists() else root_person.project
        script = (
            f"source {snapshot} 2>/dev/null || true && {{ shopt -u extglob || setopt NO_EXTENDED_GLOB; }}"
            f" >/dev/null 2>&1 || true && eval {_quoted(command)} < /dev/null && pwd -P >| {told}"
        )
        variables = {"CLAUDE_CODE_SESSION_ID": _TALK, "AI_AGENT": "claude-code_2-1-197_agent"}
        return _run(root_person, [str(programs / "corral-agent-shell"), script], cwd=here, **variables)

    return call


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def test_a_call_of_codex_is_confined_and_the_rest_is_as_ever(
    root_person: Person, codex: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    secret = root_person.home / "secret"
    secret.write_text("token")
    (root_person.project / "sub").mkdir()
    server = "python3 -m http.server 8123 --bind 127.0.0.1 >log 2>&1 & until grep -qs Serving log; do :; done"

    script = codex("cat <<'END'\na  $b\nEND\ntrap 'echo last' EXIT\necho out >made; echo err >&2; exit 7")
    assert (script.returncode, script.stdout) == (7, "a  $b\nlast\n")
    assert script.stderr.startswith("err\n")
    assert (root_person.project / "made").read_text() == "out\n"  # a control: the workspace is the host's
    assert codex(server.replace("python3", "python3 -u")).returncode == 0
    assert (
        codex("exec 3<>/dev/tcp/127.0.0.1/8123 && echo served").stdout == "served\n"
    )  # the next call finds it
    assert codex("cd sub && pwd").stdout.endswith("/sub\n")
    assert codex("pwd").stdout == f"{root_person.project}\n"  # as Codex has it: each call begins anew
    hidden = codex(f"cat {secret}")
    assert hidden.returncode == 1
    assert "token" not in hidden.stdout
    assert f"corral: {secret} is not visible in the sandbox" in hidden.stderr
    offline = codex("curl -sS http://files.example.org")
    assert offline.returncode != 0
    assert "corral: the sandbox has no network" in offline.stderr
    piped = codex("curl -sS http://files.example.org | tail -1")  # the status is that of `tail`
    assert piped.returncode == 0
    assert "corral: the sandbox has no network" in piped.stderr


def test_a_call_of_claude_code_is_confined_and_its_directory_stays(
    root_person: Person, claude: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (root_person.project / "sub").mkdir()
    outside = root_person.root / "planted"

    assert claude("cd sub; echo $PPID >/dev/null; pwd").stdout == f"{root_person.project}/sub\n"
    assert claude("pwd").stdout == f"{root_person.project}/sub\n"
    only_inside = claude("mkdir -p /tmp/x && cd /tmp/x")
    assert only_inside.returncode == 0
    assert "is in the sandbox only" in only_inside.stderr
    assert claude("pwd").stdout == f"{root_person.project}/sub\n"
    # A command that writes the file itself, or quotes its way towards the end, stays inside all the same.
    claude(f"echo no > {outside}; true' && pwd -P >| {outside}; echo '")
    assert not outside.exists()
    assert claude("exit 3").returncode == 3


def test_the_agents_shell_lets_its_hooks_be_but_no_command(root_person: Person, programs: Path) -> None:
    shell = str(programs / "corral-agent-shell")
    made = root_person.root / "made"
    harness = {"AI_AGENT": "claude-code_2-1-197_harness", "CLAUDE_PROJECT_DIR": str(root_person.project)}
    script = f"touch {made}"

    assert _run(root_person, [shell, script], **harness).returncode == 0
    assert made.exists()  # a hook of the user's, which is his program
    made.unlink()
    for variables in ({}, {"AI_AGENT": harness["AI_AGENT"]}, {**harness, "AI_AGENT": "claude-code_agent"}):
        _run(root_person, [shell, script], **variables)
    _run(root_person, [shell, f"{script} && pwd -P >| {root_person.root}/cwd"], **harness)
    assert not made.exists()


def test_a_command_does_not_name_the_file_that_tells_its_directory(
    root_person: Person, programs: Path
) -> None:
    """Nor where a script of the agent's does not end with one."""
    planted = root_person.root / "planted"

    _run(
        root_person,
        [str(programs / "corral-agent-shell"), f"true && eval 'true && pwd -P >| {planted};#'"],
        CLAUDE_CODE_SESSION_ID=_TALK,
        AI_AGENT="claude-code_2-1-197_agent",
    )

    assert list(root_person.root.glob("planted*")) == []


def test_the_hook_trusts_the_agents_shell_only_if_it_is_corrals(root_person: Person, programs: Path) -> None:
    asked = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "id"}}
    data = json.dumps({**asked, "session_id": _TALK, "cwd": str(root_person.project)}).encode()
    hook = [str(programs / "corral"), "hook", "claude-code"]

    own = _run(root_person, hook, stdin=data, CLAUDE_CODE_SHELL_PREFIX=str(programs / "corral-agent-shell"))
    other = _run(root_person, hook, stdin=data, CLAUDE_CODE_SHELL_PREFIX="/tmp/corral-agent-shell")
    assert (own.returncode, own.stdout) == (0, "")
    assert "updatedInput" in other.stdout


def test_bad_input_ends_with_the_status_that_refuses(root_person: Person, programs: Path) -> None:
    asked = {"hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "session_id": _TALK}
    long = {**asked, "cwd": "/", "tool_input": {"command": "x" * 10_000_000}}
    for agent, data, why in (
        ("claude-code", b"{", "the call is not valid JSON"),
        ("codex", b"\xff\xfe", "the call is not valid UTF-8"),
        ("gemini", json.dumps(long).encode(), "it has 10000000 bytes"),
    ):
        done = _run(root_person, [str(programs / "corral"), "hook", agent], stdin=data)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith(f"corral: the command did not run\n  because: {why}")


def test_a_tool_that_the_user_lets_bypass_the_sandbox_does_and_nothing_else(
    root_person: Person,
    codex: Callable[[str], subprocess.CompletedProcess[str]],
    claude: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    settings = root_person.home / ".config/corral/corral.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sandbox]\nbypass_tools = ["readlink"]\n')
    outside, plain = os.readlink("/proc/self/ns/pid"), "readlink /proc/self/ns/pid"

    for call in (codex, claude):
        done = call(plain)
        assert done.stdout.strip() == outside
        assert "readlink is among bypass_tools" in done.stderr
        for line in (
            f"{plain}; true",
            f"true && {plain}",
            "'readlink' /proc/self/ns/pid",
            f"$(echo {plain})",
        ):
            assert outside not in call(line).stdout


def test_an_agent_has_settings_of_its_own(
    root_person: Person,
    codex: Callable[[str], subprocess.CompletedProcess[str]],
    claude: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    settings = root_person.home / ".config/corral/corral.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[agent.claude-code.sandbox.mounts]\nworkspace_writable = false\n")

    assert claude("touch by-claude").returncode == 1
    assert codex("touch by-codex").returncode == 0
    assert [path.name for path in root_person.project.iterdir()] == ["by-codex"]


def test_two_calls_at_once_share_one_sandbox(root_person: Person, programs: Path) -> None:
    argv = [str(programs / "corral"), "hook", "exec", "codex", _TALK, str(root_person.project)]
    argv.append("readlink /proc/self/ns/pid")
    both = [
        subprocess.Popen(argv, env=root_person.environment, cwd=root_person.project, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=90)[0] for process in both]

    assert [process.returncode for process in both] == [0, 0]
    assert said[0] == said[1] != os.readlink("/proc/self/ns/pid").encode()


def test_a_home_that_cannot_be_written_means_no_command(root_person: Person, programs: Path) -> None:
    made = root_person.project / "made"
    argv = [str(programs / "corral"), "hook", "exec", "codex", _TALK, str(root_person.project), "touch made"]
    nowhere = {"XDG_RUNTIME_DIR": "/proc/nowhere", "HOME": "/proc/nowhere"}

    done = _run(root_person, argv, **nowhere)
    assert done.returncode == 125
    assert "corral: the command did not run" in done.stderr
    assert not made.exists()
    assert _run(root_person, argv).returncode == 0  # a control
    assert made.exists()


def test_a_conversation_that_ends_takes_its_sandbox_along(root_person: Person, programs: Path) -> None:
    _run(root_person, [str(programs / "corral-agent-shell"), "true"], CLAUDE_CODE_SESSION_ID=_TALK)
    name = session_name("claude-code", _TALK)
    process = os.pidfd_open(root_person.pid(name))
    over = json.dumps({"hook_event_name": "SessionEnd", "session_id": _TALK, "cwd": "/"}).encode()

    assert _run(root_person, [str(programs / "corral"), "hook", "claude-code"], stdin=over).returncode == 0
    wait_for_ends([process])
