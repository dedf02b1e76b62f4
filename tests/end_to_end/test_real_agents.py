"""Claude Code and Codex themselves, with a scripted model: what they run ends as it would without corral.

They are on the PATH, or in `.agents`: `npm install --prefix .agents @anthropic-ai/claude-code @openai/codex`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from support.probed import probe_of
from support.scripted_model import ScriptedModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

_ROOT = Path(__file__).parents[2]
_PROGRAMS = {"claude-code": "claude", "codex": "codex"}
_SECRET = "a key that nobody is to see"
_CODEX = {
    "model": "gpt-5",
    "model_provider": "scripted",
    "sandbox_mode": "danger-full-access",
    "approval_policy": "never",
    "model_providers.scripted.name": "scripted",
    "model_providers.scripted.wire_api": "responses",
}
_ENTRY = {
    "corral": "from corral.cli.main import main",
    "corral-agent-shell": "from corral.cli.hook.agent_shell import main",
}


class Workplace:
    """A fresh home with a project and a key, an installation of corral, and an agent."""

    def __init__(self, root: Path, agent: str, program: str) -> None:
        self.agent, self.program = agent, program
        self.home, self.project, self.programs = root / "home", root / "home/project", root / "bin"
        for directory in (self.project, self.home / ".ssh", self.programs, root / "runtime"):
            directory.mkdir(parents=True, mode=0o700)
        (self.home / ".ssh/id_rsa").write_text(_SECRET)
        for name, text in _ENTRY.items():
            script = self.programs / name
            script.write_text(f"#!{sys.executable}\n{text}\nmain()\n")
            script.chmod(0o755)
        node = Path(shutil.which("node") or "/usr/bin/node").parent
        self.environment = {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(root / "runtime"),
            "PATH": f"{Path(program).parent}:/usr/local/bin:/usr/bin:/bin:{node}",
            "LANG": "C.UTF-8",
        }

    def corral(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.programs / "corral"), *arguments],
            env=self.environment,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def work(self, commands: list[str], *before: str, tool: str = "") -> list[str]:
        """Let the agent do what a model says, with its own shell tool or another; returns what it tells the
        model of each call."""
        with ScriptedModel(commands, tool=tool or "exec_command") as model:
            if self.agent == "codex":
                settings = {**_CODEX, "model_providers.scripted.base_url": f"{model.url}/v1"}
                flags = [word for key, value in settings.items() for word in ("-c", f'{key}="{value}"')]
                argv = [self.program, "exec", "--skip-git-repo-check", *flags, "go on"]
                variables = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": model.url}
            else:
                argv = [self.program, "-p", "go on", "--allowedTools", tool or "Bash"]
                variables = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "none"}
                variables |= {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
                variables |= {"MCP_CONNECTION_NONBLOCKING": "0"}  # else it has a model wait for servers
            done = subprocess.run(
                [*before, *argv],
                env={**self.environment, **variables},
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=400,
            )
            assert done.returncode == 0, done.stderr
            return [_said(text) for text in model.results]

    def end(self) -> None:
        for line in self.corral("session", "list").splitlines():
            if "running" in line:
                self.corral("session", "stop", line.split()[0])


def _said(result: str) -> str:
    """The output of a command and its status, without what Codex says of its time."""
    _, found, output = result.partition("\nOutput:")
    if not found:
        return result.strip()
    status = result.partition("exited with code ")[2].partition("\n")[0]
    return (output if status in {"", "0"} else f"Exit code {status}\n{output}").strip()


@pytest.fixture(params=_PROGRAMS)
def agent(request: pytest.FixtureRequest) -> tuple[str, str]:
    path = f"{_ROOT / '.agents/node_modules/.bin'}:{os.environ['PATH']}"
    program = shutil.which(_PROGRAMS[request.param], path=path)
    if program is None:
        pytest.skip(f"{request.param} is not installed: npm install --prefix .agents, or put it on the PATH")
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    return request.param, program


@pytest.fixture
def workplace(agent: tuple[str, str], tmp_path: Path) -> Iterator[Workplace]:
    made = Workplace(tmp_path / "confined", *agent)
    yield made
    for name, text in _ENTRY.items():  # a test may have broken them
        (made.programs / name).write_text(f"#!{sys.executable}\n{text}\nmain()\n")
        (made.programs / name).chmod(0o755)
    made.end()


@pytest.fixture
def outside() -> Iterator[int]:
    """A server of the host's, on loopback."""
    server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _task(port: int, outside: int) -> list[str]:
    fetch = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:{}/').status)"
    # Codex itself ends the process group of a call with it.
    serve = f"setsid python3 -u -m http.server {port} --bind 127.0.0.1 >log 2>&1 & echo $! >pid"
    return [
        "printf 'def twice(x):\\n    return 2 * x\\n' > m.py && ls m.py",
        "cat <<'END' > t.py\nimport m\nassert m.twice(2) == 4, \"$HOME\"\nprint('passed')\nEND\npython3 t.py",
        f"{serve}; until grep -qs Serving log; do :; done; echo serving",
        f'python3 -c "{fetch.format(port)}"',
        "mkdir -p sub && cd sub && basename $PWD",
        "basename $PWD",
        "trap 'echo last' EXIT; echo out; echo err >&2; exit 3",
        "cat ~/.ssh/id_rsa",
        f'python3 -c "{fetch.format(outside)}" 2>&1 | tail -1',
        "cd ~/project; kill $(cat pid); yes long | head -n 20000 | tail -n 2",
    ]


