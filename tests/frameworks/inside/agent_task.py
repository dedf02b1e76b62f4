"""A small task for a scripted agent: write a program, run its tests, fail to read a secret, be told why."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

SECRET = "a key that nobody is to see"
#: What a model is told of a path that is not shown, by `Result.explain`.
REASON = "ask the user to grant it"


class AgentTask:
    """The commands that a model asks for, one after the other, and how what it is told is judged."""

    def __init__(self, directory: Path) -> None:
        self.workspace = directory / "workspace"
        self.secret = directory / "elsewhere" / "key"
        self.secret.parent.mkdir()
        self.workspace.mkdir()
        self.secret.write_text(SECRET)
        self.commands = [
            "printf 'def twice(x):\\n    return 2 * x\\n' > program.py",
            "printf 'import program\\nassert program.twice(2) == 4\\nprint(\"passed\")\\n' > check.py;"
            " python3 check.py",
            f"cat {self.secret}",
        ]

    def judge(self, told: list[str], workspace: Path | None = None) -> None:
        """`told` is what the model got for each command."""
        assert self.secret.read_text() == SECRET  # a control: outside it can be read
        assert len(told) == len(self.commands)
        assert "passed" in told[1], told
        assert (workspace or self.workspace).joinpath("program.py").exists()
        assert SECRET not in "".join(told)
        assert str(self.secret) in told[2] and REASON in told[2], told[2]
