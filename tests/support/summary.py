"""The end of a run: where its minutes went, what was left out, and that no claimed guarantee went untried."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from support.scope import LEFT, is_narrowed, left_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


#: A property of a report: the backend and the guarantee that the test is one leg of.
CLAIM = "claim"


class Summary:
    """Listens where the reports of all workers arrive."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._tests: Counter[str] = Counter()
        self._claimed: set[str] = set()
        self._proved: set[str] = set()
        self._left = 0
        self._terminal: pytest.TerminalReporter | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._terminal = session.config.pluginmanager.get_plugin("terminalreporter")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """A worker has ended; all of them left out the same."""
        self._left = getattr(node, "workeroutput", {}).get(LEFT, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count. What failed is named at once: a run that is stopped half way has still told it."""
        directory = "/".join(Path(report.nodeid.partition("::")[0]).parts[:2])
        self._seconds[directory] += report.duration
        claims = {value for name, value in report.user_properties if name == CLAIM}
        self._claimed |= claims
        if report.when == "call":
            self._tests[directory] += 1
            if report.passed:
                self._proved |= claims
        if report.failed and self._terminal is not None:
            self._terminal.write_line(f"\nfailed: {report.nodeid} ({report.when}): {_last_words(report)}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A guarantee that a backend claims, and that only skipped tests were about, fails a whole run."""
        self._left = session.config.stash.get(left_key, self._left)
        if session.exitstatus == 0 and not is_narrowed(session.config) and self._claimed - self._proved:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        if len(self._seconds) > 1:
            terminalreporter.section("minutes of the workers, by directory")
            for line in self._table():
                write(line)
        if self._left:
            write(f"{self._left} tests were left to `make test-all`")
        for claim in sorted(self._claimed - self._proved):
            write(f"claimed, and no test of it passed: {claim}")

    def _table(self) -> Iterable[str]:
        for directory, seconds in self._seconds.most_common():
            yield f"{seconds / 60:6.1f} min {self._tests[directory]:6d} tests  {directory}"
        yield f"{self._seconds.total() / 60:6.1f} min {self._tests.total():6d} tests"


def _last_words(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longreprtext).splitlines()[0][:200]