def test_a_task_of_ten_calls_ends_as_without_corral_but_for_two_refusals(
    agent: tuple[str, str], workplace: Workplace, outside: int, tmp_path: Path
) -> None:
    plain = Workplace(tmp_path / "plain", *agent)
    workplace.corral("install", workplace.agent, "--yes")

    expected = plain.work(_task(_free_port(), outside))
    results = workplace.work(_task(_free_port(), outside))

    assert len(results) == len(expected) == 10
    read, reached = 7, 8
    assert expected[read] == _SECRET and expected[reached] == "200"  # controls: the harm is possible without
    assert _SECRET not in "".join(results)
    assert ".ssh/id_rsa is not visible in the sandbox" in results[read]
    assert "200" not in results[reached] and "refused" in results[reached]
    others = [number for number in range(10) if number not in {read, reached}]
    for number in others:  # Codex has two pipes, and tells in which order it came to read them
        assert sorted(results[number].splitlines()) == sorted(expected[number].splitlines())
    assert (workplace.project / "m.py").exists()


def test_a_task_is_completed_with_the_tools_of_the_mcp_server(workplace: Workplace) -> None:
    workplace.corral("mcp", "install", workplace.agent, "--yes")
    if workplace.agent == "codex":  # else it asks, and nobody can answer
        with (workplace.home / ".codex/config.toml").open("a") as file:
            file.write('default_tools_approval_mode = "approve"\n')
    results = workplace.work(
        [
            "mkdir sub && cd sub && echo 'def twice(x): return 2 * x' > m.py && export NUMBER=2",
            "python3 -c \"import m; assert m.twice($NUMBER) == 4; print('passed')\"",
            "cat ~/.ssh/id_rsa",
        ],
        tool="mcp__corral__bash",
    )

    assert results[:2] == ["[no output]", "passed"]
    assert "id_rsa is not visible in the sandbox" in results[2]
    assert _SECRET not in "".join(results)
    assert (workplace.project / "sub/m.py").exists()


@pytest.mark.parametrize("fate", ["removed", "killed", "hanging"])
def test_without_corral_no_command_runs(workplace: Workplace, fate: str) -> None:
    workplace.corral("install", workplace.agent, "--yes")
    made = workplace.project / "made"
    assert workplace.work(["touch made; echo here"]) == ["here"]  # a control
    made.unlink()
    workplace.end()

    for name in _ENTRY:
        program = workplace.programs / name
        program.unlink()
        if fate != "removed":
            program.write_text(f"#!/bin/sh\n{'kill -KILL $$' if fate == 'killed' else 'exec sleep 100'}\n")
            program.chmod(0o755)
    result = workplace.work(["touch made; echo here"])

    assert not made.exists()
    assert result != ["here"]


