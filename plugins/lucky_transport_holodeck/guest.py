"""The client that knows nothing of us: whether one is there, which one, and what it drives.

It never says hello or goodbye. What tells of it:

    it makes the command block anew             a client has come (one that has died may have left the old block)
    its process, found by that block, ends      it has died
    the semaphores' names are gone              it has left in order

A new client finds its semaphore posted, however the last one left; one post too many does no harm (see
`lucky_transport_holodeck.turns`), one too few would let it wait without end.
"""

from __future__ import annotations

import logging
import os

from lucky_transport.host.host import Host
from lucky_transport.shm.liveness import Peer
from lucky_transport_holodeck.blocks import BlockFiles
from lucky_transport_holodeck.hosted_world import HostedWorld
from lucky_transport_holodeck.names import COMMAND_BUFFER, Names
from lucky_transport_holodeck.sharers import find_peer
from lucky_transport_holodeck.turns import EngineTurns

__all__ = ["Guest"]

_log = logging.getLogger("lucky_transport")


class Guest:
    """One host's guests, one after the other. `stays`: False for an engine that a client started, for itself alone."""

    def __init__(self, host: Host, names: Names, turns: EngineTurns, *, stays: bool) -> None:
        self._host = host
        self._names = names
        self._turns = turns
        self._stays = stays
        self._files = BlockFiles(names)
        self._command_path = names.block(COMMAND_BUFFER)
        self._world: HostedWorld | None = None
        self._peer: Peer | None = None
        self._made_ns = self._made_now()
        self._turn_lay_there = False

    @property
    def is_there(self) -> bool:
        """True while a guest drives."""
        return self._world is not None

    @property
    def pid(self) -> int:
        """The guest's process, 0 when there is none or it cannot be seen."""
        return self._peer.pid if self._peer is not None else 0

    def tick(self) -> None:
        """Do what the guest's tick asks for."""
        world = self._world
        if world is None or world.made_ns != self._made_ns:
            world = self._welcome()
        world.tick()
        self._turn_lay_there = False

    def _welcome(self) -> HostedWorld:
        self.leave()
        self._peer = find_peer(self._command_path)
        owner = f"Holodeck client of pid {self.pid or 'unknown'}"
        self._world = HostedWorld(self._host, self._files, owner)
        self._made_ns = self._world.made_ns
        return self._world

    def leave(self) -> None:
        """Let go of what the guest drove; no effect when there is none."""
        world, self._world = self._world, None
        if world is not None:
            world.close()
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()

    def look_after(self) -> None:
        """While no turn comes: notice who left, died or came."""
        lay_there, self._turn_lay_there = self._turn_lay_there, self._turns.lies_there
        if self._turns.were_removed:
            self.leave()
            if self._stays:
                self._turns.renew()
            return
        if self._peer is not None and not self._peer.alive:
            _log.warning("the Holodeck client of pid %d ended without a goodbye", self._peer.pid)
            self.leave()
            self._turns.offer()
        made_ns = self._made_now()
        if made_ns != self._made_ns:
            self._made_ns = made_ns
            self.leave()
            if made_ns and not lay_there:
                self._turns.offer()

    def _made_now(self) -> int:
        try:
            return os.stat(self._command_path).st_ctime_ns
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Stop driving and remove the blocks of all guests."""
        self.leave()
        self.remove_blocks()

    def remove_blocks(self) -> None:
        """Remove the blocks; processes that have them mapped keep them."""
        self._files.unlink()
