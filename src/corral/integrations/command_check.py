"""CommandCheck: how a tool has the commands of a model checked, before its sandbox has them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.shell_check.verdict import CheckResult


class CommandCheck:
    """The mode and the rules: the caller's own word, or what the configuration of a workspace says."""

    def __init__(
        self, workspace: str, mode: str | None, ask: Callable[[CheckResult], bool] | None = None
    ) -> None:
        self._ask = ask
        self._rules: tuple[str, ...] = ()
        if mode is None:
            from corral.config.load import load_configuration

            configuration = load_configuration(workspace)
            mode, self._rules = configuration.check_mode, configuration.check_rules
        self._mode = mode

    @property
    def is_off(self) -> bool:
        """Whether nothing is looked at."""
        return self._mode == "off"

    def apply(self, command: str) -> list[str]:
        """What there is to say about a command that may run. Raises PolicyError if it may not."""
        if self._mode == "off":
            return []
        from corral.shell_check.apply import apply_check

        said: list[str] = []
        apply_check(self._mode, command, rules=self._rules, say=said.append, ask=self._ask)
        return said
