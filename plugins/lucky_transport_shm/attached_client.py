"""The client that steps, as the engine's end knows it: `AttachedClient`, one for each in turn.

It is made before its client comes, so that this finds empty rings, and is closed when it has gone. Where a client
stands, the header's words and its process say:

    client_pid   features   start   process
    0            0                  not known   there is none
    0            set        set     not known   it comes; it is looked after often, as it may die before it wakes us
    set                             lives       it is attached; it drives (`lease`) once it has sent a step
    set                             ended       it has died: gone
    0                               known       it has left: gone
    0            set        0       not known   it came and left between two looks: gone
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from lucky_transport import native
from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ClosedError, PeerDied, SegmentError, TransportError
from lucky_transport.host.dispatch import Dispatcher
from lucky_transport.host.env_steps import EnvSteps
from lucky_transport.host.foreign import InstalledServices
from lucky_transport.host.host import Host, Lease
from lucky_transport.host.slots import ObservationSlots
from lucky_transport.shm.files.liveness import Process
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.channel import channel_offsets, peer_bits
from lucky_transport.shm.segment.env_words import EngineEnvWords
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.segment import Segment, create
from lucky_transport.shm.segment.segment_pipe import SegmentPipe
from lucky_transport.shm.slot_files.image_store import ImageStores
from lucky_transport.shm.timing import LOOP_SLICE_NS, PEER_POLL_NS
from lucky_transport.shm.wait import strategy_code
from lucky_transport_shm.device_server import EngineDevice

_log = logging.getLogger("lucky_transport")
_numbers = itertools.count(1)


class EngineEnd:
    """A segment, and what its clients have in turn. `undo` takes what is to be undone at the end, or where this fails.

    env_words: None where envs only step together. slots: None where there is one.
    """

    def __init__(
        self, endpoint: Endpoint, settings: Settings, host: Host, undo: ExitStack, grace_s: Callable[[], float]
    ) -> None:
        self.endpoint, self.host = endpoint, host
        count, spec = settings.observation_slots, host.spec
        self.strategy = strategy = strategy_code(settings.wait)
        envs_alone = host.parallel_envs > 0 and count == 1
        self.segment = segment = create(endpoint.address, spec, observation_slots=count, envs_alone=envs_alone)
        undo.callback(segment.unlink)
        mapping, layout = segment.mapping, segment.layout
        header.put(mapping, "engine_features", header.get(mapping, "engine_features") | Feature.PARKS)
        self.env_words = EngineEnvWords(segment, strategy) if layout.has_env_words else None
        self.buffers = buffers = [segment.buffers(slot) for slot in range(count)]
        self.channel = channel = native.EngineChannel(
            mapping, channel_offsets(layout, spec.num_envs), strategy=strategy
        )
        self.slots = ObservationSlots(buffers, lambda: (channel.seq + 1) % count) if count > 1 else None
        self.dispatcher = Dispatcher(host, foreign=[InstalledServices(host)])
        undo.callback(lambda: self.dispatcher.close(grace_s()))
        open_images = ImageStores(segment.path, strategy=strategy).open
        limit = settings.max_message_bytes
        self.serve = partial(self.dispatcher.serve, open_images=open_images, max_message_bytes=limit)
        self.device = EngineDevice(segment, host.engine, actions=not host.is_intercepted)
        undo.callback(self.device.close)


class AttachedClient:
    """What the engine has for one client. lease: once it drives; commands_wait: it does not read its answers.

    slice_ns: how long to wait before it is looked after: for long where the channel sees that it lives, and where there
    is none, since one that comes wakes the engine.
    """

    def __init__(self, end: EngineEnd) -> None:
        self._end = end
        self._mapping = end.segment.mapping
        self._channel = end.channel
        client = f"shm client {next(_numbers)} at {end.endpoint}"
        self._pipe = SegmentPipe.engine_end(end.segment, strategy=end.strategy, client=client)
        self.calls = end.serve(self._pipe, steps=True)
        self._process: Process | None = None
        self._envs: EnvServer | None = None
        self.lease: Lease | None = None
        self.commands_wait = False
        self.slice_ns = LOOP_SLICE_NS

    def look_after(self) -> bool:
        """Find what the table says, between exchanges; False where the client has gone."""
        if header.get(self._mapping, "client_pid"):
            self._know()
            if self._process is not None and not self._process.alive:
                _log.warning("shm client of %s (%s) ended without closing", self._end.endpoint, self._process.name)
                return False
            self._step_envs_if_asked()
            return True
        features = header.get(self._mapping, "client_features")
        if self._process is not None or (features and not header.get(self._mapping, "client_start")):
            return False
        if features:
            self.slice_ns = PEER_POLL_NS
        return True

    def _know(self) -> None:
        """Know its process, so that its death is seen."""
        pid = header.get(self._mapping, "client_pid")
        if pid and (self._process is None or self._process.pid != pid):
            if self._process is not None:
                self._process.close()
            self._process = header.client_of(self._mapping, self._end.segment.lock_path)
            features, lock = header.get(self._mapping, "client_features"), self._process.lock
            self._channel.set_peer(peer_bits(features), *lock)
            self.slice_ns = LOOP_SLICE_NS if lock[0] >= 0 else PEER_POLL_NS
            self._pipe.know_client(features)

    def drive(self) -> Lease:
        """Make it the driver; raises Busy."""
        self._know()
        end, knows_slots = self._end, header.get(self._mapping, "client_features") & Feature.SLOTS
        self.lease = end.host.drive(
            f"shm client of {self._process.name if self._process else 'no process'} at {end.endpoint}",
            end.buffers[0],
            slots=end.slots if knows_slots else None,
            device=end.device,
            interrupt=self._channel.interrupt,
        )
        return self.lease

    def _step_envs_if_asked(self) -> None:
        """Once it has sent an env: step envs on their own from now on, until it goes."""
        words, end = self._end.env_words, self._end
        if words is None or self._envs is not None or not words.is_asked:
            return
        try:
            lease = self.lease or self.drive()
        except TransportError as error:
            for env, _ in words.sent():
                words.publish(env, error)
        else:
            self._envs = EnvServer(end.host, lease, end.segment, end.strategy)

    def feed(self) -> None:
        """Handle its commands, as far as it reads its answers; one that writes garbage gets none any more."""
        try:
            if self._process is None:
                self._know()
            self.commands_wait = not self.calls.feed()
            position = self._pipe.reader.position
        except TransportError as error:
            if not isinstance(error, ClosedError):
                _log.warning("shm client of %s: %s; its commands are dropped", self._end.endpoint, error)
            self.commands_wait = False
            position = self._written()
        if self.commands_wait:  # looked at again after the next exchange or slice, not at once
            position = self._written()
        self._channel.commands_read(position)

    def _written(self) -> int:
        return native.load32(self._mapping, self._end.segment.layout["ring_c2s"].offset)

    def close(self, why: TransportError | None = None) -> None:
        """End its calls with `why`, PeerDied by default, and free the engine; the segment is not looked at."""
        if self._envs is not None:
            self._envs.close()  # it has the lease
        elif self.lease is not None:
            self.lease.release()
        self._envs = self.lease = None
        if self._process is not None:
            self._process.close()
            self._process = None
        self.calls.close(why or PeerDied(f"{self._pipe.peer} is gone", backend="shm"))
        self._end.dispatcher.leave(self._pipe.peer)


class EnvServer:
    """Steps the envs of one client on their own, from its first send until `close`; it takes over the client's lease. A
    thread finds what the client has sent.
    """

    def __init__(self, host: Host, lease: Lease, segment: Segment, strategy: int) -> None:
        self._segment = segment
        self._words = EngineEnvWords(segment, strategy)
        self._publishing = threading.Lock()
        self._closed = False
        self._steps = EnvSteps(host, lease, self._on_ended)
        self._thread = threading.Thread(target=self._run, name=f"shm envs {segment.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        seen = 0
        try:
            while not self._closed:
                seen = self._words.wait(seen, PEER_POLL_NS)
                self._segment.mapping.check()
                self._steps.begin(self._words.sent())
        except SegmentError as error:
            _log.error("the envs of shm://%s are stepped no more: %s", self._segment.name, error)

    def _on_ended(self, env: int, failure: TransportError | None) -> None:
        with self._publishing:
            if not self._closed:  # else the words may be another client's by now
                self._words.publish(env, failure)

    def close(self) -> None:
        """Begin no more steps and wait for those under way; the lease is given back then."""
        with self._publishing:
            self._closed = True
        self._thread.join()
        self._steps.close()
