"""Functions of the main file: it is run under another name in the worker, as multiprocessing does."""

from __future__ import annotations

import subprocess
import sys

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("native")

PROGRAM = """
import sys

import corral

STEP = 10


def scaled(number):
    return number * STEP, __name__, sys.argv[1:]


print("run as", __name__, file=sys.stderr)
if __name__ == "__main__":
    with corral.SandboxExecutor("moderate", backend="native") as executor:
        print(executor.submit(scaled, 4).result())
"""


def _run(*arguments: str, work: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=work,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "how", [("program.py",), ("-m", "program"), ("-m", "package"), ("./package/__main__.py",)]
)
def test_a_function_of_the_program_itself_can_be_called(work: Path, how: tuple[str, ...]) -> None:
    (work / "package").mkdir()
    for path in (work / "program.py", work / "package/__main__.py"):
        path.write_text(PROGRAM)

    done = _run(*how, "--token=secret", work=work)

    assert (done.stdout, done.stderr) == ("(40, '__mp_main__', [])\n", "run as __main__\n")


def test_a_program_from_stdin_has_no_file_to_run(work: Path) -> None:
    done = _run("-", work=work, stdin=PROGRAM)

    assert done.stdout == ""
    assert "put it into a module and import it from there" in done.stderr


def test_nothing_is_littered(work: Path) -> None:
    (work / "module.py").write_text("def one():\n    return 1\n")
    script = "import corral, module; print(corral.SandboxExecutor().submit(module.one).result())"

    done = _run("-B", "-c", script, work=work)

    assert done.stdout == "1\n"
    assert [path.name for path in work.iterdir()] == ["module.py"]
