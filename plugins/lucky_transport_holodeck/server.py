"""The engine's end: lets a Holodeck client drive a host as a Holodeck world."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, one_of, read_options
from lucky_transport.host.host import Host
from lucky_transport.serving import Server
from lucky_transport.uninterrupted import start_thread
from lucky_transport_holodeck.foreign_client import ForeignClient
from lucky_transport_holodeck.handshake import EngineHandshake
from lucky_transport_holodeck.names import Names

_log = logging.getLogger("lucky_transport")
#: How often the server looks whether a client came, left or died, beside when files show it; no wait is longer.
_SLICE_S = 1.0


def server(endpoint: Endpoint, settings: Settings) -> HolodeckServer:
    """Return a server for the uuid in `holodeck://UUID`; raises ConfigError for options it does not know."""
    read_options(endpoint, {"for": EndpointOption(one_of("client"), "client")}, backend="holodeck")
    return HolodeckServer(endpoint, settings)


class HolodeckServer(Server):
    """Serves one client after another.

    `?for=client` serves only one, which started this engine: when it has left, nothing is made anew, because that
    client ends the engine by SIGKILL.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._names = Names(endpoint.address)
        self._serves_one = endpoint.option("for") == "client"
        self._threads: list[threading.Thread] = []
        self._stopping = False
        self._logged = ""

    def start(self, host: Host) -> Endpoint:
        """Raises Busy when another engine has the uuid."""
        with contextlib.ExitStack() as undo:
            self._handshake = EngineHandshake(self._names, self._settings.wait)
            undo.callback(self._handshake.close)
            self._client = ForeignClient(host, self._names, self._handshake, serves_one=self._serves_one)
            undo.callback(self._client.changes.close)
            self._handshake.post_loading()
            undo.callback(self._end, 1.0)  # before the start: that may be interrupted once the thread runs
            for what, run in (("server", self._run), ("watch", self._watch)):
                thread = threading.Thread(target=run, name=f"holodeck {what} {self._names.uuid}", daemon=True)
                self._threads.append(thread)
                start_thread(thread)
            undo.pop_all()
        return self._endpoint

    def _run(self) -> None:
        try:
            while not self._stopping:
                is_asked = self._handshake.wait(_SLICE_S)
                if not self._stopping:
                    self._guarded(self._tick if is_asked else self._client.poll)
        except BaseException:
            _log.exception("the server of %s broke; it closes", self._endpoint)

    def _watch(self) -> None:
        while not self._stopping:
            if self._client.changes.wait():
                self._handshake.knock()

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do what a client asks for: where that fails, which is logged once, the server goes on."""
        try:
            work()
        except BaseException as error:
            if self._logged != (text := f"{type(error).__name__}: {error}"):
                self._logged = text
                _log.exception("the server of %s goes on without what a client asked for", self._endpoint)

    def _tick(self) -> None:
        try:
            if not self._handshake.is_first():
                self._client.tick()
        finally:
            self._handshake.post()  # whatever went wrong: the client waits for it

    def _end(self, patience_s: float) -> None:
        self._stopping = True
        self._client.changes.end()
        self._handshake.knock()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(patience_s)

    def stop(self, grace_s: float = 1.0) -> None:
        if not self._threads:
            return
        self._end(max(grace_s, 0.2))
        threads, self._threads = self._threads, []
        if any(thread.is_alive() for thread in threads):
            _log.warning("the engine of %s is still in a step after %s s; it is left to exit", self._endpoint, grace_s)
            self._client.remove_blocks()
            self._handshake.remove_names()
            return
        self._client.close()
        self._handshake.close()