def test_a_wrapped_agent_works_and_keeps_its_settings(workplace: Workplace) -> None:
    """Also where corral is installed in it: its commands are in the agent's own sandbox then."""
    settings = workplace.home / (
        ".claude/settings.json" if workplace.agent == "claude-code" else ".codex/hooks.json"
    )
    workplace.corral("install", workplace.agent, "--yes")
    written = settings.read_bytes()
    change = f"try: open('{settings}', 'a').write('x')\nexcept OSError as e: print(e.strerror)"
    installed = Path(workplace.program).resolve()
    installed = next(
        (parent for parent in installed.parents if parent.name == "node_modules"), installed.parent
    )
    wrapped = [str(workplace.programs / "corral"), "wrap"]
    for place in (workplace.programs, installed):
        wrapped += ["--read", str(place)]
    beside = installed / ".bin" / Path(workplace.program).name
    workplace.program = str(beside) if beside.exists() else workplace.program

    results = workplace.work(
        ["echo out > made; echo here", "cat ~/.ssh/id_rsa", f'python3 -c "{change}"', "head -1 /proc/1/comm"],
        *wrapped,
        "--",
    )

    assert results[0] == "here" and (workplace.project / "made").exists()
    assert _SECRET not in results[1] and "No such file" in results[1]
    assert results[2] and settings.read_bytes() == written
    assert results[3] == "corral-launch"


def test_a_project_that_gives_claude_code_another_shell_does_not_lead_outside(workplace: Workplace) -> None:
    if workplace.agent != "claude-code":
        pytest.skip("Codex has no such setting")
    shell = workplace.programs / "shell"
    shell.write_text('#!/bin/sh\nexec bash -c "$1"\n')
    shell.chmod(0o755)
    file = workplace.project / ".claude/settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"env": {"CLAUDE_CODE_SHELL_PREFIX": str(shell)}}))

    assert workplace.work(["head -1 /proc/1/comm"]) != ["corral-launch"]  # a control
    workplace.corral("install", workplace.agent, "--yes")
    assert workplace.work(["head -1 /proc/1/comm"]) == ["corral-launch"]


@pytest.mark.parametrize("says", ["allow", "deny"])
def test_claude_code_asks_its_user_before_a_command_leaves_the_sandbox(
    workplace: Workplace, tmp_path: Path, says: str
) -> None:
    if workplace.agent != "claude-code":
        pytest.skip("Codex has no such argument")
    settings = workplace.home / ".config/corral/corral.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[sandbox]\nask_unconfined = true\n")
    workplace.corral("install", workplace.agent, "--yes")
    planted = tmp_path / "planted"
    calls = [
        {"command": f"echo {number} >> {planted}", "dangerouslyDisableSandbox": leaves}
        for number, leaves in enumerate((False, True))
    ]

    with ScriptedModel(calls) as model:
        questions = _converse(workplace, model.url, says)

    assert len([text for text in questions if "without a sandbox?" in text]) == 1
    assert planted.exists() == (says == "allow")
    if says == "allow":
        assert planted.read_text() == "1\n"  # and the other call stayed inside


def _converse(workplace: Workplace, url: str, says: str) -> list[str]:
    """Let the agent work, and answer what it asks its user; returns the questions."""
    argv = [workplace.program, "-p", "--verbose", "--permission-prompt-tool", "stdio"]
    argv += ["--input-format", "stream-json", "--output-format", "stream-json"]
    variables = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1"}
    with subprocess.Popen(
        argv,
        env={**workplace.environment, **variables},
        cwd=workplace.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def send(message: dict[str, object]) -> None:
            assert process.stdin is not None
            process.stdin.write(f"{json.dumps(message)}\n")
            process.stdin.flush()

        send({"type": "user", "message": {"role": "user", "content": "go on"}})
        questions = []
        for line in process.stdout:
            message = json.loads(line)
            if message["type"] == "result":
                process.stdin.close()
                break
            if message["type"] == "control_request":
                asked = message["request"]
                questions.append(str(asked.get("decision_reason")))
                yes = {"behavior": "allow", "updatedInput": asked["input"]}
                answer = yes if says == "allow" else {"behavior": "deny", "message": "no"}
                response = {"subtype": "success", "request_id": message["request_id"], "response": answer}
                send({"type": "control_response", "response": response})
    return questions
