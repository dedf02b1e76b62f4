"""TopView: the screen of `corral top`. Everything that may take long is done in a worker thread."""

from __future__ import annotations

import functools
import subprocess
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Footer, RichLog, Static

from corral.cli.stats import approximate
from corral.cli.top import act
from corral.cli.top.dialogs import Ask, Question, TextDialog
from corral.cli.top.overview import Overview
from corral.cli.top.row import COLOURS, COMMAND, FAILED, RUN, RUNNING, SESSION, STARTING, Line, Row, clean
from corral.config.setting import shorten
from corral.model.rules.quantities import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY_SECONDS = 1.0
_COLUMNS = (("state", 9), ("backend", 11), ("agent", 9), ("cpu", 6), ("memory", 10), ("age", 8))
_LEAST_NAME = 12
_MARKS = {SESSION: "⬡ ", COMMAND: "  └ ", RUN: "▸ "}


class TopView(App[None]):
    """Sessions and runs in a table, what happens to them beneath it."""

    TITLE = "corral top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { height: 1; padding: 0 1; background: $panel; }
    #table { height: 1fr; min-height: 5; }
    #detail { height: 1; padding: 0 1; background: $panel; }
    #events { height: 9; padding: 0 1; scrollbar-gutter: stable; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "start", "Start"),
        Binding("k", "stop", "Stop"),
        Binding("s", "shell", "Shell"),
        Binding("p", "policy", "Policy"),
        Binding("a", "allow", "Allow a host"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, overview: Overview | None = None) -> None:
        super().__init__()
        self._overview = overview if overview is not None else Overview()
        self._rows: dict[str, Row] = {}
        self._refused: dict[str, str] = {}  # by the name of a session: the host that was refused last
        self._asked_to_end: set[str] = set()
        self._is_looking = self._is_shown = False

    def compose(self) -> ComposeResult:
        self._summary = Static("looking ...", id="summary", markup=False)
        self._table: DataTable[Text] = DataTable(id="table", cursor_type="row", cell_padding=0)
        self._detail = Static("", id="detail", markup=False)
        self._log_widget = RichLog(
            id="events", wrap=True, markup=False, highlight=False, max_lines=500, min_width=0
        )
        yield from (self._summary, self._table, self._detail, self._log_widget)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look."""
        self._is_shown = True
        self._set_columns()
        self._log_widget.write(Text("refusals and decisions appear here", style="dim"))
        self.set_interval(_EVERY_SECONDS, self.look_again)
        self.look_again()

    def on_resize(self) -> None:
        """The name takes what the other columns leave."""
        if self._is_shown:  # else it comes before the widgets
            self._set_columns()
            self._show_rows(list(self._rows.values()))

    def look_again(self) -> None:
        """Look, unless the last look is still under way."""
        if not self._is_looking:
            self._is_looking = True
            self._look()

    @work(thread=True, group="look")
    def _look(self) -> None:
        try:
            rows, lines = self._overview.look()
        except Exception as problem:  # the view goes on, and says so
            self.call_from_thread(self._looked, None, [])
            self.call_from_thread(self.notify, clean(str(problem)), severity="error", markup=False)
        else:
            self.call_from_thread(self._looked, rows, lines)

    def _looked(self, rows: list[Row] | None, lines: list[Line]) -> None:
        self._is_looking = False
        if not self.is_running:  # somebody has left meanwhile
            return
        if rows is not None:
            self._show_rows(rows)
        log = self._log_widget
        for line in lines:
            if line.host:
                self._refused[line.source] = line.host
            log.write(Text(line.render(), style="green" if line.is_good else "red"))

    def _set_columns(self) -> None:
        table = self._table
        table.clear(columns=True)
        others = sum(width for _, width in _COLUMNS)
        table.add_column("name", key="name", width=max(_LEAST_NAME, self.size.width - others - 2))
        for name, width in _COLUMNS:
            table.add_column(name, key=name, width=width)

    def _show_rows(self, rows: list[Row]) -> None:
        table = self._table
        if list(self._rows) != [row.key for row in rows] or table.row_count != len(rows):
            chosen = self._chosen()
            table.clear()
            for row in rows:
                table.add_row(*self._cells(row), key=row.key)
            if chosen is not None and chosen.key in {row.key for row in rows}:
                table.move_cursor(row=table.get_row_index(chosen.key))
        else:
            for row in rows:
                for (name, _), cell in zip((("name", 0), *_COLUMNS), self._cells(row), strict=True):
                    table.update_cell(row.key, name, cell)
        self._rows = {row.key: row for row in rows}
        self._show_summary()
        self._show_detail()

    def _cells(self, row: Row) -> tuple[Text, ...]:
        """TRUST: texts, never markup: a command may be called `[bold]`."""
        style = COLOURS.get(row.state, "dim")
        cpu = "-" if row.cpu_percent is None else f"{row.cpu_percent:.0f}%"
        memory = "-" if row.memory_bytes is None else approximate(row.memory_bytes)
        width = self._table.columns
        room = next((column.width for key, column in width.items() if key.value == "name"), 20)
        name = Text(f"{_MARKS[row.kind]}{row.name}", no_wrap=True)
        name.truncate(room - 1, overflow="ellipsis")
        return (
            name,
            Text(row.state, style=style),
            Text((row.backend or "-")[:10]),
            Text((row.agent or "-")[:8]),
            Text(cpu),
            Text(memory),
            Text(format_duration(float(int(row.seconds)))),
        )

    def _show_summary(self) -> None:
        rows = self._rows.values()
        states = {state: sum(row.state == state for row in rows) for state in (RUNNING, STARTING, FAILED)}
        text = Text("⬡ corral top   ")
        for kind in (SESSION, RUN):
            count = sum(row.kind == kind for row in rows)
            text.append(f"{count} {kind}{'' if count == 1 else 's'}   ")
        for state, count in states.items():
            text.append(f"{count} {state}   ", style=COLOURS[state] if count else "dim")
        self._summary.update(text)

    def _show_detail(self) -> None:
        row = self._chosen()
        parts = []
        if row is not None:
            parts = [f"{row.policy} in {shorten(row.workspace)}"] if row.policy else []
            parts += [f"network {row.net}"] if row.net else []
            parts += [f"pid {row.pid}" if row.pid else "", row.reason]
        nothing = "nothing runs; press n to start a session here" if row is None else ""
        text = nothing or "   ".join(filter(None, parts))
        self._detail.update(Text(text, no_wrap=True, overflow="ellipsis"))

    def on_data_table_row_highlighted(self) -> None:
        """Another row was chosen."""
        self._show_detail()

    def _chosen(self) -> Row | None:
        table = self._table
        if not table.row_count or not table.is_valid_row_index(table.cursor_row):
            return None
        key = table.coordinate_to_cell_key(Coordinate(table.cursor_row, 0)).row_key.value
        return self._rows.get(key or "")

    @work(thread=True, group="act")
    def _do(self, action: Callable[[], str]) -> None:
        self.call_from_thread(self.notify, act.safely(action), markup=False)
        self.call_from_thread(self.look_again)

    def action_start(self) -> None:
        """Start a session in the directory that `corral top` was started in."""

        def start(name: str | None) -> None:
            if name is not None:
                self._do(functools.partial(act.start_session, name))

        self.push_screen(Ask("Start a session here. Its name, or none for that of the workspace:"), start)

    def action_stop(self) -> None:
        """End what is chosen."""
        row = self._chosen()
        if row is None or row.state not in {RUNNING, STARTING}:
            return
        at_once = row.key in self._asked_to_end

        def end(is_wanted: bool | None) -> None:
            if is_wanted:
                self._asked_to_end.add(row.key)
                self._do(functools.partial(act.end, row, self._overview, at_once=at_once))

        everything = " and everything in it" if row.kind == SESSION else ""
        self.push_screen(Question(f"End {row.name}{everything}{' at once' if at_once else ''}?"), end)

    def action_shell(self) -> None:
        """Open a shell in the session that is chosen; the view waits."""
        row = self._chosen()
        if row is None or row.kind == RUN:
            self.notify("only a session can open a shell: start one with n", markup=False)
            return
        try:
            with self.suspend():
                subprocess.run(act.own_command("session", "shell", row.session or row.name), check=False)
        except SuspendNotSupported:
            self.notify("this terminal cannot be given to a shell meanwhile", markup=False)

    def action_policy(self) -> None:
        """Show what it may do."""
        row = self._chosen()
        if row is not None:
            self._show_policy(row)

    @work(thread=True, group="policy")
    def _show_policy(self, row: Row) -> None:
        text = act.safely(lambda: "\n".join(act.describe_policy(row)))
        self.call_from_thread(self.push_screen, TextDialog(row.name[:60], text))

    def action_allow(self) -> None:
        """Let a session reach a host for a minute."""
        row = self._chosen()
        if row is None or row.kind == RUN:
            self.notify("only the network of a session can be changed while it runs", markup=False)
            return

        def allow(host: str | None) -> None:
            if host:
                self._do(functools.partial(act.allow, row, host))

        known = self._refused.get(row.session or row.name, "")
        self.push_screen(Ask("Permit a host for a minute:", known), allow)
