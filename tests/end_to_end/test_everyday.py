"""The default profile is pleasant: what people do all day works, and their secrets stay out of reach."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import corral as library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def test_git_commits_with_the_callers_name(corral: Corral, project: Path) -> None:
    (project / "file").write_text("x")

    done = corral(
        "run", "-c", "git add file && git commit -qm one && git log --format=%an%n%ae && git status -s"
    )

    assert done.stdout == b"A Person\nperson@localhost\n", done.stderr
    log = subprocess.run(["git", "log", "--oneline"], cwd=project, capture_output=True, check=True)
    assert len(log.stdout.splitlines()) == 1


def test_git_works_in_a_linked_worktree_without_opening_its_hooks(
    corral: Corral, project: Path, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    for command in ("commit -q --allow-empty -m one", f"worktree add -q {linked}"):
        subprocess.run(["git", *command.split()], cwd=project, check=True)

    done = corral(
        "run", "-c", "echo x > f; git add f; git commit -qm two; git log --oneline | wc -l", cwd=linked
    )
    hostile = corral(
        "run", "-c", f"echo x > {project}/.git/hooks/post-commit; echo x >> {project}/.git/config", cwd=linked
    )

    assert done.stdout == b"2\n", done.stderr
    assert b"not taken over: core.x" in hostile.stderr
    assert not (project / ".git/hooks/post-commit").exists()
    assert "x" not in (project / ".git/config").read_text().splitlines()


@needs("cc")
@needs("make")
def test_a_compiler_and_make_work(corral: Corral, project: Path) -> None:
    (project / "hello.c").write_text('#include <stdio.h>\nint main(void) { puts("hello"); }\n')
    (project / "Makefile").write_text("hello: hello.c\n\tcc -o $@ $<\n")

    done = corral("run", "-c", "make -s && ./hello")

    assert done.stdout == b"hello\n", done.stderr


@needs("node")
def test_node_works(corral: Corral) -> None:
    assert corral("run", "--", "node", "-e", "console.log(6 * 7)").stdout == b"42\n"


def test_python_threads_processes_and_a_server_on_loopback_work(corral: Corral, project: Path) -> None:
    (project / "work.py").write_text(
        "import concurrent.futures as f, http.server, threading, urllib.request\n"
        "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
        "assert urllib.request.urlopen(f'http://127.0.0.1:{s.server_port}/work.py').read()\n"
        "if __name__ == '__main__':\n"
        "    with f.ProcessPoolExecutor(2) as pool: print(sum(pool.map(abs, range(-4, 0))))\n"
    )

    done = corral("run", "--", "python3", "work.py")

    assert done.stdout == b"10\n", done.stderr


def test_a_project_s_own_virtual_environment_works(corral: Corral, project: Path) -> None:
    """Its interpreter is a link to wherever this Python is installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=project, check=True)
    (project / "test_it.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"
    )

    done = corral("run", "--", ".venv/bin/python", "-m", "unittest", "-q")

    assert done.returncode == 0, done.stderr


def test_tools_on_the_path_work_wherever_they_are_and_the_home_stays_closed(
    corral: Corral, home: Path
) -> None:
    installed = home / ".sometool" / "versions" / "1.0"
    (installed / "bin").mkdir(parents=True)
    (installed / "lib").mkdir()
    (installed / "lib" / "data").write_text("from the library")
    tool = installed / "bin" / "sometool"
    tool.write_text('#!/bin/sh\ncat "$(dirname "$0")/../lib/data"\n')
    tool.chmod(0o755)
    local = home / ".local" / "bin"
    local.mkdir(parents=True)
    (home / ".local" / "share").mkdir()
    (home / ".local" / "share" / "keyring").write_text("SECRET RING")
    script = local / "localtool"
    script.write_text("#!/bin/sh\necho local\n")
    script.chmod(0o755)
    path = f"{installed}/bin:{local}:/usr/bin:/bin"

    works = corral("run", "-c", "sometool; echo; localtool", PATH=path)
    secrets = corral("run", "-c", "cat ~/.ssh/id_ed25519 ~/.local/share/keyring; ls -a ~", PATH=path)

    assert works.stdout == b"from the library\nlocal\n", works.stderr
    assert b"SECRET" not in secrets.stdout
    assert b".ssh" not in secrets.stdout


def test_secrets_in_the_environment_do_not_pass(corral: Corral) -> None:
    done = corral("run", "--", "env", AWS_SECRET_ACCESS_KEY="s1", GITHUB_TOKEN="s2", LD_PRELOAD="")

    assert b"s1" not in done.stdout
    assert b"s2" not in done.stdout
    assert b"HOME=" in done.stdout


def test_of_etc_only_what_programs_need_is_there(corral: Corral) -> None:
    done = corral("run", "-c", "ls -a /etc; cat /etc/passwd > /dev/null && echo readable")

    names = set(done.stdout.decode().split())
    assert "readable" in names
    assert not names & {"shadow", "gshadow", "ssh", "sudoers", "machine-id", "cloud", "kubernetes"}


def test_the_workspace_is_as_it_was_before(corral: Corral, project: Path) -> None:
    def listing() -> list[str]:
        return sorted(str(path.relative_to(project)) for path in project.rglob("*"))

    before = listing()
    corral("run", "-c", "mkdir .vscode; echo x > .envrc; ln -s /etc .idea; echo x > .mcp.json")

    assert listing() == before


