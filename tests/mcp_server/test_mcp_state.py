"""What lasts from one `bash` call to the next, and what a client is told when its sandbox is gone."""

from __future__ import annotations

import asyncio

import pytest

from corral.integrations.mcp_server.client_sandbox import ClientSandbox, FileRefused, ServerSettings
from corral.integrations.mcp_server.output import BoundedOutput, cut_lines
from corral.integrations.own_directories import ENDS_WITH_IT
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.mcp_clients import McpHome

_WAIVED = "fs.metadata,fs.protect,proc.contained,proc.hidden".split(",")


def _answers(home: McpHome, commands: list[str], backend: str = "native", *, keeps: bool = True) -> list[str]:
    """What each call is told, one after the other."""

    async def work() -> list[str]:
        sandbox = Sandbox(
            backend=backend, workspace=home.project, waive=_WAIVED if backend != "native" else ()
        )
        client = ClientSandbox(ServerSettings(sandbox, keeps=keeps))
        try:
            return [(await client.bash(BoundedOutput(30_000), {"command": each})).text for each in commands]
        finally:
            await client.close()

    return asyncio.run(work())


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_directory_and_variables_last_whatever_is_in_them(home: McpHome, backend: str) -> None:
    odd = 'it\'s "odd" $HOME `x` \\ \n second line'
    (home.project / "a b").mkdir()
    (home.project / "odd").write_text(odd)

    told = _answers(
        home,
        [
            'export ODD="$(cat odd)"; cd "a b"; unexported=1; (exit 3)',
            'pwd; [ "$ODD" = "$(cat ../odd)" ] && echo same; echo "[$unexported]"',
            "exit 5",
            "pwd; cd ..; rmdir 'a b'; mkdir gone; cd gone; rmdir ../gone",
            "pwd",
        ],
        backend,
    )

    assert told[0] == "[corral] The command ended with exit status 3."
    assert told[1] == f"{home.project}/a b\nsame\n[]"
    assert told[2] == "[corral] The command ended with exit status 5."
    assert told[3] == f"{home.project}/a b"
    assert told[4] == str(home.project)


def test_a_state_that_was_cut_off_is_not_taken(home: McpHome) -> None:
    """A command that is ended while it saves its state leaves half a file."""
    told = _answers(
        home,
        [
            "export KEPT=yes; mkdir -p sub; cd sub",
            'echo "$KEPT"; f=$(echo /tmp/.corral-mcp-*); trap - EXIT; x=$(head -c 40 "$f"); echo "$x" > "$f"',
            'echo "[$KEPT]"; pwd',
        ],
    )

    assert told[0] == "[no output]"
    assert told[1] == "yes"
    assert told[2] == f"[]\n{home.project}"


def test_a_sandbox_for_each_command_where_none_is_kept(home: McpHome) -> None:
    told = _answers(home, ["touch /tmp/made; ls /tmp/made", "ls /tmp/made"], keeps=False)

    assert told[0] == "/tmp/made"
    assert "No such file" in told[1]


def test_the_parts_of_a_text_that_are_shown() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 101))
    output = BoundedOutput(20)
    for piece in (b"0123456789", b"abc", b"ABCDEFGHIJ"):
        output.take("stdout", piece)

    assert cut_lines(text, 1, None, 10_000) == text
    assert cut_lines(text, 99, None, 10_000).endswith("line 100\n[corral: lines 99 to 100 of 100 are shown]")
    assert cut_lines(text, 1, None, 14) == "line 1\nline 2\n[corral: lines 1 to 2 of 100 are shown]"
    assert (
        cut_lines("x" * 50, 1, None, 10)
        == f"{'x' * 10}\n[corral: line 1 has 50 characters; the first 10 are shown]"
    )
    assert cut_lines(text, 101, None, 10) == "[corral: the file has 100 lines]"
    assert output.text().startswith("0123456789\n[corral: 3 of 23 bytes of output are left out here;")
    assert output.text().endswith("ABCDEFGHIJ")
    assert output.last_line() == "abcABCDEFGHIJ"


def test_a_file_that_the_user_would_not_have_is_refused_or_told(home: McpHome) -> None:
    """The sandbox has a directory of its own around the workspace, which is gone afterwards."""

    async def work() -> list[str]:
        (home.project / "link").symlink_to("../linked")
        client = ClientSandbox(ServerSettings(Sandbox(workspace=home.project)))
        try:
            with pytest.raises(FileRefused) as refused:
                await client.write_file({"path": "../notes", "content": "x"})
            told = [str(refused.value)]
            for path in ("link", str(home.home / "whole"), "sub/../here"):
                told.append((await client.write_file({"path": path, "content": "x"})).text)
            return told
        finally:
            await client.close()

    refused, linked, whole, here = asyncio.run(work())

    assert refused.startswith(
        f"[not done] write {home.home}/notes: the sandbox has a private directory there"
    )
    assert linked == f"wrote 1 bytes to link, in {ENDS_WITH_IT}"
    assert whole == f"wrote 1 bytes to {home.home}/whole, in {ENDS_WITH_IT}"
    assert here == "wrote 1 bytes to sub/../here"
    assert {each.name for each in home.home.iterdir()} == {"project", "secret.txt"}
    assert (home.project / "here").read_text() == "x"
