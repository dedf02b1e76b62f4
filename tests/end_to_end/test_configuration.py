"""Configurations as people bring them from other tools, with real commands: what they say is what happens.

The files are in `configurations/`. Every test that something is out of reach has a control beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from corral.limits.hierarchy import find_hierarchy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral

CONFIGURATIONS = Path(__file__).parent / "configurations"
LACKING_IN_LANDLOCK = "fs.metadata,fs.protect,fs.deny,proc.hidden,proc.contained"
HOLDS_MEMORY = find_hierarchy() is not None
needs_memory_limit = pytest.mark.skipif(
    not HOLDS_MEMORY, reason="no control group for memory can be made here"
)


@pytest.fixture
def agents(user_file: Path) -> Path:
    """The user's own file describes the agents code, explore and trusted."""
    return Path(shutil.copy(CONFIGURATIONS / "agents.json", user_file))


def can_write(corral: Corral, project: Path, *options: str) -> bool:
    """Whether a command can make a file in the project; the host is asked."""
    (project / "made").unlink(missing_ok=True)
    done = corral("run", *options, "--", "sh", "-c", "echo alive; touch made")
    assert done.stdout == b"alive\n", done.stderr
    return (project / "made").exists()


def can_read_secret(corral: Corral, home: Path, *options: str) -> bool:
    done = corral("run", *options, "--", "sh", "-c", f"echo alive; cat {home}/.ssh/id_ed25519")
    assert done.stdout.startswith(b"alive\n"), done.stderr
    return b"SECRET KEY" in done.stdout


def effective(corral: Corral, *options: str) -> dict[str, object]:
    done = corral("policy", "show", "--effective", "--json", *options)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def capabilities(corral: Corral, *options: str) -> set[str]:
    clauses = effective(corral, *options)["policy"]
    assert isinstance(clauses, list)
    return {clause["capability"] for clause in clauses}


def test_enabled_is_all_it_takes(corral: Corral, home: Path, user_file: Path, project: Path) -> None:
    shutil.copy(CONFIGURATIONS / "minimal.json", user_file)

    assert not can_read_secret(corral, home)
    assert can_write(corral, project)
    assert can_read_secret(corral, home, "--no-sandbox")


# ---- agents


def test_the_explore_agent_cannot_write_the_workspace(corral: Corral, agents: Path, project: Path) -> None:
    assert not can_write(corral, project, "--agent", "explore")
    assert can_write(corral, project)


@pytest.mark.skipif(HOLDS_MEMORY, reason="this host can limit memory")
def test_the_code_agent_is_refused_where_its_memory_cannot_be_limited(
    corral: Corral, agents: Path, project: Path
) -> None:
    done = corral("run", "--agent", "code", "--", "touch", "made")

    assert (done.returncode, (project / "made").exists()) == (3, False)
    assert b"limit.memory" in done.stderr


@needs_memory_limit
def test_the_code_agent_can_write_and_has_its_own_memory_and_network(
    corral: Corral, agents: Path, project: Path, home: Path
) -> None:
    assert can_write(corral, project, "--agent", "code")
    assert not can_read_secret(corral, home, "--agent", "code")
    assert {"network:full", "memory:limit:4GiB"} <= capabilities(corral, "--agent", "code")
    assert "network:none" in capabilities(corral)


def test_the_trusted_agent_is_unconfined_because_the_users_file_says_so(
    corral: Corral, agents: Path, home: Path
) -> None:
    assert can_read_secret(corral, home, "--agent", "trusted")
    done = corral("run", "--agent", "trusted", "--", "true")
    assert b"runs without a sandbox: enabled = false" in done.stderr
    assert b"corral.json:23:9 (agent trusted)" in done.stderr


def test_a_preset_without_a_sandbox_says_who_said_so(corral: Corral, user_file: Path, project: Path) -> None:
    (project / "corral.toml").write_text('[sandbox.resources]\ntime = "1m"\n')

    done = corral("run", "-p", "unrestricted", "--", "true")

    assert done.stderr == b"corral: the command runs without a sandbox: backend = none, unrestricted.caps\n"


