"""The services of one engine over the screen of `top`: Enter switches one, a line at the bottom limits streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, SelectionList, Static

from lucky_transport import control
from lucky_transport.control import EngineDescription
from lucky_transport.errors import TransportError, printable
from lucky_transport.host.service_switch import parse_rates


class ServiceScreen(ModalScreen[None]):
    """Shows what an engine answers and changes it, one change at a time."""

    CSS = """
    ServiceScreen { align: center middle; }
    #box { width: 72; height: auto; max-height: 80%; border: solid $primary; background: $surface; }
    #services { height: auto; max-height: 14; border: none; }
    #streams, #outcome { height: auto; padding: 0 1; }
    """
    BINDINGS: ClassVar = [Binding("escape", "dismiss", "back")]

    def __init__(self, engine: EngineDescription) -> None:
        super().__init__()
        self._engine = engine

    def compose(self) -> ComposeResult:
        rows = [(printable(name), name, is_on) for name, is_on in self._engine.services.items()]
        with Vertical(id="box"):
            yield SelectionList[str](*rows, id="services")
            yield Static(id="streams", markup=False)
            yield Input(placeholder="NAME=RATE limits a stream, e.g. TelemetryService=10; 0: no limit", id="limit")
            yield Static(id="outcome", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self._show(self._engine, "")

    def on_selection_list_selection_toggled(self, event: SelectionList.SelectionToggled[str]) -> None:
        name = event.selection.value
        is_on = name in event.selection_list.selected
        self._change(partial(control.change, **{"on" if is_on else "off": [name]}))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._change(lambda endpoint: control.change(endpoint, fps=parse_rates(event.value.split())))

    def _change(self, change: Callable[[str], EngineDescription]) -> None:
        """Make it on a thread: the engine may be slow to answer."""

        def make() -> None:
            engine, outcome = self._engine, "changed"
            try:
                engine = change(self._engine.endpoints[0])
            except TransportError as error:
                outcome = str(error)
            self.app.call_from_thread(self._show, engine, outcome)

        self.run_worker(make, thread=True, exclusive=True)

    def _show(self, engine: EngineDescription, outcome: str) -> None:
        if not self.is_mounted or not self.query("#services"):
            return
        self._engine = engine
        services = self.query_one("#services", SelectionList)
        services.border_title = f"{printable(engine.engine)} at {printable(engine.endpoints[0])}"
        with self.prevent(SelectionList.SelectionToggled, SelectionList.SelectedChanged):
            for name, is_on in engine.services.items():
                (services.select if is_on else services.deselect)(name)
        limits = [f"{name}: at most {hz:g}/s" for name, hz in engine.limited.items()]
        self.query_one("#streams", Static).update(Text("\n".join(map(printable, limits)) or "No stream has a limit."))
        self.query_one("#outcome", Static).update(Text(printable(outcome)))