def test_the_strictest_profile_protects_what_is_made_writable(corral: Corral, project: Path) -> None:
    done = corral(
        "run", "-p", "strict", "--write", ".", "-c", "echo x > .envrc; echo x > .git/hooks/pre-commit"
    )

    assert not (project / ".envrc").exists()
    assert not (project / ".git/hooks/pre-commit").exists()
    assert b"fs.protect" in done.stderr


def test_a_grant_is_not_led_out_of_the_workspace_by_a_link(corral: Corral, home: Path) -> None:
    corral("run", "--", "ln", "-s", str(home / ".ssh"), "out")

    done = corral("run", "--read", "./out", "-c", "cat out/id_ed25519")

    assert done.returncode == 2
    assert b"SECRET" not in done.stdout
    assert b"by a link in the workspace" in done.stderr


def test_a_denial_beats_what_only_the_profile_grants(corral: Corral) -> None:
    done = corral("run", "--deny", "/etc/passwd", "--", "cat", "/etc/passwd")

    assert done.returncode == 1
    assert done.stdout == b""


def test_patterns_hide_what_fulfils_them(corral: Corral, project: Path, tmp_path: Path) -> None:
    (project / "sec").mkdir()
    (project / "sec/a.pem").write_text("THE KEY")
    (tmp_path / "patterns").write_text("# keys\n*.pem\n\n/not/here*\n")
    control = corral("run", "--", "cat", "sec/a.pem")
    (project / "corral.toml").write_text('[sandbox]\ndenied_paths = ["${workspace}/sec/*.pem"]\n')
    ways = [
        corral("run", "--no-config", "--deny", "./sec/*.pem", "--", "cat", "sec/a.pem"),
        corral("run", "--no-config", "--deny-from", str(tmp_path / "patterns"), "--", "cat", "sec/a.pem"),
        corral("run", "--", "cat", "sec/a.pem"),
    ]

    assert control.stdout == b"THE KEY"
    assert [(done.returncode, done.stdout) for done in ways] == [(1, b"")] * 3
    assert b"${workspace}/not/here* is denied, and there is nothing of that kind now" in ways[1].stderr


def test_a_file_of_patterns_cannot_be_changed_by_the_command(corral: Corral, project: Path) -> None:
    (project / "patterns").write_text("*.pem\n")

    done = corral("run", "--no-config", "--deny-from", "patterns", "-c", "echo > patterns; mv patterns x")
    wrong = corral("run", "--no-config", "--deny-from", "missing", "--", "true")

    assert done.returncode != 0
    assert (project / "patterns").read_text() == "*.pem\n"
    assert wrong.returncode == 2
    assert b"pattern" in wrong.stderr


@pytest.mark.parametrize("option", ["--read", "--write"])
def test_a_pattern_grants_nothing(corral: Corral, option: str) -> None:
    done = corral("run", option, "/data/*", "--", "true")

    assert done.returncode == 2
    assert b"only whole paths are granted" in done.stderr


def test_peak_memory_is_the_commands_own(project: Path) -> None:
    """Not that of the caller, whose high-water mark a new process begins with."""
    large = bytearray(300_000_000)
    usage = library.run(["true"], workspace=project).usage

    assert len(large) > usage.peak_memory_bytes > 0
    assert usage.peak_memory_bytes < 100_000_000


@pytest.mark.parametrize(
    "limits", [{"wall_seconds": float("nan")}, {"wall_seconds": -5}, {"open_files": -1}, {"output_bytes": 0}]
)
def test_a_policy_of_a_program_is_checked_as_well(project: Path, limits: dict[str, float]) -> None:
    policy = library.load_preset("moderate").replace(limits=library.Limits(**limits))

    with pytest.raises(library.PolicyError):
        library.Sandbox(policy, workspace=project)


def test_the_library_can_be_used_from_many_threads(project: Path) -> None:
    sandbox = library.Sandbox(workspace=project)
    found: dict[int, str] = {}

    def work(number: int) -> None:
        found[number] = sandbox.run(["echo", str(number)]).check().stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {number: f"{number}\n" for number in range(24)}


def test_a_failing_command_is_a_value_and_check_raises(project: Path) -> None:
    result = library.run("echo no >&2; exit 4", workspace=project)

    assert (result.ok, result.exit_code, result.stderr) == (False, 4, "no\n")
    with pytest.raises(library.CommandFailed) as caught:
        result.check()
    assert caught.value.result is result
    assert "the command ran" in str(caught.value)


@pytest.mark.parametrize(
    ("program", "arguments", "advice"),
    [
        ("docker", "ps", b"docker needs its engine's socket"),
        (
            "chromium",
            "--headless",
            b"chromium's own sandbox cannot be made inside corral's: pass --no-sandbox",
        ),
        ("chromium", "--no-sandbox", b""),
        ("gdb", "--args ls", b"tracing processes takes `--cap process:debug`"),
    ],
)
def test_a_program_that_cannot_work_inside_comes_with_a_sentence(
    corral: Corral, project: Path, program: str, arguments: str, advice: bytes
) -> None:
    fake = project / program
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)

    by_words = corral("run", "--", str(fake), *arguments.split())
    by_line = corral("run", "-c", f"./{program} {arguments}")

    assert by_words.returncode == by_line.returncode == 3
    for done in (by_words, by_line):
        assert done.stderr.startswith(b"corral: " + advice) if advice else not done.stderr