def test_the_same_words_in_the_project_let_nobody_out(
    corral: Corral, user_file: Path, project: Path, home: Path
) -> None:
    shutil.copy(CONFIGURATIONS / "agents.json", project / "corral.json")

    assert not can_read_secret(corral, home, "--agent", "trusted")
    assert "network:none" in capabilities(corral, "--agent", "code")
    if HOLDS_MEMORY:  # else it is refused, for the limit that it adds
        assert not can_read_secret(corral, home, "--agent", "code")
    done = corral("run", "--agent", "trusted", "--", "true")
    assert b"ignored" in done.stderr
    # Narrowing needs nobody's leave.
    assert not can_write(corral, project, "--agent", "explore")


def test_an_agent_that_nobody_described_does_not_run(corral: Corral, agents: Path, project: Path) -> None:
    done = corral("run", "--agent", "exlore", "--", "touch", "made")

    assert (done.returncode, (project / "made").exists()) == (2, False)
    assert b"did you mean 'explore'?" in done.stderr


# ---- the full configuration


def test_what_cannot_be_enforced_here_is_refused_and_not_passed_over(
    corral: Corral, user_file: Path, project: Path
) -> None:
    """Nothing keeps hosts away while the whole network is open."""
    shutil.copy(CONFIGURATIONS / "full.json", user_file)

    done = corral("run", "--net", "full", "--cap", "network:deny:example.com", "--", "touch", "made")

    assert (done.returncode, (project / "made").exists()) == (3, False)
    assert b"net.except" in done.stderr


@needs_memory_limit
def test_the_rest_of_the_full_configuration_holds(corral: Corral, user_file: Path, project: Path) -> None:
    shutil.copy(CONFIGURATIONS / "full.json", user_file)

    done = corral("run", "--net", "none", "--json", "--", "sh", "-c", "touch made; ulimit -a")

    record = json.loads(done.stdout)
    assert {"limit.memory", "limit.cpu", "limit.pids", "net.none"} <= set(record["enforcement"]["enforced"])
    assert (project / "made").exists()
    shown = effective(corral, "--net", "none")
    settings = shown["settings"]
    assert isinstance(settings, dict)
    assert settings["image"]["value"] == "example/sandbox:latest"
    assert settings["keep_alive"]["value"] is True
    assert {"memory:limit:2GiB", "cpu:limit:200%", "pids:limit:256"} <= capabilities(corral, "--net", "none")


@pytest.mark.parametrize("runtime", ["docker", "podman", "lima", "bubblewrap", "firejail"])
def test_every_runtime_is_a_word_of_the_language(corral: Corral, user_file: Path, runtime: str) -> None:
    """Whether this version, or this host, has it is another matter, and is said before anything runs."""
    user_file.write_text(json.dumps({"sandbox": {"enabled": True, "runtime": runtime}}))

    assert corral("policy", "validate").returncode == 0
    done = corral("run", "--", "true")
    assert done.returncode in {0, 3, 125}  # 125: an engine without its image
    said = done.stderr.decode()
    assert done.returncode == 0 or runtime in said or "there is no image" in said


# ---- caches


def test_kept_caches_outlive_a_run_and_are_not_the_users_own(
    corral: Corral, user_file: Path, project: Path, home: Path, tmp_path: Path
) -> None:
    user_file.write_text(json.dumps({"sandbox": {"mounts": {"persist_caches": True}}}))
    (home / ".cache" / "pip").mkdir(parents=True)
    (home / ".cache" / "pip" / "mine").write_text("MINE")
    other = tmp_path / "other"
    other.mkdir()

    look = 'ls "$PIP_CACHE_DIR" "$XDG_CACHE_HOME"; cat ~/.cache/pip/mine'
    first = corral("run", "-c", f'mkdir -p "$PIP_CACHE_DIR"; echo wheel > "$PIP_CACHE_DIR/numpy.whl"; {look}')
    again = corral("run", "-c", look)
    elsewhere = corral("run", "-c", look, cwd=other)

    assert b"numpy.whl" in first.stdout and b"numpy.whl" in again.stdout
    assert b"numpy.whl" not in elsewhere.stdout
    assert all(b"MINE" not in done.stdout for done in (first, again, elsewhere))
    assert sorted(os.listdir(home / ".cache" / "pip")) == ["mine"]


