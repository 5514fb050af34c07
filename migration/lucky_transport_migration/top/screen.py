"""The screen of `top`: a table of engines, what is known of the selected one, and a table of gRPC servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Static
from textual.worker import get_current_worker

from lucky_transport.diagnosis.servers import stale_sentence
from lucky_transport.errors import plural, printable
from lucky_transport_migration.top.activity import ActivityReading, EngineActivity, ServerActivity
from lucky_transport_migration.top.cells import (
    COLUMNS,
    SERVER_COLUMNS,
    details,
    engine_cells,
    server_cells,
)

_LEFT = ("engine", "state", "client", "endpoints", "server", "transport", "services")
_STYLES = {
    **dict.fromkeys(("ready", "ok"), "green"),
    **dict.fromkeys(("stale", "stopped", "closing", "loading"), "yellow"),
    "damaged": "red",
}


class TopScreen(App[None]):
    """Shows what `read` returns, again and again. It is called on a thread of its own, and takes as long as a look."""

    TITLE = "lucky-transport top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { height: 1; padding: 0 1; background: $panel; }
    #engines { height: auto; max-height: 50%; }
    #engines > .datatable--header { background: $panel; }
    #details { height: 1fr; padding: 0 1; overflow-y: auto; }
    #known { text-wrap: nowrap; text-overflow: ellipsis; }
    #servers { height: auto; max-height: 40%; overflow-y: auto; padding: 0 1; border-top: solid $panel; display: none; }
    """
    BINDINGS = [  # noqa: RUF012 - as Textual asks for it
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "interrupt", "quit", show=False, priority=True),
        Binding("space", "pause", "pause"),
    ]

    def __init__(self, read: Callable[[], ActivityReading]) -> None:
        super().__init__()
        self._read = read
        self._paused = False
        self._reading: ActivityReading | None = None

    def compose(self) -> ComposeResult:
        yield Static("looking ...", id="summary", markup=False)
        yield DataTable[Text](id="engines", cursor_type="row", zebra_stripes=False)
        yield Vertical(Static(id="known"), id="details")
        yield Vertical(Static(id="served"), id="servers")
        yield Footer()

    def on_mount(self) -> None:
        table = self.query_one("#engines", DataTable)
        for name in COLUMNS:
            table.add_column(Text(name, justify=_justify(name)), key=name)
        self.look()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        self._show_selected()

    def action_interrupt(self) -> None:
        """End as any command that Ctrl-C ends."""
        self.exit(return_code=130)

    def action_pause(self) -> None:
        """Stop or go on looking."""
        self._paused = not self._paused
        if self._reading is not None:
            self._show_summary(self._reading)
        self.look()

    def look(self) -> None:
        """Look again and again until it is paused."""
        if not self._paused:
            self.run_worker(self._look, thread=True, exclusive=True)

    def _look(self) -> None:
        worker = get_current_worker()
        while not (worker.is_cancelled or self._paused):
            reading = self._read()
            if not worker.is_cancelled:
                self.call_from_thread(self._take, reading)

    def _take(self, reading: ActivityReading) -> None:
        if self.query("#summary"):  # else the screen is being taken down
            self._reading = reading
            self._show(reading)

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _show(self, reading: ActivityReading) -> None:
        self._show_summary(reading)
        self._show_engines(reading.engines)
        self._show_selected()
        self._show_servers(reading.servers)

    def _show_summary(self, reading: ActivityReading) -> None:
        engines = reading.engines
        running = sum(1 for one in engines if one.state != "stale")
        parts = [
            f"{reading.host} {time.strftime('%H:%M:%S', time.localtime(reading.at))}",
            plural(running, "engine"),
            f"{sum(one.steps.rate for one in engines if one.steps is not None):,.0f} steps/s",
        ]
        if running < len(engines):
            parts.append(f"{len(engines) - running} stale")
        if living := [one for one in reading.servers if one.report.state != "stale"]:
            parts.append(plural(len(living), "gRPC server"))
        if others := reading.of_other_users:
            parts.append(f"{plural(len(others), 'segment')} of other users")
        if self._paused:
            parts.append("paused")
        self.query_one("#summary", Static).update("   ".join(parts))

    def _show_engines(self, engines: tuple[EngineActivity, ...]) -> None:
        """Fill the table anew, with the cursor on the engine that it was on."""
        table = self.query_one("#engines", DataTable)
        selected = self._selected_name()
        with self.prevent(DataTable.RowHighlighted):
            table.clear()
            for one in engines:
                style = "dim" if one.state == "stale" else ""
                pairs = zip(COLUMNS, engine_cells(one), strict=True)
                texts = [
                    Text(printable(cell), style or _STYLES.get(cell, ""), justify=_justify(name))
                    for name, cell in pairs
                ]
                table.add_row(*texts, key=one.name)
            if selected is not None and selected in table.rows:
                table.move_cursor(row=table.get_row_index(selected))

    def _selected_name(self) -> str | None:
        table = self.query_one("#engines", DataTable)
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def _selected(self) -> EngineActivity | None:
        name, reading = self._selected_name(), self._reading
        return next((one for one in reading.engines if one.name == name), None) if reading else None

    def _show_selected(self) -> None:
        known, engine = self.query_one("#known", Static), self._selected()
        if engine is None:
            known.update(Text("No engine runs here. Start one: lucky-transport serve toy --endpoint shm://demo"))
            return
        rows = list(details(engine))
        width = max(len(title) for title, _ in rows)
        lines = Text()
        for title, text in rows:
            lines.append(f"{title:<{width}}  ", "bold")
            lines.append(f"{printable(text)}\n")
        known.update(lines)

    def _show_servers(self, servers: tuple[ServerActivity, ...]) -> None:
        heads = (Column(name, justify=_justify(name), no_wrap=name != "services") for name in SERVER_COLUMNS)
        table = Table(*heads, box=None, pad_edge=False)
        for one in servers:
            if one.report.state != "stale":
                cells = map(printable, server_cells(one))
                table.add_row(*(Text(cell, _STYLES.get(cell, ""), no_wrap=True, overflow="ellipsis") for cell in cells))
        self.query_one("#servers").display = bool(servers)
        gone = Text(stale_sentence([one.report for one in servers]), "yellow")
        self.query_one("#served", Static).update(Group(*([table] if table.rows else []), *([gone] if gone else [])))


def _justify(column: str) -> Literal["left", "right"]:
    return "left" if column in _LEFT else "right"
