"""`corral install AGENT`: what is written, what stays as it was to the letter, and what is refused."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.cli.install import agent_files
from corral.cli.install.agent_files import plan_agent
from corral.cli.install.agents import AGENTS, read_version
from corral.cli.install.json_text import append_item, parse, remove, set_member
from corral.model.errors import SetupError

_FILES = {
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/plugins/corral.js",
    "pi": ".pi/agent/extensions/corral.ts",
}
#: With tabs, an odd order, a hook of the user's, and no line feed at the end.
_SETTINGS = (
    '{\n\t"model" : "x",\n\t"hooks": {"PreToolUse": [\n\t\t{"matcher": "Write", "hooks": []} ],'
    ' "BeforeTool":[]},\n\n\t"env": { "A":"1" }, "é": [1,2 , 3]}'
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
_INDENTS = st.sampled_from([None, 0, 1, 2, 4, "\t"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, an installation of corral, and agents that say a version which is new enough."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("corral", "corral-agent-shell"):
        (programs / name).write_text("#!/bin/sh\nexit 7\n")
    for name, agent in AGENTS.items():
        version = ".".join(map(str, agent.oldest))
        (programs / agent.program).write_text(f"#!/bin/sh\necho '{name} v{version}'\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(programs / "corral")])
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def _install(name: str, home: Path, **options: bool) -> str:
    return plan_agent(name, home=str(home), **options).carry_out()


def _tree(home: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    return {path: data for path, data in found.items() if not path.startswith(".local/state")}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("there", [None, "{}", "{ }\n", _SETTINGS], ids=["none", "empty", "spaced", "full"])
def test_removing_leaves_what_was_there_to_the_letter(name: str, there: str | None, home: Path) -> None:
    path = home / _FILES[name]
    if there is not None and path.suffix == ".json":
        path.parent.mkdir(parents=True)
        path.write_bytes(there.encode())
        path.chmod(0o640)
    if name == "codex":
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex/config.toml").write_bytes(b'model = "x" # no line feed follows')
    before = _tree(home)

    _install(name, home)
    assert path.exists()
    _install(name, home)  # twice does no harm
    after = _tree(home)
    _install(name, home, remove=True)

    assert after != before
    assert _tree(home) == before
    if path.exists():
        assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_what_the_user_has_written_since_stays_when_corral_goes(name: str, home: Path) -> None:
    path = home / _FILES[name]
    path.parent.mkdir(parents=True)
    path.write_text(_SETTINGS)
    _install(name, home)
    path.write_text(set_member(path.read_text(), ("mine",), [1]))
    _install(name, home, remove=True)

    # An array of the user's that was empty may be gone.
    assert parse(path.read_text()).get("mine") == [1]
    assert "corral" not in path.read_text()
    assert '"model" : "x"' in path.read_text() and '"é": [1,2 , 3]' in path.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"a": 1, "a": 2}',
        '{"hooks": []}',
        '{"hooks": {"PreToolUse": {}}}',
        "// no\n{}",
        "\ufeff{}",
    ],
)
def test_settings_that_are_not_valid_are_not_touched(text: str, home: Path) -> None:
    path = home / _FILES["claude-code"]
    path.parent.mkdir()
    path.write_text(text)

    with pytest.raises(SetupError, match="nothing was changed"):
        _install("claude-code", home)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["model =", "[hooks]\nstate = 1\n"])
def test_a_configuration_of_codex_that_cannot_be_added_to_means_no_hook_either(text: str, home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(text)

    with pytest.raises(SetupError):
        _install("codex", home)
    assert _tree(home) == {".codex/config.toml": text.encode()}


def test_a_prefix_of_the_users_own_is_not_replaced(home: Path) -> None:
    path = home / _FILES["claude-code"]
    path.parent.mkdir()
    path.write_text('{"env": {"CLAUDE_CODE_SHELL_PREFIX": "/usr/bin/nice"}}')

    with pytest.raises(SetupError, match="set already"):
        _install("claude-code", home)


def test_claude_code_gets_a_shell_and_a_hook_that_fails_closed(home: Path) -> None:
    _install("claude-code", home)
    settings = json.loads((home / _FILES["claude-code"]).read_text())
    hook = settings["hooks"]["PreToolUse"][0]["hooks"][0]
    shell = settings["env"]["CLAUDE_CODE_SHELL_PREFIX"]

    assert Path(shell).name == "corral-agent-shell"
    assert _status_of([hook["command"], *hook["args"]]) == 2  # this corral ends with 7
    Path(shell).with_name("corral").unlink()
    assert _status_of([hook["command"], *hook["args"]]) == 2
    assert hook["timeout"] > 30


def _status_of(argv: list[str]) -> int:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert done.stderr  # Codex takes a refusal only with a reason
    return done.returncode


@pytest.mark.parametrize("name", ["codex", "gemini"])
def test_a_hook_that_is_killed_or_hangs_refuses_the_command(name: str, home: Path) -> None:
    _install(name, home)
    found = json.loads((home / _FILES[name]).read_text())["hooks"]
    line = next(iter(found.values()))[0]["hooks"][0]["command"]
    corral = Path(sys.argv[0])

    corral.write_text("#!/bin/sh\nkill -KILL $$\n")
    assert _status_of(["/bin/sh", "-c", line]) == 2
    corral.write_text("#!/bin/sh\nexec sleep 60\n")
    assert _status_of(["/bin/sh", "-c", line.replace(" 30 ", " 0.2 ")]) == 2


def test_codex_is_told_to_trust_the_hook(home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".codex/hooks.json").write_text('{"hooks": {"PreToolUse": [{"hooks": []}]}}')
    _install("codex", home)

    state = tomllib.loads((home / ".codex/config.toml").read_text())["hooks"]["state"]
    assert list(state) == [f"{home}/.codex/hooks.json:pre_tool_use:1:0"]  # behind the user's own


def test_nothing_is_written_unless_it_is_carried_out(home: Path) -> None:
    shown = plan_agent("claude-code", home=str(home))

    assert _tree(home) == {}
    assert any("corral-agent-shell" in line for line in shown.words)
    assert any("corral wrap -- claude" in line for line in shown.words)


def test_a_project_has_settings_of_its_own(home: Path, tmp_path: Path) -> None:
    plan_agent("claude-code", home=str(home), project=str(tmp_path / "ws")).carry_out()

    assert [*_tree(tmp_path / "ws")] == [".claude/settings.local.json"]
    assert _tree(home) == {}


def test_a_file_that_changes_meanwhile_is_not_overwritten(home: Path) -> None:
    shown = plan_agent("claude-code", home=str(home))
    path = home / _FILES["claude-code"]
    path.parent.mkdir()
    path.write_text("{}")

    with pytest.raises(SetupError, match="in the meantime"):
        shown.carry_out()
    assert path.read_text() == "{}"


@pytest.mark.parametrize("said", ["2.0.99 (Claude Code)", "what", ""])
def test_a_version_that_offers_too_little_is_refused(said: str, home: Path) -> None:
    (Path(sys.argv[0]).parent / "claude").write_text(f"#!/bin/sh\necho '{said}'\n")

    with pytest.raises(SetupError, match="nothing was changed"):
        _install("claude-code", home)
    assert _tree(home) == {}


def test_versions_are_read_as_agents_say_them() -> None:
    assert read_version("2.1.197 (Claude Code)") == (2, 1, 197)
    assert read_version("codex-cli 0.169.0") == (0, 169, 0)
    assert read_version("v1.18.33-beta.1") == (1, 18, 33)


def test_the_plugin_of_opencode_rewrites_the_command(home: Path, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node to run the plugin with")
    _install("opencode", home)
    plugin = tmp_path / "plugin.mjs"
    plugin.write_text((home / _FILES["opencode"]).read_text())
    script = (
        f'import {{ Corral }} from "{plugin}"; const hooks = await Corral({{ directory: "/ws" }});'
        "const output = { args: { command: \"echo 'a b' $X\" } };"
        'await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s" }, output);'
        "console.log(output.args.command)"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert shlex.split(done.stdout) == [sys.argv[0], "hook", "exec", "opencode", "s", "/ws", "echo 'a b' $X"]


@given(st.dictionaries(st.text(max_size=4), _VALUES, max_size=4), _INDENTS, st.booleans())
def test_what_is_put_into_a_text_can_be_taken_out_again(
    value: dict[str, object], indent: str | int | None, is_item: bool
) -> None:
    text = json.dumps(value, indent=indent)
    put = append_item if is_item else set_member
    path = ("corral", "deep", "here")
    if path[0] in value:
        return
    made = put(text, path, {"x": [1]})

    assert json.loads(made) == {
        **value,
        "corral": {"deep": {"here": [{"x": [1]}] if is_item else {"x": [1]}}},
    }
    assert remove(made, (*path, 0) if is_item else path) == text


def test_agent_files_are_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_files, "_MOST_BYTES", 10)
    path = home / _FILES["gemini"]
    path.parent.mkdir()
    path.write_text(json.dumps({"a": "x" * 100}))

    with pytest.raises(SetupError, match="cannot be read"):
        _install("gemini", home)
