"""The engine's end: lets Holodeck clients drive a host as a Holodeck world, one after the other."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, one_of, read_options
from lucky_transport.host.host import Host
from lucky_transport.serving import Server
from lucky_transport.shm.files.file_watch import FileWatch
from lucky_transport.shm.files.liveness import Peer
from lucky_transport.uninterrupted import start_thread
from lucky_transport_holodeck.blocks import BlockFiles
from lucky_transport_holodeck.handshake import EngineHandshake
from lucky_transport_holodeck.hosted_world import HostedWorld
from lucky_transport_holodeck.names import COMMAND_BUFFER, Names, find_peer

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


class ForeignClient:
    """One host's clients, one after the other. serves_one: True for an engine that its client started.

    A client does not tell when it comes or goes. What shows it, and makes `changes` return:

        it makes the command block anew             a client has come (one that has died may have left the old block)
        its process, found by that block, ends      it has died
        the semaphores' names are gone              it has left in order
    """

    def __init__(self, host: Host, names: Names, handshake: EngineHandshake, *, serves_one: bool) -> None:
        self._host = host
        self._names = names
        self._handshake = handshake
        self._serves_one = serves_one
        self._files = BlockFiles(names)
        self._command_path = names.block(COMMAND_BUFFER)
        self._world: HostedWorld | None = None
        self._peer: Peer | None = None
        self._made_ns = self._command_block_made_ns()
        self._was_posted = False
        self.changes = FileWatch()
        self._watch()

    def _watch(self) -> None:
        handshake = self._names.server, self._names.client
        for path in (self._command_path, *map(self._names.file_of, handshake)):
            self.changes.add(path)

    def tick(self) -> None:
        """Do what the client's tick asks for."""
        world = self._world
        if world is None or world.made_ns != self._made_ns:
            world = self._connect()
        world.tick()
        self._was_posted = False

    def _connect(self) -> HostedWorld:
        self._disconnect()
        self._peer = find_peer(self._command_path)
        pid = self._peer.pid if self._peer is not None else "unknown"
        self._world = HostedWorld(self._host, self._files, f"Holodeck client of pid {pid}")
        self._made_ns = self._world.made_ns
        self._watch()
        if self._peer is not None:
            self.changes.add_process(self._peer.pidfd)
        return self._world

    def _disconnect(self) -> None:
        """Release what the client drove; no effect when there is none."""
        world, self._world = self._world, None
        if world is not None:
            world.close()
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()

    def poll(self) -> None:
        """While no tick is asked for: notice a client that left, died or came."""
        self._look()
        self._watch()

    def _look(self) -> None:
        was_posted, self._was_posted = self._was_posted, self._handshake.is_client_posted
        if self._handshake.are_names_removed:
            self._disconnect()
            if not self._serves_one:
                self._handshake.renew()
            return
        if self._peer is not None and not self._peer.alive:
            _log.warning("the Holodeck client of pid %d ended without a goodbye", self._peer.pid)
            self._disconnect()
            self._handshake.post_for_next()
        made_ns = self._command_block_made_ns()
        if made_ns != self._made_ns:
            self._made_ns = made_ns
            self._disconnect()
            if made_ns and not was_posted:  # one post too many does no harm, one too few lets the client wait for good
                self._handshake.post_for_next()

    def _command_block_made_ns(self) -> int:
        try:
            return os.stat(self._command_path).st_ctime_ns
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Stop driving and remove the blocks of all clients; no thread may wait for `changes`."""
        self._disconnect()
        self.changes.close()
        self.remove_blocks()

    def remove_blocks(self) -> None:
        """Remove the blocks; processes that have them mapped keep them."""
        self._files.unlink()
