"""The suites of frameworks for providers: how many of their tests pass with corral, and why others do not.

The tallies stand in docs/integrations.md; what does not pass does not pass with the framework's own local
provider either.
"""

from __future__ import annotations

from typing import NamedTuple


class Suite(NamedTuple):
    """One suite. `unmet` has what does not pass, with the reason; `unmet_as_root` what root fails besides."""

    framework: str
    title: str
    tests: int
    unmet: dict[str, str]
    unmet_as_root: dict[str, str]

    def passed(self, *, is_root: bool) -> int:
        """How many pass."""
        return self.tests - len(self.unmet) - (len(self.unmet_as_root) if is_root else 0)

    def row(self) -> str:
        """As it stands in the document."""
        ordinary, root = (f"{self.passed(is_root=is_root)} of {self.tests}" for is_root in (False, True))
        return f"| {self.title} | {ordinary} | {root} |"


_GLOB = "the suite expects relative paths of `glob`, and deepagents itself returns absolute ones"
_MODES = "file modes do not bind root"
SUITES = (
    Suite(
        "pydantic-ai",
        "Pydantic AI, `WorkspaceBackendSuite`",
        38,
        {},
        {"test_permission_denied_uses_builtin_error": _MODES},
    ),
    Suite(
        "deepagents",
        "langchain-tests, `SandboxIntegrationTests`",
        86,
        {
            "test_glob": _GLOB,
            "test_glob_basic_pattern": _GLOB,
            "test_glob_with_directories": "the suite expects directories; deepagents' `glob` has files only",
            "test_glob_hidden_files_explicitly": _GLOB,
            "test_glob_with_character_class": _GLOB,
            "test_glob_with_question_mark": _GLOB,
            "test_write_existing_file_fails": "deepagents' own `write` replaces a file that is there",
        },
        {},
    ),
    Suite(
        "inspect",
        "Inspect AI, `self_check`",
        44,
        {"test_exec_as_user": "no command adds users to the host, or becomes another one"},
        {
            "test_read_file_not_allowed": _MODES,
            "test_write_text_file_without_permissions": _MODES,
            "test_write_binary_file_without_permissions": _MODES,
        },
    ),
)
