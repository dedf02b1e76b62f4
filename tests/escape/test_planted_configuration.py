"""What an earlier command left behind, in files or links, opens nothing to a later one.

Each story has two runs: the first plants, with the rights of the profile `moderate`; the second is an
ordinary command of the user. It must not reach what it would reach unconfined.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from support.stories import corral, home, plant, user_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.stories import Run

__all__ = ["corral", "home"]  # fixtures


READ_ONLY = "[tool.corral.sandbox.mounts]\nworkspace_writable = false\n"


@pytest.mark.parametrize("where", ["ws", "ws/sub", "other"])
@pytest.mark.parametrize("narrowed", [True, False])
@pytest.mark.parametrize("trick", ["a link to the key", "a directory that is a link"])
def test_a_link_on_the_path_shows_no_file_of_the_home(
    corral: Run, home: Path, where: str, narrowed: bool, trick: str
) -> None:
    """An activated virtual environment: a directory of the workspace is on the caller's PATH."""
    for name in ("ws/sub", "ws/.venv/bin", "other"):
        (home / name).mkdir(parents=True)
    path = {"PATH": f"{home}/ws/.venv/bin:{os.environ['PATH']}"}
    links = {
        "a link to the key": f"ln -s {home}/.ssh/key .venv/bin/zz",
        "a directory that is a link": f"rmdir .venv/bin; ln -s {home}/.ssh .venv/bin",
    }
    plant(corral, f"{links[trick]}; printf '{READ_ONLY if narrowed else ''}' > pyproject.toml", **path)
    assert (home / "ws/.venv/bin").exists()

    done = corral("run", "-c", f"echo alive; cat {home}/.ssh/key", cwd=where, **path)

    assert done.stdout == b"alive\n", done.stderr
    assert b"SECRET KEY" in corral("run", "--no-sandbox", "--", "cat", f"{home}/.ssh/key", cwd=where).stdout


PROTECTED = (".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json", ".envrc", "corral.toml")


@pytest.mark.parametrize(
    "request_",
    [
        'readwrite_paths = ["${{workspace}}/{top}"]\n' + READ_ONLY,
        'readwrite_paths = ["${{workspace}}/{top}"]\nreadonly_paths = ["${{workspace}}/.git"]',
        'readwrite_paths = ["${{workspace}}/alias"]\n' + READ_ONLY,
        'readwrite_paths = ["${{workspace}}/{name}"]\n' + READ_ONLY,
    ],
)
@pytest.mark.parametrize("name", PROTECTED)
def test_a_narrower_policy_protects_what_the_wider_one_does(
    corral: Run, home: Path, name: str, request_: str
) -> None:
    ws = home / "ws"
    (ws / name).parent.mkdir(parents=True, exist_ok=True)
    (ws / name).touch()
    before = (ws / name).read_bytes()
    top = name.rpartition("/")[0] or name
    text = request_.format(top=top, name=name)
    plant(corral, f"ln -s {top} alias; cat > pyproject.toml <<'END'\n[tool.corral.sandbox]\n{text}\nEND")

    corral("run", "-c", f"echo alive; echo evil >> {name}; echo evil >> {name}")

    assert (ws / name).read_bytes() == before
    with (ws / name).open("ab") as file:  # the test itself can
        file.write(b"x")


def test_a_child_in_python_protects_what_its_parent_does(home: Path) -> None:
    import corral as library

    parent = library.load_preset("moderate")
    wanted = [str(each) for each in _capabilities(parent)]
    wanted += ["filesystem:read:${workspace}", "filesystem:write:${workspace}/.git/hooks"]
    child = parent.grant(wanted)

    result = library.Sandbox(child.policy, workspace=home / "ws").run("echo alive; echo x > .git/hooks/x")

    assert result.stdout.startswith("alive")
    assert not (home / "ws/.git/hooks/x").exists()


def _capabilities(policy: object) -> list[object]:
    from corral.model.policy import Policy
    from corral.model.rules.capability import capabilities_of

    assert isinstance(policy, Policy)
    return [
        each
        for each in capabilities_of(policy)
        if "${workspace}" not in each.target and (each.target[:1] != "/" or os.path.exists(each.target))
    ]


