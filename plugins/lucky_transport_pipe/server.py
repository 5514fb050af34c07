"""The engine's end: it comes to the pipe that a client offers, and to the next client's when that one has gone.

One client at a time; the engine goes on from where the last one left it. Whatever a client does ends its own connection
at most.
"""

from __future__ import annotations

import logging
import threading

from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ClosedError, PeerDied, TransportError
from lucky_transport.host.dispatch import Dispatcher
from lucky_transport.host.host import Host
from lucky_transport.process import unique_name
from lucky_transport.serving import Server
from lucky_transport_pipe.address import path_of
from lucky_transport_pipe.attaching import remove_left_over, try_attach
from lucky_transport_pipe.duplex import SocketDuplex
from lucky_transport_pipe.experiments import Experiments
from lucky_transport_pipe.line_service import LineService
from lucky_transport_pipe.record_pipe import RecordPipe
from lucky_transport_pipe.record_service import RecordService
from lucky_transport_pipe.rules import SessionRules, rules_of

__all__ = ["PipeServer", "server"]

_log = logging.getLogger("lucky_transport")
#: How often an engine looks whether a client offers the pipe.
_LOOK_S = 0.005
_CLOSING_S = 1.0


def server(endpoint: Endpoint, settings: Settings) -> PipeServer:
    """Return a server for `pipe://NAME` (`pipe:`: a name of its own). Raises ConfigError."""
    return PipeServer(endpoint if endpoint.address else endpoint.with_address(unique_name()), settings)


class PipeServer(Server):
    """Lets the clients that offer one pipe drive a host, by lines or by records.

    patience_s: None to serve one client after another without end; else it waits so long for one, and ends with that
    one. clients: how many came so far. ended: set when no more are served.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, *, patience_s: float | None = None) -> None:
        self.clients = 0
        self.ended = threading.Event()
        self._patience_s = patience_s
        self._endpoint = endpoint
        self._settings = settings
        self._path = path_of(endpoint.address)
        self._rules: SessionRules = rules_of(endpoint, settings.step_timeout_s)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._present: SocketDuplex | RecordPipe | None = None
        self._thread: threading.Thread | None = None

    def start(self, host: Host) -> Endpoint:
        self._thread = threading.Thread(target=self._run, args=(host,), name=f"pipe {self._path}", daemon=True)
        self._thread.start()
        return self._endpoint

    def _run(self, host: Host) -> None:
        dispatcher = Dispatcher(host)
        deadline = None if self._patience_s is None else Deadline(self._patience_s)
        try:
            while not self._stopping.wait(_LOOK_S):
                self._look(host, dispatcher)
                if deadline is not None and (self.clients or deadline.expired):
                    break
        except Exception:
            _log.exception("the engine's end of pipe %s broke; no client can connect any more", self._path)
        finally:
            dispatcher.close()
            self.ended.set()

    def _look(self, host: Host, dispatcher: Dispatcher) -> None:
        """Serve the client that offers the pipe, if there is one, until it has gone."""
        try:
            duplex = try_attach(self._path)
            if duplex is None:
                return
            try:
                self._serve(host, dispatcher, duplex)
            finally:
                self._hold(None)
                duplex.close()
                remove_left_over(self._path)
        except (PeerDied, ClosedError) as error:
            _log.debug("pipe %s: %s", self._path, error)
        except (TransportError, OSError) as error:
            _log.warning("pipe %s: %s; the connection is dropped", self._path, error)

    def _serve(self, host: Host, dispatcher: Dispatcher, duplex: SocketDuplex) -> None:
        self._hold(duplex)
        self.clients += 1
        worlds = host.engine.worlds
        experiments = None if worlds is None else Experiments(worlds, host.spec.engine)
        lines = LineService(experiments, self._rules, duplex, self._settings.step_timeout_s)
        if lines.serve():
            pipe = RecordPipe(duplex)
            self._hold(pipe)
            RecordService(host, dispatcher, pipe, self._settings).serve(self._stopping)

    def _hold(self, present: SocketDuplex | RecordPipe | None) -> None:
        """Note what `stop` has to end."""
        with self._lock:
            self._present = present
        if self._stopping.is_set():
            self._end_present()

    def _end_present(self) -> None:
        with self._lock:
            present = self._present
        if isinstance(present, RecordPipe):
            present.interrupt()
        elif present is not None:
            present.close()

    def stop(self, grace_s: float = 1.0) -> None:
        self._stopping.set()
        self._end_present()
        if self._thread is not None:
            self._thread.join(grace_s + _CLOSING_S)
            if self._thread.is_alive():  # the engine hangs in a step: its client finds the pipe closed
                with self._lock:
                    present = self._present
                if present is not None:
                    present.close()
            self._thread = None
