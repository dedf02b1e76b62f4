"""BashTool: a shell tool for one's own agent, from a model's arguments to the words it is told."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import corral
from corral.integrations.bash_call import BadArguments, cut_middle, read_arguments
from support.probed import probe_of
from support.scripted_model import ScriptedModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def sandbox(tmp_path: Path) -> corral.Sandbox:
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    return corral.Sandbox(workspace=tmp_path)


@pytest.fixture
def tool(sandbox: corral.Sandbox) -> Iterator[corral.BashTool]:
    with corral.BashTool(sandbox, output_characters=1000) as made:
        yield made


def test_directory_and_variables_last_to_the_next_call(tool: corral.BashTool, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()

    assert tool.execute({"command": "cd sub && export NAME='a b' && plain=1"}).text == "[no output]"
    told = tool.execute({"command": 'pwd; echo "$NAME$plain"; echo error >&2; [[ x == x ]]'})
    assert told.text == f"{tmp_path}/sub\na b\nerror"
    assert (told.is_error, told.exit_status) == (False, 0)
    assert tool.execute({"command": "exit 3"}).text == "[exit status 3]"


def test_the_middle_of_long_output_is_left_out_with_a_note(tool: corral.BashTool) -> None:
    told = tool.execute({"command": "echo first; yes | head -n 5000; echo last"})

    assert told.text.startswith("first\n") and told.text.endswith("\nlast")
    assert "characters left out" in told.text
    assert len(told.text) < 1100


def test_a_command_is_ended_when_its_time_is_over(tool: corral.BashTool) -> None:
    told = tool.execute({"command": "echo begun; sleep 1000", "timeout": 300})

    assert told.text.startswith("begun\n[timed out after ")
    assert told.is_error and told.exit_status == 124


def test_a_job_in_the_background_is_read_and_ended_by_its_id(tool: corral.BashTool) -> None:
    tool.execute({"command": "export WORD=hi"})
    job = tool.execute({"command": "echo $WORD; cd /; sleep 1000", "run_in_background": True}).job
    seen = ""
    while "hi" not in seen:
        seen += tool.read_output(job).text
    assert f"[{job} is running]" in seen
    tool.kill(job)
    while "has ended" not in seen:
        seen = tool.read_output(job).text
    assert tool.execute({"command": "pwd"}).text != "/"  # nothing of the job's is the next command's
    assert tool.kill("nobody").is_error
    assert tool.read_output("nobody").is_error


def test_leaving_the_sandbox_takes_the_callers_own_word(sandbox: corral.Sandbox, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    wish = {"command": f"touch {outside}", "dangerouslyDisableSandbox": True}

    for ask in (None, lambda _: False, lambda _: "yes"):
        with corral.BashTool(sandbox, ask_unconfined=ask) as tool:  # type: ignore[arg-type]
            assert "leaving it was not permitted" in tool.execute(wish).text
            assert tool.unconfined == []
    assert not outside.exists()
    with corral.BashTool(sandbox, ask_unconfined=lambda _: True) as tool:
        tool.execute(wish)
    assert outside.exists()  # a control
    assert tool.unconfined == [wish["command"]]


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        "ls",
        {},
        {"command": 1},
        {"command": " "},
        {"command": "a\0b"},
        {"command": "x" * 200_000},
        {"command": "ls", "timeout": "5"},
        {"command": "ls", "timeout": -1},
        {"command": "ls", "timeout": float("nan")},
        {"command": "ls", "run_in_background": "yes"},
        {"command": "ls", "cwd": "/"},
    ],
)
def test_what_a_model_gets_wrong_is_told_and_nothing_runs(arguments: object) -> None:
    with pytest.raises(BadArguments):
        read_arguments(arguments, 1.0, 2.0)
    told = corral.BashTool.execute(corral.BashTool(), arguments)  # no sandbox is made for it

    assert told.is_error and told.text.startswith("[not run: ")


def test_a_sandbox_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    workspace = tmp_path / "gone"
    workspace.mkdir()
    with corral.BashTool(corral.Sandbox(workspace=workspace)) as tool:
        workspace.rmdir()
        assert tool.execute({"command": "true"}).text.startswith("[not run: ")


def test_the_schemas_are_those_of_the_three_vendors() -> None:
    tool = corral.BashTool()
    for schema in (
        tool.anthropic_schema()["input_schema"],
        tool.openai_schema()["function"]["parameters"],
        tool.gemini_schema()["parameters"],
    ):
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate({"command": "ls", "timeout": 5, "run_in_background": True}, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({}, schema)


def test_short_text_is_not_cut() -> None:
    assert cut_middle("abc", 3) == "abc"
    assert cut_middle("abcdef", 4) == "ab\n[... 2 characters left out ...]\nef"


def test_the_same_for_asyncio_and_a_cancelled_call_ends_its_command(sandbox: corral.Sandbox) -> None:
    begun = Path(sandbox.workspace) / "begun"

    async def work() -> tuple[str, str, str]:
        async with corral.AsyncBashTool(sandbox) as tool:
            await tool.execute({"command": "export A=1; cd /tmp"})
            state = await tool.execute({"command": "echo $A; pwd"})
            job = (await tool.execute({"command": "sleep 1000", "run_in_background": True})).job
            ended = await tool.kill(job)
            call = asyncio.create_task(tool.execute({"command": f"echo > {begun}; sleep 2000"}))
            while not begun.exists():
                await asyncio.sleep(0.01)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            left = await tool.execute({"command": "ps -e -o args= | grep -c '^sleep 2000' || true"})
            return state.text, ended.text, left.text

    state, ended, left = asyncio.run(work())
    assert state == "1\n/tmp"
    assert "was ended" in ended
    assert left == "0"


@pytest.mark.parametrize("vendor", ["anthropic", "openai", "gemini"])
def test_the_example_works_with_a_scripted_model(
    vendor: str, sandbox: corral.Sandbox, tmp_path: Path
) -> None:
    script = ["cd /tmp; export A=made", "pwd; echo $A", "exit 4"]
    upper = vendor.upper()
    with ScriptedModel(script) as model:
        base = f"{model.url}/v1" if vendor == "openai" else model.url
        done = subprocess.run(
            [sys.executable, str(_EXAMPLES / f"{vendor}_agent.py"), "go on"],
            env={**os.environ, f"{upper}_BASE_URL": base, f"{upper}_API_KEY": "none"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "Done.\n"
    told = json.dumps(model.requests[-1])
    assert "/tmp\\nmade" in told and "[exit status 4]" in told
