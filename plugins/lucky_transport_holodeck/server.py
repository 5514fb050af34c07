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

__all__ = ["HolodeckServer", "server"]

_log = logging.getLogger("lucky_transport")
#: How often the server looks whether a client came, left or died; no wait is longer.
_SLICE_S = 0.05


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
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._logged = ""

    def start(self, host: Host) -> Endpoint:
        """Raises Busy when another engine has the uuid."""
        with contextlib.ExitStack() as undo:
            self._handshake = EngineHandshake(self._names, self._settings.wait)
            undo.callback(self._handshake.close)
            self._client = ForeignClient(host, self._names, self._handshake, serves_one=self._serves_one)
            self._handshake.post_loading()
            thread = threading.Thread(target=self._run, name=f"holodeck server {self._names.uuid}", daemon=True)
            undo.callback(self._end, thread, 1.0)  # before the start: that may be interrupted once the thread runs
            start_thread(thread)
            undo.pop_all()
        self._thread = thread
        return self._endpoint

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._guarded(self._tick if self._handshake.wait(_SLICE_S) else self._client.poll)
        except BaseException:
            _log.exception("the server of %s broke; it closes", self._endpoint)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do what a client asks for: where that fails, which is logged once, the server goes on."""
        try:
            work()
        except BaseException as error:
            if self._logged != (text := f"{type(error).__name__}: {error}"):
                self._logged = text
                _log.exception("the server of %s goes on without what a client asked for", self._endpoint)

    def _tick(self) -> None:
        if self._stopping:
            return
        try:
            if not self._handshake.is_first():
                self._client.tick()
        finally:
            self._handshake.post()  # whatever went wrong: the client waits for it

    def _end(self, thread: threading.Thread, patience_s: float) -> None:
        self._stopping = True
        self._handshake.wake()
        if thread.is_alive():
            thread.join(patience_s)

    def stop(self, grace_s: float = 1.0) -> None:
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        self._end(thread, max(grace_s, 0.2))
        if thread.is_alive():
            _log.warning("the engine of %s is still in a step after %s s; it is left to exit", self._endpoint, grace_s)
            self._client.remove_blocks()
            self._handshake.remove_names()
            return
        self._client.close()
        self._handshake.close()
