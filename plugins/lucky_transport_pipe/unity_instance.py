r"""The names that training programs for Unity scenes use: a line at a time.

    u_instance = UnityInstance(r"\\.\pipe\train", {"simulator_path": "./Training.x86_64", "simulator_args": [...]})
    u_instance.run_experiment("cart_pole")
    u_instance.send_session_initialization_data(texts)
    u_instance.end_send_session_initialization_data()
    while (line := u_instance.read_line()) is not None: ...     # "3", "3 {...}" or "3 12.5"
        u_instance.write_line('3 {"MoveRight":true}')
        u_instance.flush()

None is the end of the run.
"""

from __future__ import annotations

import difflib
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, cast

from lucky_transport.deadline import Deadline
from lucky_transport.errors import ConfigError, LocalProtocolError
from lucky_transport_pipe.address import BACKEND
from lucky_transport_pipe.control import ControlState
from lucky_transport_pipe.experiment import json_word
from lucky_transport_pipe.instance import Instance
from lucky_transport_pipe.json_codec import ObjectCollector, compact

_log = logging.getLogger("lucky_transport")
_KEYWORDS = ("no_timeout", "connect_timeout_s", "timeout_s")


class UnityInstance(Instance):
    """An `Instance` under the other names.

    executable_args: "simulator_path" and "simulator_args", which hold `-p NAME` and whatever else the program takes;
    None waits for an editor. no_timeout: every wait but that of `quit` lasts until the engine answers or has gone.
    Any other keyword is taken and has no effect, as in the original; the log names it.
    """

    def __init__(
        self,
        pipe_path_and_name: str,
        executable_args: Mapping[str, Any] | None = None,
        *,
        no_timeout: bool = False,
        connect_timeout_s: float = 60.0,
        timeout_s: float = 10.0,
        **others: Any,
    ) -> None:
        for keyword in others:
            near = difflib.get_close_matches(keyword, _KEYWORDS, n=1)
            guess = f"; did you mean {near[0]}?" if near else ""
            _log.warning("UnityInstance: the keyword %s has no effect%s", keyword, guess)
        arguments = executable_args or {}
        path = arguments.get("simulator_path")
        command = [str(path), *map(str, arguments.get("simulator_args", ()))] if path else []
        super().__init__(
            pipe_path_and_name,
            command,
            connect_timeout_s=math.inf if no_timeout else connect_timeout_s,
            timeout_s=math.inf if no_timeout else timeout_s,
            adds_arguments=False,
        )

    def set_property(self, property_name: str, value: Any) -> None:
        """Change a setting of the engine; see `set`. Raises LocalProtocolError while an experiment runs."""
        if self._conversation.control.state is not ControlState.IDLE:
            raise LocalProtocolError(
                f"set_property({property_name!r}) while {self._conversation.control.state.value}",
                backend=BACKEND,
                hint="set it before run_experiment",
            )
        self.set(property_name, value)

    def run_experiment(self, experiment_name: str) -> None:
        """Start a run; its sessions are to follow. Raises UnknownName, LocalProtocolError, PeerTimeout, PeerDied."""
        self._conversation.start(experiment_name, Deadline(self._timeout_s))

    def send_session_initialization_data(self, session_init_data: Any) -> None:
        """Add a session for each JSON object in `session_init_data`: one text or many, plain JSON data, or messages.

        A text may hold several objects, and an object may be cut into several texts. Raises ValueError or TypeError for
        what is no JSON object, before anything is sent.
        """
        for line in _objects(session_init_data):
            self._conversation.send_init(line)

    def end_send_session_initialization_data(self) -> None:
        """Tell the engine that there are no more sessions: they start."""
        self._conversation.end_inits()

    def read_line(self, timeout_s: float | None = None) -> str | None:
        """Return the next line of any session, None once all have ended. Raises EngineFailed, PeerTimeout, PeerDied."""
        run = self._conversation.run
        if run is None:
            raise LocalProtocolError("no experiment was run", backend=BACKEND, hint="call run_experiment first")
        line = self._conversation.next_line(run, run.take_any, self._timeout_s if timeout_s is None else timeout_s)
        if line is None:
            return None
        return f"{line.session} {line.text}" if line.text else str(line.session)

    def write_line(self, to_write: str) -> None:
        """Keep a line to be sent by `flush`, or when `read_line` waits."""
        text = to_write.strip()
        if "\n" in text or "\r" in text:
            raise ConfigError(f"a line holds no line break: {to_write!r}")
        self._conversation.write(text)

    def flush(self) -> None:
        """Have the engine get what was written; it does not wait until the engine has read it."""
        self._conversation.flush()

    #: Other names that are in use for the same.
    end_send_initialization_data = end_send_session_initialization_data
    flush_pipe = flush
    close_pipe = Instance.close


def _objects(data: Any) -> list[str]:
    """Return the JSON objects in `data`, each as one line. Raises ValueError, TypeError."""
    if isinstance(data, (str, Mapping)) or (is_dataclass(data) and not isinstance(data, type)):
        data = [data]
    elif not isinstance(data, Iterable):
        raise TypeError(f"init data {data!r}: expected JSON texts, dicts or messages")
    collector, lines = ObjectCollector(), list[str]()
    for part in cast("Iterable[Any]", data):
        if isinstance(part, str):
            lines += map(compact, collector.feed(part))
        elif isinstance(part, Mapping) or is_dataclass(part):
            lines.append(json_word(part))
        else:
            raise TypeError(f"init data {part!r}: expected a JSON text, a dict or a message")
    if collector.is_open:
        raise ValueError("init data ends within an object")
    return lines
