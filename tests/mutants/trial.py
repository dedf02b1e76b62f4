"""Trial: the tests of one mutant, in a process of their own, and what they said.

The process is forked off one that has imported pytest already. As root it is the first process of a PID
namespace and has mounts of its own: a mutant that signals everyone, or mounts where it must not, is alone.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_timeout  # noqa: F401  (imported once for all that are forked)
from mutant import ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from workshop import Workshop

TEST_SECONDS = 40
QUIET = ("-q", "-p", "no:cacheprovider", "-p", "pytest_timeout")
#: A backend that a mutant makes unavailable is a refusal, not a skip.
REQUIRE = ("--require", "native,landlock,bubblewrap")
_NEWNS, _NEWPID, _PRIVATE = 0x00020000, 0x20000000, 0x00044000
#: What is said where a command was not run at all.
_REFUSED = re.compile(
    r"SetupError|never ran the script|does not claim|not available|failed [a-z_]+ \d+ |status=b'(lost)?\b"
)
_RAN = re.compile(r"['\"\[]started|DID NOT RAISE")


@dataclass(frozen=True)
class Told:
    """What the tests said: which one caught it, or which were refused and how."""

    caught: str = ""
    refused: str = ""
    passed: int = 0
    skipped: int = 0
    error: str = ""


class Listening:
    """A plugin that stops at the first test which catches the mutant."""

    def __init__(self, *, is_launcher: bool) -> None:
        self.told: dict[str, object] = {"passed": 0, "skipped": 0}
        self._is_launcher = is_launcher

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo):
        outcome = yield
        report = outcome.get_result()
        if call.excinfo is not None and report.failed:
            self._judge(item.nodeid, call.excinfo.typename, str(call.excinfo.value)[:4000], item.session)
        elif report.failed:  # an expected failure that did not come
            self._judge(item.nodeid, "AssertionError", "it passed", item.session)

    def _judge(self, name: str, kind: str, text: str, session: pytest.Session) -> None:
        if self._is_refusal(kind, text):
            self.told.setdefault("refused", f"{name}: {kind}: {' '.join(text.split())[:160]}")
        else:
            self.told["caught"] = name
            session.shouldstop = "caught"

    def _is_refusal(self, kind: str, text: str) -> bool:
        """Where the launcher is another one, only what a test says itself counts as its own finding."""
        if kind in {"AssertionError", "Failed"}:
            return bool(_REFUSED.search(text)) and not _RAN.search(text)
        return self._is_launcher or bool(_REFUSED.search(f"{kind}: {text}"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.told["passed"] += 1  # type: ignore[operator]
        if report.skipped:
            self.told["skipped"] += 1  # type: ignore[operator]


def run_tests(workshop: Workshop, tests: tuple[str, ...], log: Path, seconds: int) -> Told:
    """Run tests on what is in the workshop now."""
    answer = log.with_suffix(".json")
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _isolate()
        _run(workshop, tests, log, answer)
    status = _wait(child, seconds)
    if not answer.exists():
        return Told(error=f"the tests did not come to an end: {status}")
    return Told(**json.loads(answer.read_text()))


def _wait(child: int, seconds: int) -> object:
    def on_alarm(*_: object) -> None:
        os.kill(child, signal.SIGKILL)

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(seconds)
    try:
        return os.waitpid(child, 0)[1]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _isolate() -> None:
    """Become the first process of a PID namespace, where that is permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.getuid() != 0 or libc.unshare(_NEWNS | _NEWPID) != 0:
        return
    first = os.fork()
    if first:
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xFF)
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    libc.mount(b"none", b"/", None, _PRIVATE, None)
    if libc.mount(b"proc", b"/proc", b"proc", 0, None) != 0:
        os._exit(97)


def _forget_own(root: str, place: str) -> None:
    """INVARIANT: nothing of corral comes from the repository itself, which the runner has looked at."""
    for name in [name for name in sys.modules if name.partition(".")[0] in {"corral", "support"}]:
        del sys.modules[name]
    sys.path[:] = [place, *(entry for entry in sys.path if not _is_source(entry, root))]


def _is_source(entry: str, root: str) -> bool:
    return entry in {f"{root}/src", f"{root}/tests"}


def _run(workshop: Workshop, tests: tuple[str, ...], log: Path, answer: Path) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, fd in enumerate((null, out, out)):
        os.dup2(fd, number)
    os.environ |= {"PYTHONPATH": str(workshop.place / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ |= {"COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CORRAL_TEST_PATIENCE": "8"}
    sys.dont_write_bytecode = True
    _forget_own(str(ROOT), str(workshop.place / "src"))
    os.chdir(workshop.place)
    listening = Listening(is_launcher=workshop.is_launcher_changed)
    code = 99
    try:
        options = ("--launcher", str(workshop.launcher), "--timeout", str(TEST_SECONDS), "-vv", *REQUIRE)
        code = int(pytest.main([*QUIET, *options, *tests], plugins=[listening]))
        if code not in {0, 1, 2}:
            listening.told["error"] = f"pytest: {pytest.ExitCode(code).name}"
        new = answer.with_suffix(".new")
        new.write_text(json.dumps(listening.told))
        new.rename(answer)
    finally:
        sys.stdout.flush()
        os._exit(code)