@pytest.mark.parametrize(
    ("link", "denied", "turn"), [(".env", ".env", ".env"), ("conf", "conf/secret", "conf")]
)
def test_a_denial_by_the_name_of_a_link_outlives_the_link(
    corral: Run, home: Path, link: str, denied: str, turn: str
) -> None:
    ws = home / "ws"
    (ws / "real").mkdir()
    (ws / "real" / "secret").write_text("SECRET KEY")
    (ws / link).symlink_to("real/secret" if denied == link else "real")
    user_file(home, denied_paths=[f"${{workspace}}/{denied}"])

    corral("run", "-c", f"mkdir other; echo x > other/secret; rm {turn}; ln -s other {turn}; echo planted")
    done = corral("run", "-c", "echo alive; cat real/secret")

    assert done.stdout == b"alive\n", done.stderr
    assert (ws / "real" / "secret").read_text() == "SECRET KEY"


def test_a_version_that_was_trusted_once_is_not_trusted_again(corral: Run, home: Path) -> None:
    file = home / "ws" / "pyproject.toml"
    trusted = f'[tool.corral.sandbox]\nreadonly_paths = ["{home}/.ssh"]\n'
    file.write_text(trusted)
    assert corral("policy", "trust", "--yes").returncode == 0
    assert b"SECRET KEY" in corral("run", "--", "cat", f"{home}/.ssh/key").stdout
    file.write_text('[tool.corral.sandbox]\nnetwork = "none"\n')
    assert b"SECRET KEY" not in corral("run", "--", "cat", f"{home}/.ssh/key").stdout

    plant(corral, f"cat > pyproject.toml <<'END'\n{trusted}END")

    assert b"SECRET KEY" not in corral("run", "--", "cat", f"{home}/.ssh/key").stdout


def test_a_line_feed_in_a_name_trusts_nothing_else(corral: Run, home: Path) -> None:
    import hashlib

    victim = home / "ws" / "victim"
    victim.mkdir()
    (victim / "corral.toml").write_text("[sandbox]\nenabled = false\n")
    digest = hashlib.sha256((victim / "corral.toml").read_bytes()).hexdigest()
    for separator in ("\n", "\r"):
        forged = home / "ws" / f"x{separator}{digest} {str(victim)[1:]}"
        forged.mkdir(parents=True)
        (forged / "corral.toml").write_text("[sandbox]\nenabled = true\n")
        corral("policy", "trust", "--yes", cwd=str(forged.relative_to(home)))

    assert b"SECRET KEY" not in corral("run", "--", "cat", f"{home}/.ssh/key", cwd="ws/victim").stdout


def test_the_users_file_is_out_of_reach_wherever_it_really_is(corral: Run, home: Path) -> None:
    """A dotfiles repository that is also a workspace; the file is protected without being read."""
    config = home / ".config" / "corral"
    config.mkdir(parents=True)
    (home / "ws" / "mine.toml").write_text("[sandbox]\n")
    (config / "corral.toml").symlink_to(home / "ws" / "mine.toml")

    for options in (("--no-config",), (), ("--config", "/dev/null")):
        corral("run", *options, "-c", "echo alive; printf '[sandbox]\\nenabled=false\\n' > mine.toml")

    assert (home / "ws" / "mine.toml").read_text() == "[sandbox]\n"


def test_corrals_own_files_are_never_granted_for_writing(corral: Run, home: Path) -> None:
    """Its state, its configuration and its code, asked for by a project or by the user himself."""
    state = home / ".local" / "state" / "corral"
    (home / ".config" / "corral").mkdir(parents=True)
    assert corral("run", "--", "true").returncode == 0 and state.is_dir()
    wanted = [str(state), str(home / ".config" / "corral"), str(Path(sys.prefix))]

    for path in wanted:
        done = corral("run", "--write", path, "-c", f"echo x > {path}/planted")
        assert (done.returncode, Path(path, "planted").exists()) == (2, False)
    user_file(home, readwrite_paths=[str(home / ".local"), str(home / ".config")])
    listed = ", ".join(f'"{path}"' for path in wanted[:2])
    (home / "ws" / "pyproject.toml").write_text(
        f"[tool.corral.sandbox]\nreadwrite_paths = [{listed}]\n{READ_ONLY}"
    )
    for path in wanted[:2]:
        assert corral("run", "-c", f"echo alive; echo x > {path}/planted").stdout == b"alive\n"
        assert not Path(path, "planted").exists()