# ---- landlock by name, with paths


def test_a_backend_by_name_that_lacks_something_is_refused_until_that_is_given_up(
    corral: Corral, user_file: Path, project: Path, home: Path, tmp_path: Path
) -> None:
    text = (CONFIGURATIONS / "security.json").read_text().replace("/tmp/agent", str(tmp_path / "agent"))
    user_file.write_text(text)
    for directory in (home / ".agent" / "workspace", tmp_path / "agent"):
        directory.mkdir(parents=True)
    write = f"echo x > {tmp_path}/agent/a && echo x > ~/b; echo x > {tmp_path}/outside"
    write = write.replace("~/b", f"{home}/.agent/workspace/b")

    refused = corral("run", "-c", write)
    assert refused.returncode == 3 and b"fs.metadata" in refused.stderr
    assert not (tmp_path / "agent" / "a").exists()

    done = corral("run", "--waive", LACKING_IN_LANDLOCK, "-c", write)
    assert (tmp_path / "agent" / "a").exists(), done.stderr
    assert (home / ".agent" / "workspace" / "b").exists()
    assert not (tmp_path / "outside").exists()
    subprocess.run(write, shell=True, check=True)
    assert (tmp_path / "outside").exists()


@pytest.mark.parametrize("backend", ["auto", "landlock", "firejail", "bubblewrap", "docker", "none"])
def test_the_backends_of_a_security_table_are_words_of_the_language(
    corral: Corral, user_file: Path, backend: str
) -> None:
    user_file.write_text(json.dumps({"security": {"sandbox": {"backend": backend}}}))

    assert effective(corral)["settings"]["backend"]["value"] == backend


# ---- capabilities


@pytest.mark.parametrize(
    "capability",
    ["network:http:localhost", "memory:limit:100MB", "cpu:limit:50%", "module:call:parser"],
)
def test_a_capability_of_a_configuration_is_in_the_policy(
    corral: Corral, user_file: Path, capability: str
) -> None:
    user_file.write_text(json.dumps({"sandbox": {"capabilities": [capability]}}))

    assert capability in capabilities(corral)


def test_paths_of_capabilities_can_be_read_and_written_as_they_say(
    corral: Corral, user_file: Path, tmp_path: Path
) -> None:
    docs, out = tmp_path / "docs", tmp_path / "out"
    for directory in (docs, out):
        directory.mkdir()
        (directory / "text").write_text("TEXT")
    wanted = [f"filesystem:read:{docs}", f"filesystem:write:{out}"]
    look = f"cat {docs}/text; touch {docs}/new; touch {out}/new"

    assert b"TEXT" not in corral("run", "-c", look).stdout
    user_file.write_text(json.dumps({"sandbox": {"capabilities": wanted}}))
    assert b"TEXT" in corral("run", "-c", look).stdout
    assert not (docs / "new").exists()
    assert (out / "new").exists()


# ---- order, trust, pyproject


def test_user_then_project_then_environment_then_flags(
    corral: Corral, user_file: Path, project: Path
) -> None:
    user_file.write_text(json.dumps({"sandbox": {"resources": {"time": "50s"}}}))
    assert "time:limit:50s" in capabilities(corral)
    (project / "corral.toml").write_text('[sandbox.resources]\ntime = "40s"\n')
    assert "time:limit:40s" in capabilities(corral)
    os.environ["CORRAL_RESOURCES_TIME"] = "45s"
    try:
        assert "time:limit:45s" in capabilities(corral)
        assert "time:limit:55s" in capabilities(corral, "--timeout", "55s")
    finally:
        del os.environ["CORRAL_RESOURCES_TIME"]
    assert "time:limit:50s" in capabilities(
        corral, "--config", str(user_file), "--cwd", str(user_file.parent)
    )


