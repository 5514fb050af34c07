"""What an engine answers to the lines of one client: `LineService`."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import EngineFailed, PeerTimeout
from lucky_transport_pipe.connection import PipeConnection
from lucky_transport_pipe.control import ENGINE, Control, ControlEvent, ControlState
from lucky_transport_pipe.json_codec import ObjectCollector
from lucky_transport_pipe.lines import (
    FROM_ENGINE_END,
    LineCutter,
    MessageType,
    ParsedLine,
    error_line,
    parse_from_client,
    warning_line,
)
from lucky_transport_pipe.options import SessionRules, changed
from lucky_transport_pipe.run import Experiments, Run

_log = logging.getLogger("lucky_transport")
_LONGEST_WAIT_S = 3600.0


class LineService:
    """Serves one client.

    A line that has no place in the client's state is warned of, and the next one is read as if it had not come.
    """

    def __init__(
        self, experiments: Experiments, rules: SessionRules, connection: PipeConnection, send_timeout_s: float
    ) -> None:
        self._experiments = experiments
        self._rules = rules
        self._connection = connection
        self._send_timeout_s = send_timeout_s
        self._control = Control(ENGINE)
        self._cutter = LineCutter()
        self._objects = ObjectCollector()
        self._inits: list[Mapping[str, Any]] = []
        self._map_name = ""
        self._run: Run | None = None
        self._out: list[str] = []
        self._is_over = False
        self._handlers: dict[MessageType, Callable[[ParsedLine], None]] = {
            MessageType.RUN: self._on_run,
            MessageType.SET: self._on_set,
            MessageType.QUIT: self._on_quit,
            MessageType.END: self._on_end,
            MessageType.COMMAND: self._on_command,
            MessageType.WARNING: self._on_warning,
            MessageType.ERROR: self._on_error,
        }

    def serve(self) -> None:
        """Answer until the client quits. Raises PeerDied, PeerTimeout, ClosedError, RemoteProtocolError."""
        try:
            while not self._is_over:
                self._advance()
                self._flush()
                self._read()
            self._flush()
        finally:
            self._drop_run()

    def _advance(self) -> None:
        """Do what can be done of the run, if there is one."""
        run = self._run
        if run is None:
            return
        try:
            run.advance()
        except EngineFailed as error:
            _log.warning("pipe: %s", error)
            self._send(error_line(str(error)))
            self._finish(ControlEvent.FAILED)
        else:
            if run.is_over:
                self._send("END")
                self._finish(ControlEvent.OVER)

    def _finish(self, event: ControlEvent) -> None:
        self._drop_run()
        self._control.on(event)

    def _drop_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _read(self) -> None:
        """Read what the client sends next; return without any when a session's deadline has passed."""
        wait_s = _LONGEST_WAIT_S
        if self._run is not None and self._run.wake_at != math.inf:
            wait_s = max(0.0, self._run.wake_at - time.monotonic())
        try:
            data = self._connection.receive(Deadline(wait_s))
        except PeerTimeout:
            return
        for line in self._cutter.feed(data):
            self._on_line(line)
            if self._is_over:
                return

    def _on_line(self, text: str) -> None:
        line = parse_from_client(text)
        if self._objects.is_open:
            if line.type in (MessageType.OTHER, MessageType.COMMAND):  # the rest of an object, whatever it looks like
                self._on_data(text)
                return
            self._refuse_inits(f"init data of session {len(self._inits)} is incomplete")
        handler = self._handlers.get(line.type)
        if handler is not None:
            handler(line)
        else:
            self._on_data(text)

    def _on_run(self, line: ParsedLine) -> None:
        name = line.text.partition(" ")[0]
        map_name = self._experiments.find(name)
        event = ControlEvent.UNKNOWN if map_name is None else ControlEvent.RUN
        if not self._control.allows(event):
            self._warn(f"run {name!r} is not possible while {self._control.state.value}")
            return
        self._control.on(event)
        self._map_name = map_name or ""
        self._inits = []
        if map_name is None:
            self._send(error_line(f'Experiment name "{name}" was not recognized.'))
        else:
            self._send("SUCCESS")

    def _on_data(self, text: str) -> None:
        if self._control.state is ControlState.SKIPPING:
            return
        if self._control.state is not ControlState.INIT:
            self._warn(f"{text[:80]!r} is not understood while {self._control.state.value}")
            return
        try:
            self._inits += self._objects.feed(text)
        except ValueError as error:
            self._refuse_inits(f"init data of session {len(self._inits)}: {error}")

    def _refuse_inits(self, reason: str) -> None:
        self._control.on(ControlEvent.BROKEN)
        self._objects = ObjectCollector()
        self._send(error_line(reason))

    def _on_end(self, line: ParsedLine) -> None:
        if not self._control.allows(ControlEvent.END):
            self._warn(f"END is not possible while {self._control.state.value}")
            return
        self._control.on(ControlEvent.END)
        if self._control.state is ControlState.RUNNING:
            self._run = Run(self._experiments, self._map_name, self._inits, self._rules, self._send, self._warn)

    def _on_command(self, line: ParsedLine) -> None:
        if self._run is not None:
            self._run.command(line.session, line.text)
        elif self._control.state is not ControlState.SKIPPING:
            self._warn(f"a command for session {line.session} while {self._control.state.value}; it is dropped")

    def _on_set(self, line: ParsedLine) -> None:
        """Change a rule for the next run."""
        name, _, value = line.text.partition(" ")
        try:
            self._rules = changed(self._rules, name, value.strip())
        except ValueError as error:
            self._warn(f"set {line.text}: {error}")

    def _on_quit(self, line: ParsedLine) -> None:
        self._control.on(ControlEvent.QUIT)
        self._send("QUIT")
        self._is_over = True

    def _on_warning(self, line: ParsedLine) -> None:
        _log.warning("pipe: %s warns: %s", self._connection.peer, line.text)

    def _on_error(self, line: ParsedLine) -> None:
        """An error of the client's ends the conversation, as it does in a Unity scene."""
        _log.error("pipe: %s reports an error: %s", self._connection.peer, line.text)
        self._is_over = True

    def _send(self, line: str) -> None:
        self._out.append(line)

    def _warn(self, text: str) -> None:
        self._send(warning_line(text))

    def _flush(self) -> None:
        if self._out:
            self._out.append("")
            data = FROM_ENGINE_END.join(self._out).encode()
            self._out.clear()
            self._connection.send(data, Deadline(self._send_timeout_s))
