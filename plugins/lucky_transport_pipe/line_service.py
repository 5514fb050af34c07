"""What an engine answers to the lines of one client.

    LineService(experiments, rules, duplex, send_timeout_s).serve()

What may follow what is in `lucky_transport_pipe.control`; a line that has no place there is warned of, and the next one
is read as if it had not come. No line makes this side deaf. Everything that came is looked at before anything is
stepped, and all answers leave in one piece. Init data is kept as it comes; worlds are made when a slot is free for
them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import EngineFailed, PeerTimeout
from lucky_transport_pipe.control import ENGINE, Control, ControlEvent, ControlState
from lucky_transport_pipe.duplex import Duplex
from lucky_transport_pipe.experiments import Experiments
from lucky_transport_pipe.lines import (
    EXTENSION,
    FROM_ENGINE_END,
    LineCutter,
    MessageType,
    ParsedLine,
    error_line,
    parse_from_client,
    warning_line,
)
from lucky_transport_pipe.objects import ObjectCollector
from lucky_transport_pipe.rules import SessionRules, changed
from lucky_transport_pipe.run import Run

__all__ = ["LineService"]

_log = logging.getLogger("lucky_transport")
_LONGEST_WAIT_S = 3600.0


class LineService:
    """Serves one client. `experiments` None: an engine that has none, only the extension."""

    def __init__(
        self, experiments: Experiments | None, rules: SessionRules, duplex: Duplex, send_timeout_s: float
    ) -> None:
        self._experiments = experiments
        self._rules = rules
        self._duplex = duplex
        self._send_timeout_s = send_timeout_s
        self._control = Control(ENGINE)
        self._cutter = LineCutter()
        self._objects = ObjectCollector()
        self._inits: list[Mapping[str, Any]] = []
        self._map_name = ""
        self._run: Run | None = None
        self._out: list[str] = []
        self._is_over = False
        self._wants_records = False
        self._on_word: dict[MessageType, Callable[[ParsedLine], None]] = {
            MessageType.RUN: self._on_run,
            MessageType.SET: self._on_set,
            MessageType.QUIT: self._on_quit,
            MessageType.END: self._on_end,
            MessageType.COMMAND: self._on_command,
            MessageType.WARNING: self._on_warning,
            MessageType.ERROR: self._on_error,
        }

    def serve(self) -> bool:
        """Answer until the client quits; True when it wants records instead of lines from now on.

        Raises PeerDied, PeerTimeout, ClosedError, RemoteProtocolError.
        """
        try:
            while not self._is_over:
                self._go_on()
                self._flush()
                self._read()
            self._flush()
            return self._wants_records
        finally:
            self._drop_run()

    def _go_on(self) -> None:
        """Do what can be done of the run, if there is one."""
        run = self._run
        if run is None:
            return
        try:
            run.go_on()
        except EngineFailed as error:
            _log.warning("pipe: %s", error)
            self._say(error_line(str(error)))
            self._finish(ControlEvent.FAILED)
        else:
            if run.is_over:
                self._say("END")
                self._finish(ControlEvent.OVER)

    def _finish(self, event: ControlEvent) -> None:
        self._drop_run()
        self._control.on(event)

    def _drop_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _read(self) -> None:
        """Take in what the client says next; returns without any when a session has lost its patience."""
        wait_s = _LONGEST_WAIT_S
        if self._run is not None and self._run.wake_at != math.inf:
            wait_s = max(0.0, self._run.wake_at - time.monotonic())
        try:
            data = self._duplex.receive(Deadline(wait_s))
        except PeerTimeout:
            return
        for line in self._cutter.feed(data):
            self._on_line(line)
            if self._is_over:
                return

    def _on_line(self, line: str) -> None:
        said = parse_from_client(line)
        if self._objects.is_open:
            if said.word in (
                MessageType.OTHER,
                MessageType.COMMAND,
            ):  # whatever it looks like, it is the rest of an object
                self._on_data(line)
                return
            self._spoil(f"init data of session {len(self._inits)} is incomplete")
        handler = self._on_word.get(said.word)
        if handler is not None:
            handler(said)
        else:
            self._on_data(line)

    def _on_run(self, said: ParsedLine) -> None:
        name = said.text.partition(" ")[0]
        if name == EXTENSION and self._control.state is ControlState.IDLE:
            self._say("SUCCESS")
            self._is_over = self._wants_records = True
            return
        map_name = None if self._experiments is None else self._experiments.find(name)
        event = ControlEvent.UNKNOWN if map_name is None else ControlEvent.RUN
        if not self._control.allows(event):
            self._warn(f"run {name!r} is not possible while {self._control.state.value}")
            return
        self._control.on(event)
        self._map_name = map_name or ""
        self._inits = []
        if map_name is None:
            self._say(error_line(f'Experiment name "{name}" was not recognized.'))
        else:
            self._say("SUCCESS")

    def _on_data(self, line: str) -> None:
        if self._control.state is ControlState.SPOILT:
            return
        if self._control.state is not ControlState.INIT:
            self._warn(f"{line[:80]!r} is not understood while {self._control.state.value}")
            return
        try:
            self._inits += self._objects.feed(line)
        except ValueError as error:
            self._spoil(f"init data of session {len(self._inits)}: {error}")

    def _spoil(self, text: str) -> None:
        self._control.on(ControlEvent.BROKEN)
        self._objects = ObjectCollector()
        self._say(error_line(text))

    def _on_end(self, said: ParsedLine) -> None:
        if not self._control.allows(ControlEvent.END):
            self._warn(f"END is not possible while {self._control.state.value}")
            return
        self._control.on(ControlEvent.END)
        if self._control.state is ControlState.RUNNING:
            assert self._experiments is not None  # or the experiment had not been known
            self._run = Run(self._experiments, self._map_name, self._inits, self._rules, self._say, self._warn)

    def _on_command(self, said: ParsedLine) -> None:
        if self._run is not None:
            self._run.command(said.session, said.text)
        elif self._control.state is not ControlState.SPOILT:
            self._warn(f"a command for session {said.session} while {self._control.state.value}; it is dropped")

    def _on_set(self, said: ParsedLine) -> None:
        """Change a rule for the next run."""
        name, _, value = said.text.partition(" ")
        try:
            self._rules = changed(self._rules, name, value.strip())
        except ValueError as error:
            self._warn(f"set {said.text}: {error}")

    def _on_quit(self, said: ParsedLine) -> None:
        self._control.on(ControlEvent.QUIT)
        self._say("QUIT")
        self._is_over = True

    def _on_warning(self, said: ParsedLine) -> None:
        _log.warning("pipe: %s warns: %s", self._duplex.peer, said.text)

    def _on_error(self, said: ParsedLine) -> None:
        """An error of the client's ends the conversation, as it does in a Unity scene."""
        _log.error("pipe: %s reports an error: %s", self._duplex.peer, said.text)
        self._is_over = True

    def _say(self, line: str) -> None:
        self._out.append(line)

    def _warn(self, text: str) -> None:
        self._say(warning_line(text))

    def _flush(self) -> None:
        if self._out:
            self._out.append("")
            data = FROM_ENGINE_END.join(self._out).encode()
            self._out.clear()
            self._duplex.send(data, Deadline(self._send_timeout_s))
