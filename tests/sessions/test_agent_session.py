"""What the adapters of frameworks share: commands, files and words of one sandbox, tried as an attacker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import corral
from corral.integrations.agent_session import AgentSession, running
from support.probed import probe_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "a key that nobody is to see"
ADAPTERS = {
    "pydantic_ai": "pydantic-ai",
    "deepagents": "deepagents",
    "inspect_ai": "inspect",
    "openai_agents": "openai-agents",
    "mini_swe_agent": "mini-swe-agent",
    "smolagents": "smolagents",
    "autogen": "autogen",
    "google_adk": "google-adk",
    "harbor": "harbor",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def session(workspace: Path) -> Iterator[AgentSession]:
    with AgentSession(corral.Sandbox(workspace=workspace)) as made:
        yield made


def _sleeping(marker: str) -> list[int]:
    """Processes of this machine that have a word in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # gone meanwhile
    return [pid for pid in found if pid != os.getpid()]


def test_nothing_is_made_before_the_first_call(workspace: Path) -> None:
    session = AgentSession(corral.Sandbox(workspace=workspace))

    assert session.id == ""
    session.close()
    with pytest.raises(corral.SessionClosed):
        session.run("true")


def test_a_command_is_told_with_both_streams(session: AgentSession) -> None:
    done = session.run("echo out; echo error >&2; exit 3")

    assert (done.exit_code, done.stdout, done.stderr, done.explanation) == (3, b"out\n", b"error\n", "")
    assert session.run("echo a; echo b >&2; echo c", joins=True).whole_text == "a\nb\nc\n"
    assert session.run(["cat"], stdin=b"\xff").output_text == "\ufffd"


@pytest.mark.parametrize("joins", [False, True])
def test_a_model_is_told_why_it_cannot_read_or_write(session: AgentSession, joins: bool) -> None:
    secret = Path(session.workspace).parent / "secret"
    read = session.run(f"cat {secret}", joins=joins)
    written = session.run("echo x > /etc/motd", joins=joins)

    assert secret.read_text() == SECRET  # a control
    assert read.exit_code == 1 and SECRET not in read.whole_text
    assert f"{secret}: " in read.explanation and "is not shown" in read.explanation
    assert "/etc/motd" in written.explanation and "part of the system" in written.explanation
    assert read.result is not None and read.explanation == read.result.explain()
    assert read.error_text.endswith("\n") and "[corral] The command ended with" in read.whole_text


def test_what_is_missing_in_the_workspace_needs_no_explanation(session: AgentSession) -> None:
    assert session.run(f"cat {session.workspace}/nothing; cat nothing").explanation == ""
    assert session.run("ls nothing || true").explanation == ""


def test_an_explanation_says_nothing_of_what_the_host_has(session: AgentSession, tmp_path: Path) -> None:
    there, missing = tmp_path / "secret", tmp_path / "absent"
    told = [session.run(f"cat {path}").whole_text.replace(path.name, "?") for path in (there, missing)]

    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["/nowhere/program"], 127),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
        ("a\0b", 126),
        ("", 126),
    ],
)
def test_what_is_wrong_with_a_command_is_an_answer(session: AgentSession, command: object, code: int) -> None:
    done = session.run(command)  # type: ignore[arg-type]

    assert done.exit_code == code and done.result is None
    assert done.error_text.startswith("corral: the command did not run: ")
    assert session.run("echo on").stdout == b"on\n"


