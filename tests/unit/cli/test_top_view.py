"""The screen of `corral top`, without a terminal: what it shows, and what its keys do."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest
from textual.widgets import DataTable, RichLog, Static

from corral.cli.top import act
from corral.cli.top import open as open_module
from corral.cli.top.dialogs import Ask, Question, TextDialog
from corral.cli.top.overview import _command, _without_repeats
from corral.cli.top.row import COMMAND, ENDED, FAILED, RUN, RUNNING, SESSION, STARTING, Line, Row, line_of
from corral.cli.top.view import TopView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot

    Check = Callable[[TopView, Pilot[None]], Awaitable[None]]

HOSTILE = "\x1b[31m[bold]evil[/bold]\n\u202e\0 $(x)"
ROWS = [
    Row(
        "session api",
        SESSION,
        "api",
        RUNNING,
        "native",
        "codex",
        12.4,
        3 << 20,
        65.0,
        "/w",
        "moderate",
        pid=7,
    ),
    Row("command api 1", COMMAND, "pytest -q", RUNNING, seconds=3.0, session="api"),
    Row("session slow", SESSION, "slow", STARTING, "podman", workspace="/w", policy="strict"),
    Row("run 1", RUN, "make", FAILED, "native", reason="exit status 2", policy="strict", net="limited"),
    Row("run 2", RUN, "true", ENDED, "native"),
]
LINES = [
    Line(0.0, "api", False, "refused net.domains evil.example: no rule permits this host", "evil.example"),
    Line(1.0, "api", True, "network connect example.org:443 permitted: the policy permits it"),
]


class FakeOverview:
    """Tells what it was given; the lines once."""

    def __init__(self, rows: list[Row] = ROWS, lines: list[Line] = LINES) -> None:
        self.rows, self.lines = rows, list(lines)
        self.gate: threading.Event | None = None

    def look(self) -> tuple[list[Row], list[Line]]:
        if self.gate is not None:
            self.gate.wait(30)
        lines, self.lines = self.lines, []
        return self.rows, lines

    def find_run(self, _: str) -> None:
        return None


def _show(
    check: Callable[[TopView, Pilot[None]], Awaitable[None]], overview: FakeOverview | None = None
) -> None:
    async def drive() -> None:
        view = TopView(overview or FakeOverview())  # type: ignore[arg-type]
        async with view.run_test(size=(80, 24)) as pilot:
            await view.workers.wait_for_complete()
            await pilot.pause()
            await check(view, pilot)

    asyncio.run(drive())


def _screen(view: TopView) -> list[str]:
    """What is on the screen, as text."""
    return [
        "".join(segment.text for segment in strip).rstrip()
        for strip in view.screen._compositor.render_strips()
    ]


async def _until(view: TopView, pilot: Pilot[None], text: str) -> str:
    """The screen, once it shows a text: it is drawn when nothing else is to be done."""
    deadline = time.monotonic() + 30
    while text not in (screen := "\n".join(_screen(view))):
        assert time.monotonic() < deadline, screen
        await pilot.pause(0.02)
    return screen


def _colours(view: TopView, key: str) -> str:
    return str(view.query_one(DataTable).get_cell(key, "state").style)


def test_a_screen_of_eighty_by_twenty_four_has_everything() -> None:
    async def check(view: TopView, pilot: Pilot[None]) -> None:
        await _until(view, pilot, "moderate in /w   pid 7")
        text = await _until(view, pilot, "network connect example.org:443 permitted")
        screen = text.split("\n")
        assert len(screen) == 24
        assert max(map(len, screen)) <= 80
        assert "2 sessions   2 runs   2 running   1 starting   1 failed" in screen[0]
        assert screen[1].split() == ["name", "state", "backend", "agent", "cpu", "memory", "age"]
        assert screen[2].split() == ["⬡", "api", "running", "native", "codex", "12%", "3.0", "MiB", "1m5s"]
        assert screen[3].split()[:4] == ["└", "pytest", "-q", "running"]
        assert "evil.example: no rule permits this host" in text
        for word in ("Start", "Stop", "Shell", "Policy", "Allow a host", "Quit"):
            assert word in screen[-1]

    _show(check)


def test_states_have_their_colours() -> None:
    async def check(view: TopView, _: Pilot[None]) -> None:
        assert _colours(view, "session api") == "green"
        assert _colours(view, "session slow") == "yellow"
        assert _colours(view, "run 1") == "red"
        assert _colours(view, "run 2") == "dim"

    _show(check)


def test_no_name_colours_breaks_or_forges_the_screen() -> None:
    facts = {"event": "refused", "at": "1.0", "feature": "fs.read", "subject": HOSTILE, "reason": HOSTILE}
    line = line_of(HOSTILE, facts)
    assert line is not None
    safe = line.source

    async def check(view: TopView, pilot: Pilot[None]) -> None:
        text = await _until(view, pilot, "[bold]evil")  # as it is written, and not as markup
        assert "\x1b" not in text
        assert "\u202e" not in text
        await pilot.press("p")
        await _until(view, pilot, "│ \\x1b[31m[bold]evil")

    assert "\n" not in safe
    _show(
        check,
        FakeOverview([Row("run 1", RUN, safe, RUNNING, safe, safe, workspace=safe, policy="p")], [line]),
    )


def test_a_look_that_hangs_does_not_block_the_keys() -> None:
    overview = FakeOverview()
    overview.gate = threading.Event()

    async def drive() -> None:
        view = TopView(overview)  # type: ignore[arg-type]
        async with view.run_test(size=(80, 24)) as pilot:
            await pilot.press("n")
            assert isinstance(view.screen, Ask)
            await pilot.press("escape")
            view.look_again()  # is not stacked up
            assert len([worker for worker in view.workers if worker.group == "look"]) == 1
            overview.gate.set()

    asyncio.run(drive())


#: Keys, the row that is chosen, and what they do; in one view, since each takes a second to open.
KEYS: list[tuple[list[str], int, list[object]]] = [
    (["n", "x", "enter"], 0, ["start", "x"]),
    (["n", "escape"], 0, []),
    (["k", "n"], 0, []),
    (["k", "y"], 0, ["end", "session api", False]),
    (["k", "y", "k", "y"], 1, ["end", "command api 1", False, "end", "command api 1", True]),
    (["k"], 3, []),  # is over
    (["a", "enter"], 0, ["allow", "session api", "evil.example"]),
    (["a", "escape"], 0, []),
    (["a"], 3, []),  # is no session
    (["s"], 3, []),
]


def test_keys_act_on_what_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(act, "start_session", lambda name: done.extend(["start", name]) or "")
    monkeypatch.setattr(act, "end", lambda row, _, at_once: done.extend(["end", row.key, at_once]) or "")
    monkeypatch.setattr(act, "allow", lambda row, host: done.extend(["allow", row.key, host]) or "")
    found = []

    async def check(view: TopView, pilot: Pilot[None]) -> None:
        await _until(view, pilot, "evil.example")
        for keys, row, _ in KEYS:
            view.query_one(DataTable).move_cursor(row=row)
            await pilot.pause()
            for key in keys:
                await pilot.press(key)
                await view.workers.wait_for_complete()
                await pilot.pause()
            assert len(view.screen_stack) == 1
            found.append((keys, row, list(done)))
            done.clear()

    _show(check)
    assert found == KEYS


def test_the_policy_is_shown_and_left_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "describe_policy", lambda _: ["filesystem:read:/usr", "[red]x"])

    async def check(view: TopView, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        await _until(view, pilot, "filesystem:read:/usr")
        await _until(view, pilot, "[red]x")
        assert isinstance(view.screen, TextDialog)
        await pilot.press("escape")
        assert not isinstance(view.screen, TextDialog | Question)

    _show(check)


def test_the_chosen_row_stays_chosen_when_others_come_and_go() -> None:
    overview = FakeOverview()

    async def check(view: TopView, pilot: Pilot[None]) -> None:
        view.query_one(DataTable).move_cursor(row=3)
        overview.rows = ROWS[2:]
        view.look_again()
        await view.workers.wait_for_complete()
        await pilot.pause()
        chosen = view._chosen()
        assert chosen is not None
        assert chosen.key == "run 1"
        assert "exit status 2" in str(view.query_one("#detail", Static).render())
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert view.query_one(DataTable).row_count == 3
        assert view.query_one(RichLog).size.width > 80

    _show(check, overview)


def test_nothing_to_show_says_how_to_begin() -> None:
    async def check(view: TopView, pilot: Pilot[None]) -> None:
        await _until(view, pilot, "press n to start a session")

    _show(check, FakeOverview([], []))


def test_a_refusal_is_told_once_with_its_hint() -> None:
    event = Line(1.0, "api", False, "refused", "evil.example", is_event=True)
    decision = Line(0.5, "api", False, "network lookup refused", "evil.example")
    other = Line(0.2, "api", False, "network lookup refused", "other.example")

    assert _without_repeats([decision, event, other]) == [other, event]


@pytest.mark.parametrize(
    ("allowed", "reason", "expected"),
    [
        ("yes", "granted", "network connect example.org:443 permitted: the policy permits it"),
        ("no", "not-granted", "network connect example.org:443 refused: no rule permits this host"),
        ("no", "unresolved", "network connect example.org:443 failed: the name does not resolve"),
        ("no", "unheard-of", "network connect example.org:443 refused: unheard-of"),
    ],
)
def test_decisions_about_the_network_are_told_in_words(allowed: str, reason: str, expected: str) -> None:
    facts = {"network": "connect", "at": "1", "host": "example.org", "port": "443"}

    line = line_of("api", {**facts, "allowed": allowed, "reason": reason})

    assert line is not None
    assert (line.text, line.is_good) == (expected, allowed == "yes")
    assert line_of("api", {**facts, "at": "never"}) is None


def test_the_host_of_a_refusal_is_known_unless_it_is_a_guess() -> None:
    facts = {"event": "refused", "at": "1", "feature": "net.domains", "subject": "example.org:443"}
    guess = {**facts, "feature": "net.none", "subject": "network", "evidence": "inferred"}
    lines = [line_of("api", each) for each in (facts, guess)]

    assert [line.host for line in lines if line is not None] == ["example.org:443", ""]


def test_options_of_a_run_are_those_that_shape_its_policy() -> None:
    words = [
        "python",
        "/bin/corral",
        "run",
        "-p",
        "strict",
        "--stats",
        "--read=/x",
        "--json",
        "-c",
        "ls",
        "--cpus",
        "1",
    ]

    assert act.options_of(words) == ["-p", "strict", "--read=/x", "--cpus", "1"]
    assert act.options_of(["corral", "run", "--", "-p", "x"]) == []
    assert _command(("/bin/sh", "-c", "ls | wc")) == "ls | wc"


def test_without_textual_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "textual" or name == "corral.cli.top.view":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")

    assert open_module.open_top(as_json=False) == 2
    assert "pip install 'corral[top]'" in capsys.readouterr().err
