"""The Holodeck client of a served engine: whether one is there, which process it is, and what it drives."""

from __future__ import annotations

import logging
import os

from lucky_transport.host.host import Host
from lucky_transport.shm.files.file_watch import FileWatch
from lucky_transport.shm.files.liveness import Peer
from lucky_transport_holodeck.blocks import BlockFiles
from lucky_transport_holodeck.handshake import EngineHandshake
from lucky_transport_holodeck.hosted_world import HostedWorld
from lucky_transport_holodeck.names import COMMAND_BUFFER, Names, find_peer

_log = logging.getLogger("lucky_transport")


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
