"""The transcript in docs/trials.md, typed again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from support.named_sessions import Person

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DOCUMENT = Path(__file__).parents[2] / "docs/trials.md"
_GENERATOR = r"""#!/bin/sh
sed 's/Hello/Good morning/' greet.py > greet.new && mv greet.new greet.py
mkdir -p docs && echo "# Greetings" > docs/index.md
echo "test:; python3 greet.py" > Makefile
echo "export PATH=.:\$PATH" > .envrc
rm notes.txt
"""
_FILES = {
    "generate.sh": _GENERATOR,
    "greet.py": 'print("Hello, world")\n',
    "notes.txt": "remember the milk\n",
    "Makefile": "all:\n",
}
_ID = re.compile(r"\b[0-9a-f]{8}\b")


def _steps() -> Iterator[tuple[str, str]]:
    """Each command, and what it prints."""
    text = "".join(re.findall(r"```console\n(.*?)```", _DOCUMENT.read_text("utf-8"), re.DOTALL))
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def test_the_transcript_says_what_happens(person: Person) -> None:
    for name, text in _FILES.items():
        path = person.project / name
        path.write_text(text)
        os.chown(path, person.uid, person.uid)
    corral = shlex.join(person.argv("-m", "corral"))
    become = shlex.join(person.argv()[:-1])

    for command, expected in _steps():
        words = command.replace("corral ", f"{corral} ", 1) if command.startswith("corral") else command
        line = words if command.startswith("corral") else f"{become} {command}"
        done = subprocess.run(
            ["/bin/sh", "-c", f"{line} 2>&1"],
            cwd=person.project,
            env={**person.environment, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (command, _ID.sub("ID", done.stdout)) == (command, _ID.sub("ID", expected))


@pytest.mark.parametrize("answer", ["a", "x", "", "c"])
def test_on_a_terminal_it_asks(root_person: Person, answer: str) -> None:
    import pty

    (root_person.project / "kept").write_text("old\n")
    answers = {"c": b"c\ny\n"}.get(answer, answer.encode() + b"\n")
    outer, inner = pty.openpty()
    command = root_person.begin(
        *("try", "--", "sh", "-c", "echo new > kept; echo more > made"),
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    seen = b""
    while b"[x] discard? " not in seen:
        seen += os.read(outer, 65_536)
    os.write(outer, answers + b"n\n")
    while True:
        try:
            if not os.read(outer, 65_536):
                break
        except OSError:  # nobody has the other end any more
            break
    assert command.wait(30) == 0
    os.close(outer)

    applied = {"a": ("new\n", True), "c": ("new\n", False)}.get(answer, ("old\n", False))
    assert ((root_person.project / "kept").read_text(), (root_person.project / "made").exists()) == applied