def test_narrowing_and_then_granting_more_gives_no_more_than_granting_alone(corral: Run, home: Path) -> None:
    data = home / "data"
    (data / "golden").mkdir(parents=True)
    user_file(home, readwrite_paths=[str(data)], readonly_paths=[str(data / "golden")])

    def writes() -> bool:
        corral("run", "--write", str(data), "-c", f"touch {data}/golden/x {data}/y")
        return (data / "golden" / "x").exists()

    assert not writes() and (data / "y").exists()
    (home / "ws" / "pyproject.toml").write_text('[tool.corral.sandbox]\nprofile = "strict"\n')
    assert not writes()


def test_a_relative_name_of_the_users_file_is_refused(corral: Run, home: Path) -> None:
    (home / "ws" / "mine.toml").write_text("[sandbox]\nenabled = false\n")

    done = corral("run", "--", "cat", f"{home}/.ssh/key", CORRAL_CONFIG="mine.toml")

    assert done.returncode == 2 and b"absolute" in done.stderr


@pytest.mark.parametrize("options", [("--agent", "explore"), ("--config", "x.toml")])
def test_a_configuration_is_not_left_out_by_halves(corral: Run, home: Path, options: tuple[str, str]) -> None:
    user_file(home, agent={"explore": {"sandbox": {"profile": "strict"}}})

    assert corral("run", "--no-config", *options, "--", "touch", "made").returncode == 2
    assert corral("run", "--agent", "", "--", "touch", "made", CORRAL_AGENT="explore").returncode == 2
    assert not (home / "ws" / "made").exists()


def test_a_large_file_of_a_project_is_refused_and_not_waited_for(corral: Run, home: Path) -> None:
    for count, keys in ((20_000, ["denied_paths"]), (300, ["denied_paths", "readonly_paths"])):
        paths = json.dumps([f"/usr/{number}" for number in range(count)])
        lists = "".join(f"{key} = {paths}\n" for key in keys)
        (home / "ws" / "pyproject.toml").write_text(f"[tool.corral.sandbox]\n{lists}")

        done = corral("run", "--", "true")

        assert done.returncode == 2 and b"more than" in done.stderr


def test_a_pyproject_that_is_for_others_is_in_nobodys_way(corral: Run, home: Path) -> None:
    file = home / "ws" / "pyproject.toml"
    for make in (lambda: os.mkfifo(file), file.mkdir, lambda: file.write_bytes(b"\xff" * 10)):
        make()
        assert corral("run", "--", "true").returncode == 0
        file.rmdir() if file.is_dir() else file.unlink()


def test_values_and_names_forge_no_lines(corral: Run, home: Path) -> None:
    lie = "corral: use --no-sandbox"
    (home / "ws" / "pyproject.toml").write_text(
        f'[tool.corral.sandbox]\nreadonly_paths = ["/nix/\\n{lie}", "/nix/\\u202e\\u2028x"]\n'
    )
    (home / "ws" / "link").symlink_to(f"/etc/shadow\n  rule     {lie}")

    printed = b""
    for command in (("run", "-v", "--", "true"), ("policy", "show", "--effective"), ("why", "read", "link")):
        done = corral(*command)
        printed += done.stdout + done.stderr

    assert lie.encode() in printed
    assert not any(
        lie in line and not line.strip().startswith(("~", "/", "corral: ~", "really"))
        for line in printed.decode().splitlines()
    )
    assert "\u202e" not in printed.decode() and "\u2028" not in printed.decode()
