"""ConfigurationError: all the mistakes of the files and variables that configure a run."""

from __future__ import annotations

from corral.config.values import nearest
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.config.document import Problem


class ConfigurationError(PolicyError):
    """A file or a variable says what cannot be; `problems` has every mistake, with its place."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        places = sorted({problem.file for problem in problems})
        count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        first = problems[0]
        super().__init__(
            "configuration",
            f"{count} in {', '.join(places)}",
            why=f"line {first.line}, column {first.column}: {first.what}" if first.line else first.what,
            fix=first.fix,
        )
        self.problems = problems

    def render(self) -> str:
        """The first line of every error, then each mistake with its place and its fix."""
        if len(self.problems) == 1:
            return super().render()
        first = super().render().partition("\n")[0]
        return "\n".join([first, *(f"  {problem.render()}" for problem in self.problems)])


def unknown_agent(agent: str, known: list[str]) -> PolicyError:
    """An agent was named that no file describes."""
    if not known:
        why, fix = "no configuration describes an agent", f"write a table [agent.{agent}.sandbox]"
    else:
        why, fix = f"the agents are {', '.join(known)}", nearest(agent, known)
    return PolicyError("unknown-agent", f"there is no agent {agent!r}", why=why, fix=fix)
