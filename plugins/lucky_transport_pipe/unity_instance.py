r"""The names that training programs for Unity scenes use: a line at a time.

    u_instance = UnityInstance(r"\\.\pipe\train", {"simulator_path": "./Training.x86_64", "simulator_args": [...]})
    u_instance.run_experiment("cart_pole")
    u_instance.send_session_initialization_data(texts)
    u_instance.end_send_session_initialization_data()
    while (line := u_instance.read_line()) is not None: ...     # "3", "3 {...}" or "3 12.5"
        u_instance.write_line('3 {"MoveRight":true}')
        u_instance.flush()

Rule 1: a line has neither its end nor anything left over from another one; None is the end of the run.
Rule 2: an error that the engine reports is raised by the call that waits; nothing blocks for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lucky_transport.deadline import Deadline
from lucky_transport.errors import LocalProtocolError
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.experiment import json_word
from lucky_transport_pipe.instance import Instance

__all__ = ["UnityInstance"]


class UnityInstance(Instance):
    """An `Instance` under the other names. `executable_args`: "simulator_path" and "simulator_args", which hold
    `-p NAME` and whatever else the program takes; None waits for an editor.
    """

    def __init__(
        self,
        pipe_path_and_name: str,
        executable_args: Mapping[str, Any] | None = None,
        *,
        connect_timeout_s: float = 60.0,
        timeout_s: float = 10.0,
    ) -> None:
        arguments = executable_args or {}
        path = arguments.get("simulator_path")
        command = [str(path), *map(str, arguments.get("simulator_args", ()))] if path else []
        super().__init__(
            pipe_path_and_name,
            command,
            connect_timeout_s=connect_timeout_s,
            timeout_s=timeout_s,
            adds_arguments=False,
        )

    def run_experiment(self, name: str) -> None:
        """Start a run; its sessions are to follow. Raises UnknownName, LocalProtocolError, PeerTimeout, PeerDied."""
        self._conversation.start(name, Deadline(self._timeout_s))

    def send_session_initialization_data(self, sessions: Iterable[Any]) -> None:
        """Add a session for each element: a JSON text, plain JSON data or a message. Raises ValueError."""
        for session in sessions:
            self._conversation.give(json_word(session), 1)

    def end_send_session_initialization_data(self) -> None:
        """Say that there are no more sessions: they start."""
        self._conversation.begin()

    def read_line(self, timeout_s: float | None = None) -> str | None:
        """Return the next line of any session, None once all have ended. Raises EngineFailed, PeerTimeout, PeerDied."""
        run = self._conversation.run
        if run is None:
            raise LocalProtocolError("no experiment was run", backend=BACKEND, hint="call run_experiment first")
        said = self._conversation.news(run, run.lines.take_any, self._timeout_s if timeout_s is None else timeout_s)
        if said is None:
            return None
        return f"{said.session} {said.text}" if said.text else str(said.session)

    def write_line(self, line: str) -> None:
        """Keep a line to be sent by `flush`, or when `read_line` waits."""
        text = line.strip()
        if "\n" in text or "\r" in text:
            raise ValueError(f"a line holds no line break: {line!r}")
        self._conversation.write(text)

    def flush(self) -> None:
        """Have the engine get what was written; it does not wait until the engine has read it."""
        self._conversation.flush()

    #: Other names that are in use for the same.
    end_send_initialization_data = end_send_session_initialization_data
    flush_pipe = flush
    close_pipe = Instance.close