def test_a_projects_file_narrows_from_any_directory_below(
    corral: Corral, user_file: Path, project: Path
) -> None:
    (project / "corral.toml").write_text("[sandbox.mounts]\nworkspace_writable = false\n")
    below = project / "src" / "deep"
    below.mkdir(parents=True)

    done = corral("run", "--", "sh", "-c", "echo alive; touch made", cwd=below)

    assert done.stdout == b"alive\n" and not (below / "made").exists()


def test_a_nearer_file_cannot_undo_what_one_above_it_forbids(
    corral: Corral, user_file: Path, project: Path
) -> None:
    """An earlier command could have put it there."""
    (project / "corral.toml").write_text("[sandbox.mounts]\nworkspace_writable = false\n")
    below = project / "src"
    below.mkdir()
    (below / "corral.toml").write_text("[sandbox.mounts]\nworkspace_writable = true\n")

    done = corral("run", "--", "sh", "-c", "echo alive; touch made", cwd=below)

    assert done.stdout == b"alive\n" and not (below / "made").exists()


def test_pyproject_has_the_same_keys_below_tool_corral(
    corral: Corral, user_file: Path, project: Path
) -> None:
    (project / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.corral.sandbox.mounts]\nworkspace_writable = false\n'
    )

    assert not can_write(corral, project)


def test_trust_is_for_a_content_and_a_change_takes_it_back(
    corral: Corral, user_file: Path, project: Path, tmp_path: Path
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "text").write_text("TEXT")
    file = project / "corral.toml"
    file.write_text(f'[sandbox]\nreadonly_paths = ["{docs}"]\n')

    def reads() -> bool:
        return b"TEXT" in corral("run", "--", "cat", str(docs / "text")).stdout

    assert not reads()
    for unasked in (("policy", "trust"), ("policy", "trust", "--json")):
        done = corral(*unasked)
        assert done.returncode == 2 and not reads()
        assert b"--yes" in done.stdout + done.stderr
    assert corral("policy", "trust", "--yes").returncode == 0
    assert reads()
    file.write_text(file.read_text() + "# a comment\n")
    assert not reads()
    assert b"not trusted" in corral("policy", "trust", "--show").stdout
    assert corral("policy", "trust", "--yes").returncode == 0 and reads()
    assert corral("policy", "distrust").returncode == 0 and not reads()


def test_a_command_inside_cannot_trust_anything(corral: Corral, user_file: Path, project: Path) -> None:
    (project / "corral.toml").write_text('[sandbox]\nnetwork = "full"\n')
    import sys

    inside = f"{sys.executable} -m corral policy trust --yes; echo alive"
    done = corral("run", "--read", sys.prefix, "--read", sys.base_prefix, "-c", inside)
    assert b"trusted: " in done.stdout and b"alive" in done.stdout  # in its own home, which goes away

    assert "network:none" in capabilities(corral)


def test_a_planted_file_that_is_no_file_does_not_hang_or_leak(
    corral: Corral, user_file: Path, project: Path, home: Path
) -> None:
    (home / "secret.json").write_text('{"hunter2": 1}')
    file = project / "corral.json"
    file.symlink_to(home / "secret.json")
    done = corral("run", "--", "true")
    assert done.returncode == 2 and b"hunter2" not in done.stderr
    file.unlink()
    os.mkfifo(file)
    assert corral("run", "--", "true").returncode == 2
    assert corral("run", "--no-config", "--", "true").returncode == 0


def test_mistakes_stop_the_run_and_are_all_shown(corral: Corral, user_file: Path, project: Path) -> None:
    (project / "corral.toml").write_text('[sandbox]\nnetwrok = "none"\nenabled = 1\n')

    done = corral("run", "--", "touch", "made", CORRAL_PIDZ="3")

    assert (done.returncode, (project / "made").exists()) == (2, False)
    for text in (b"corral.toml:2:1", b"corral.toml:3:11", b"CORRAL_PIDZ", b"did you mean 'network'?"):
        assert text in done.stderr
