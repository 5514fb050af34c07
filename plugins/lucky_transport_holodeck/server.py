"""The engine's end: lets a Holodeck client, theirs or ours, drive a host.

One thread takes the engine's turn, does what the client asks for and gives the turn back, whatever went wrong. Whether
a client is there is looked at while no turn comes, every `_SLICE_S`; no wait is longer. `?for=client` is an engine that
a client started for itself: nothing of ours lies beside, because that client ends it by SIGKILL, and nothing is made
anew once that client has left.
"""

from __future__ import annotations

import logging
import threading

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError
from lucky_transport.host.host import Host
from lucky_transport.serving import Server
from lucky_transport_holodeck.batch_seat import BatchSeat
from lucky_transport_holodeck.guest import Guest
from lucky_transport_holodeck.names import Names
from lucky_transport_holodeck.turns import EngineTurns

__all__ = ["HolodeckServer", "server"]

_log = logging.getLogger("lucky_transport")
_SLICE_S = 0.05


def server(endpoint: Endpoint, settings: Settings) -> HolodeckServer:
    """Return a server for the uuid in `holodeck://UUID`; raises ConfigError for options it does not know."""
    purpose = endpoint.option("for")
    unknown = {key for key, _ in endpoint.options} - {"for"}
    if unknown or purpose not in ("", "client"):
        raise ConfigError(
            f"endpoint {endpoint}: options of a Holodeck engine",
            backend="holodeck",
            hint="the only one is ?for=client (see the plugin's README)",
        )
    return HolodeckServer(endpoint, settings)


class HolodeckServer(Server):
    """Serves one client at a time."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._names = Names(endpoint.address)
        self._is_for_one = endpoint.option("for") == "client"
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self, host: Host) -> Endpoint:
        """Raises Busy when another engine has the uuid, NoSpace."""
        self._seat = None if self._is_for_one else BatchSeat(host, self._names, self._settings)
        try:
            self._turns = EngineTurns(self._names, self._settings.wait)
        except BaseException:
            if self._seat is not None:
                self._seat.close(0.0)
            raise
        self._guest = Guest(host, self._names, self._turns, stays=not self._is_for_one)
        name = f"holodeck server {self._names.uuid}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._turns.announce()
        return self._endpoint

    def _run(self) -> None:
        """Serve until `stop`; a bug of ours ends the server, not the client's patience."""
        try:
            while not self._stopping:
                if self._turns.take(_SLICE_S):
                    self._tick()
                else:
                    self._look_after()
        except Exception:
            _log.exception("the server of %s broke; it closes", self._endpoint)
            if self._seat is not None:
                self._seat.announce_end()

    def _tick(self) -> None:
        if self._stopping:
            return
        try:
            if self._turns.is_first():
                return
            if self._seat is not None and self._seat.is_taken:
                self._guest.leave()  # its turn lay there, so it has left
                self._seat.tick()
            else:
                self._guest.tick()
        finally:
            self._turns.give()

    def _look_after(self) -> None:
        if self._seat is not None and self._seat.is_taken:
            self._seat.look_after(self._turns)
        else:
            self._guest.look_after()

    def stop(self, grace_s: float = 1.0) -> None:
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        if self._seat is not None:
            self._seat.announce_end()
        self._stopping = True
        self._turns.wake()
        thread.join(max(grace_s, 0.2))
        if thread.is_alive():
            _log.warning("the engine of %s is still in a step after %s s; it is left to exit", self._endpoint, grace_s)
            self._abandon()
            return
        if self._seat is not None and self._seat.close(max(grace_s, 0.2)):
            self._turns.offer()
        self._guest.close()
        self._turns.close()

    def _abandon(self) -> None:
        if self._seat is not None:
            self._seat.abandon()
        self._guest.remove_blocks()
        self._turns.remove_names()
