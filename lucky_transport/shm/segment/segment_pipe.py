"""The segment's own two rings as a pipe, with their arenas: the client's end and the engine's end.

The client waits at `park_command`. The engine waits at `park_engine` in its channel, for actions and records together,
so its end has no `wait`.
"""

from __future__ import annotations

import contextlib
from mmap import MADV_REMOVE

from lucky_transport.errors import LocalProtocolError, PeerDied
from lucky_transport.shm.files.liveness import Process
from lucky_transport.shm.files.mapping import Mapping
from lucky_transport.shm.ring_pipe import EndOptions, RingPipe, open_reader, open_writer
from lucky_transport.shm.segment.layout import FIELDS, RING_HEAD_BYTES, Feature
from lucky_transport.shm.segment.segment import Segment
from lucky_transport.shm.timing import PEER_POLL_NS
from lucky_transport.shm.wait import PEER_WAKES

_CLIENT, _ENGINE = FIELDS["park_command"].offset, FIELDS["park_engine"].offset


class SegmentPipe(RingPipe):
    """One end of a segment's rings. Made by `client_end` and `engine_end`."""

    def __init__(
        self,
        segment: Segment,
        peer: str,
        process: Process | None,
        *,
        engine: bool,
        strategy: int,
        peer_bits: int,
    ) -> None:
        mine, theirs = (_ENGINE, _CLIENT) if engine else (_CLIENT, _ENGINE)
        inward, outward = ("ring_c2s", "ring_s2c") if engine else ("ring_s2c", "ring_c2s")
        layout = segment.layout
        arenas = (layout.arena_offset, layout.arena_offset + layout.arena_bytes)
        from_arena, to_arena = arenas if engine else arenas[::-1]
        common: EndOptions = {"strategy": strategy, "peer": peer_bits, "empty": engine}
        to_peer: EndOptions = {**common, "park": theirs, "arena": to_arena, "arena_bytes": layout.arena_bytes}
        to_me: EndOptions = {**common, "park": mine, "arena": from_arena, "arena_bytes": layout.arena_bytes}
        self._with_arena = (segment, outward, to_peer) if engine and layout.arena_bytes else None
        if self._with_arena:
            to_peer = {**common, "park": theirs}
        writer = open_writer(*_place(segment, outward), **to_peer)
        reader = open_reader(*_place(segment, inward), **to_me)
        super().__init__(f"the pipe to {peer} at {segment.path}", peer, writer, reader)
        self._process = process
        self._mapping: Mapping | None = segment.mapping
        self._waits = not engine

    @classmethod
    def client_end(cls, segment: Segment, engine: Process, *, strategy: int, peer_bits: int) -> SegmentPipe:
        """Return the client's end. `engine`: its process, which stays the caller's. `peer_bits`: PEER_* of the engine.

        Raises RemoteProtocolError when the rings hold what no peer may have left there.
        """
        peer = f"the engine ({engine.name})"
        return cls(segment, peer, engine, engine=False, strategy=strategy, peer_bits=peer_bits)

    @classmethod
    def engine_end(
        cls,
        segment: Segment,
        *,
        strategy: int,
        peer_bits: int = PEER_WAKES,
        client: str = "",
    ) -> SegmentPipe:
        """Return the engine's end, with both rings emptied and no memory in the arenas; no client may be using them.

        It does not look whether the client lives: the engine's loop does, and closes it then.
        """
        layout = segment.layout
        if layout.arena_bytes:
            with contextlib.suppress(OSError):  # it is cut
                segment.mapping.madvise(MADV_REMOVE, layout.arena_offset, 2 * layout.arena_bytes)
        peer = client or f"the client of {segment.path}"
        return cls(segment, peer, None, engine=True, strategy=strategy, peer_bits=peer_bits)

    def know_client(self, features: int) -> None:
        """At the engine's end: put long messages beside the ring if the client that has come knows arenas."""
        if self._with_arena and features & Feature.ARENAS and not self._writer.position:
            segment, ring, options = self._with_arena
            self._with_arena = None
            self.use(open_writer(*_place(segment, ring), **options), self.reader)

    def wait(self, timeout_ns: int, oversubscribed: bool = False) -> bool:
        """Wait for a record; see `Pipe.wait`. Raises LocalProtocolError at the engine's end."""
        if not self._waits:
            raise LocalProtocolError("the engine's end of a segment waits in its channel, not in its pipe")
        if self.reader.ready() and not self._guard.closed:
            return True
        skip_spin = self._writer.woke_reader()
        while True:
            with self._guard:
                result = self.reader.wait(min(timeout_ns, PEER_POLL_NS), oversubscribed, skip_spin)
            timeout_ns -= PEER_POLL_NS
            if result == 1:
                return True
            try:
                self.check_peer()
            except PeerDied:
                if self.reader.ready():  # published before it died
                    return True
                raise
            if result == 0 or timeout_ns <= 0:
                return False
            skip_spin = True

    def check_peer(self) -> None:
        with self._guard:
            if self._process is not None and not self._process.alive:
                raise PeerDied(
                    f"the process of {self.peer} ended", backend="shm", hint="start the engine and connect again"
                )
            if self._mapping is not None:
                self._mapping.check()

    def interrupt(self) -> None:
        """Make the present `wait` of another thread, or the next one, return."""
        self.reader.interrupt()

    def fileno(self) -> int:
        """Return -1: a segment is waited for at a word of its memory, not at a descriptor."""
        return -1

    def expect(self) -> bool:
        """Return False: nothing is armed."""
        return False

    def look(self, longest_ns: int) -> None:
        """Return at once: nothing is armed."""

    def arm(self, expects: bool = False) -> bool:
        """Raise LocalProtocolError: there is no descriptor to watch."""
        raise LocalProtocolError("a segment's pipe has no descriptor to watch; connect one at the listener")

    def _end_wait(self) -> None:
        if self._waits:
            self.reader.interrupt()

    def _let_go(self) -> None:
        super()._let_go()
        self._mapping = self._process = self._with_arena = None


def _place(segment: Segment, ring: str) -> tuple[Mapping, int, int]:
    """Return where a ring lies: its memory, its first byte, and how many bytes of data it has."""
    region = segment.layout[ring]
    return segment.mapping, region.offset, region.size - RING_HEAD_BYTES