def test_variables_reach_the_command_and_those_of_the_caller_do_not(
    session: AgentSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    done = session.run("env", env={"GIVEN": "a b", "LD_PRELOAD": "/nowhere.so"})

    assert "GIVEN=a b" in done.output_text
    assert SECRET not in done.output_text
    assert session.run("true", env={"A=B": "c"}).exit_code == 126
    assert session.run("env").output_text.count("GIVEN") == 0


def test_a_directory_outside_is_no_working_directory(session: AgentSession, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    session.run("mkdir sub && ln -s ../.. sub/out")

    assert session.run("pwd", cwd="sub").output_text == f"{session.workspace}/sub\n"
    for outside in (str(tmp_path / "elsewhere"), "../elsewhere", "sub/out/elsewhere"):
        with pytest.raises(corral.CorralError):
            session.run("touch planted", cwd=outside)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_time_over_ends_everything_that_was_started(session: AgentSession) -> None:
    marker = f"1000.{os.getpid()}1"
    done = session.run(f"(setsid sleep {marker} &) ; sleep {marker}; echo late", timeout=0.5)

    assert done.is_timed_out and done.exit_code == 124
    assert "late" not in done.output_text
    assert _sleeping(marker) == []


def test_a_cancelled_call_ends_everything_that_was_started(session: AgentSession, workspace: Path) -> None:
    marker = f"1000.{os.getpid()}2"

    async def work() -> None:
        task = asyncio.create_task(
            running(lambda: session.run(f"(setsid sleep {marker} &) ; touch begun; sleep {marker}"))
        )
        while not (workspace / "begun").exists():
            await asyncio.sleep(0.01)
        assert _sleeping(marker)  # a control
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert _sleeping(marker) == []

    asyncio.run(work())
    assert session.run("echo on").stdout == b"on\n"


def test_closing_ends_a_command_and_a_second_time_does_nothing(
    session: AgentSession, workspace: Path
) -> None:
    marker = f"1000.{os.getpid()}3"
    raised: list[BaseException] = []

    def work() -> None:
        try:
            session.run(f"touch begun; sleep {marker}")
        except corral.CorralError as problem:
            raised.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    while not (workspace / "begun").exists():
        thread.join(0.01)
    session.close()
    session.close()
    thread.join()

    assert [type(problem) for problem in raised] == [corral.SessionClosed]
    assert not session.is_open and _sleeping(marker) == []
    with pytest.raises(corral.SessionClosed):
        session.read("begun")


def test_agents_share_what_they_are_given_and_nothing_else(session: AgentSession) -> None:
    """Two sessions in one workspace: its files are common, private areas and processes are not."""
    with AgentSession(session.sandbox) as other:
        session.run("echo mine > /tmp/note; echo common > note; sleep 1000 & echo")

        assert other.read("note") == b"common\n"
        assert not other.exists("/tmp/note") and session.exists("/tmp/note")
        assert "sleep" not in other.run("ps -e -o args=").output_text
        assert "sleep" in session.run("ps -e -o args=").output_text
        other.close()
        assert session.run("cat /tmp/note").stdout == b"mine\n"


def test_the_first_calls_of_several_threads_make_one_session(workspace: Path) -> None:
    with AgentSession(corral.Sandbox(workspace=workspace)) as session:
        ids: list[str] = []
        threads = [threading.Thread(target=lambda: ids.append(session.open().id)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(ids) == 8 and len(set(ids)) == 1


def test_files_go_in_and_out_as_they_are(session: AgentSession, workspace: Path) -> None:
    data = bytes(range(256))
    session.write("a/b/data", data)
    session.write("/tmp/inside", "text")
    session.make_directory("made/deeper")

    assert (workspace / "a/b/data").read_bytes() == session.read("a/b/data") == data
    assert session.run("cat /tmp/inside").stdout == b"text" and not Path("/tmp/inside").exists()
    assert [entry.name for entry in session.list()] == ["a", "made"]
    assert session.status("a").kind == "directory" and session.status("a/b/data").size == 256
    assert session.resolve("a/../a/b") == f"{workspace}/a/b"
    session.remove("a")
    assert not session.exists("a")


@pytest.mark.parametrize(
    "path", ["../secret", "link", "up/secret", "{top}/secret", "/proc/1/root{top}/secret"]
)
def test_no_path_leads_to_the_host(session: AgentSession, workspace: Path, path: str) -> None:
    named = path.format(top=workspace.parent)
    session.run(f"ln -s {workspace.parent}/secret link; ln -s .. up")
    assert (workspace / "link").read_text() == SECRET  # a control: the host follows it

    for work in (session.read, session.status, session.list):
        with pytest.raises(OSError):
            work(named)
    assert not session.exists(named)
    for change in (session.remove, session.make_directory, lambda name: session.write(name, b"planted")):
        with contextlib.suppress(OSError):  # or it is done in a private area of the sandbox
            change(named)
    assert (workspace.parent / "secret").read_text() == SECRET


def test_a_file_that_nobody_would_find_is_refused(session: AgentSession, workspace: Path) -> None:
    session.run("mkdir sub; echo x > ../notes")
    assert not (workspace.parent / "notes").exists()  # a control: there the sandbox has its own directory

    with pytest.raises(PermissionError, match="the user does not have this file"):
        session.write("sub/../../notes", b"")
    session.write("sub/../notes", b"text")
    assert (workspace / "notes").read_bytes() == b"text"


def test_a_link_for_removal_is_removed_itself(session: AgentSession, workspace: Path) -> None:
    kept = workspace.parent / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (workspace / "out").symlink_to(kept)
    session.remove("out")

    assert not os.path.lexists(workspace / "out") and (kept / "file").exists()


@pytest.mark.parametrize("name", ["read", "write", "list", "status", "remove", "make_directory", "resolve"])
def test_a_path_with_a_nul_is_an_error_of_the_caller(session: AgentSession, name: str) -> None:
    arguments = ("a\0b", b"") if name == "write" else ("a\0b",)
    with pytest.raises(ValueError):
        getattr(session, name)(*arguments)


def test_a_protected_name_is_refused_as_files_refuse(session: AgentSession, workspace: Path) -> None:
    with pytest.raises(PermissionError, match=r"\.envrc is protected"):
        session.write(".envrc", b"planted")
    assert not (workspace / ".envrc").exists()


@pytest.mark.parametrize("path", [".", "", "{top}", "{above}", "/", "sub/.."])
def test_the_workspace_itself_is_never_removed(session: AgentSession, workspace: Path, path: str) -> None:
    session.write("kept", b"")
    with pytest.raises(ValueError):
        session.remove(path.format(top=workspace, above=workspace.parent))
    assert (workspace / "kept").exists()


def test_an_own_workspace_is_gone_with_the_session() -> None:
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    with AgentSession.in_own_workspace("moderate") as session:
        directory = Path(session.workspace)
        assert directory.stat().st_mode & 0o777 == 0o700
        session.run("mkdir -p a/b; ln -s / a/root; chmod 0 a/b")
    assert not directory.exists()


@pytest.mark.starts_sandboxes
@pytest.mark.parametrize(("module", "extra"), ADAPTERS.items())
def test_a_framework_that_is_missing_is_named_with_its_extra(module: str, extra: str) -> None:
    """In a Python of its own; whatever is installed here, the frameworks are made unfindable."""
    script = (
        "import sys, importlib\n"
        "class Nothing:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in {'pydantic_ai', 'deepagents', 'inspect_ai', 'agents',\n"
        "            'minisweagent', 'harbor', 'smolagents', 'autogen_core', 'google'}:\n"
        "            raise ImportError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Nothing())\n"
        "import corral\n"
        "assert not [name for name in sys.modules if name.startswith('corral.integrations')]\n"
        "try:\n"
        f"    importlib.import_module('corral.integrations.{module}')\n"
        "except corral.CorralError as problem:\n"
        "    print(problem.code, problem.fix)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert done.stdout == f"missing-extra pip install --upgrade 'corral[{extra}]'\n", done.stderr
