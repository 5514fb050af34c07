"""The engine's end of a segment: `ShmServer`.

One thread waits for actions and commands in one place; it answers commands that were written before the actions before
it steps. The engine writes its frames into the segment. A step that fails is published as a refused exchange, so that
the client does not wait for it.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
from functools import partial

import numpy as np

from lucky_transport import native
from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ClosedError, PeerDied, SegmentError, TransportError
from lucky_transport.host.dispatch import Dispatcher
from lucky_transport.host.foreign import InstalledServices
from lucky_transport.host.host import Host, Lease
from lucky_transport.host.slots import ObservationSlots
from lucky_transport.serving import Server
from lucky_transport.shm.files.liveness import Process
from lucky_transport.shm.listener.server_loop import serve_listener
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.channel import Result, channel_offsets, peer_bits
from lucky_transport.shm.segment.env_words import EngineEnvWords
from lucky_transport.shm.segment.layout import EngineState, Feature
from lucky_transport.shm.segment.segment import create
from lucky_transport.shm.segment.segment_pipe import SegmentPipe
from lucky_transport.shm.slot_files.image_store import ImageStores
from lucky_transport.shm.timing import LOOP_SLICE_NS, PEER_POLL_NS
from lucky_transport.shm.wait import PEER_WAKES, strategy_code
from lucky_transport.uninterrupted import start_thread
from lucky_transport_shm.device_server import EngineDevice
from lucky_transport_shm.env_server import EnvServer

_log = logging.getLogger("lucky_transport")
_clients = itertools.count(1)


def server(endpoint: Endpoint, settings: Settings) -> ShmServer:
    """Return a server for segment `shm://name` (default: LUCKY_SHM_NAME, then `lucky_<pid>`)."""
    name = endpoint.address or settings.shm_name or f"lucky_{os.getpid()}"
    return ShmServer(endpoint.with_address(name), settings)


class ShmServer(Server):
    """Lets one client drive a host through a segment."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._strategy = strategy_code(settings.wait)
        self._settings = settings
        self._stopping = False
        self._grace_s = 0.0
        self._undo = contextlib.ExitStack()
        self._lease: Lease | None = None
        self._env_server: EnvServer | None = None
        self._peer: Process | None = None
        #: How long to wait before the client is looked after: for long where the channel sees that it lives, and where
        #: there is none: one that comes wakes us.
        self._slice_ns = LOOP_SLICE_NS

    def start(self, host: Host) -> Endpoint:
        with contextlib.ExitStack() as undo:
            self._start(host, undo)
            self._undo = undo.pop_all()
        return self._endpoint

    def _start(self, host: Host, undo: contextlib.ExitStack) -> None:
        self._host = host
        spec = host.spec
        self._segment = segment = create(
            self._endpoint.address,
            spec,
            observation_slots=self._settings.observation_slots,
            envs_alone=host.parallel_envs > 0 and self._settings.observation_slots == 1,
        )
        self._env_words = EngineEnvWords(segment, self._strategy) if segment.layout.has_env_words else None
        undo.callback(segment.unlink)
        mapping, layout = segment.mapping, segment.layout
        header.put(mapping, "engine_features", header.get(mapping, "engine_features") | Feature.PARKS)
        self._buffers = [segment.buffers(slot) for slot in range(layout.observation_slots)]
        self._segment_control = segment.control()
        self._control = np.zeros(spec.num_envs, np.uint8)
        self._channel = native.EngineChannel(mapping, channel_offsets(layout, spec.num_envs), strategy=self._strategy)
        self._dispatcher = Dispatcher(host, foreign=[InstalledServices(host)])
        undo.callback(lambda: self._dispatcher.close(self._grace_s))
        self._images = ImageStores(segment.path, strategy=self._strategy)
        self._device = EngineDevice(segment, host.engine, actions=not host.is_intercepted)
        undo.callback(self._device.close)
        self._await_client()
        commands = serve_listener(
            segment.name,
            partial(
                self._dispatcher.serve,
                open_images=self._images.open,
                max_message_bytes=self._settings.max_message_bytes,
            ),
            self._dispatcher.leave,
            slots=self._dispatcher.slots,
            strategy=self._strategy,
        )
        undo.callback(lambda: commands.close(max(self._grace_s, 0.2)))
        thread = threading.Thread(target=self._run, name=f"shm server {segment.name}", daemon=True)
        undo.callback(self._end, thread)  # before the start: that may be interrupted once the thread runs
        start_thread(thread)
        segment.publish_ready()

    def _run(self) -> None:
        """Serve until `stop`; an error in it ends the server, and clients are not left waiting."""
        try:
            self._serve()
        except SegmentError as error:
            _log.error("the shm server of %s closes: %s", self._endpoint, error)
            self._forget_client(error)
        except BaseException:
            _log.exception("the shm server of %s broke; it closes", self._endpoint)
            header.put(self._segment.mapping, "engine_state", EngineState.CLOSING)

    def _serve(self) -> None:
        """Plain actions of the driver are answered inside the channel's `serve`; whatever else is found comes here."""
        while not self._stopping:
            lease = self._lease
            try:
                slice_ns = self._slice_ns if not self._commands_wait else PEER_POLL_NS
                found = (
                    self._channel.next(slice_ns) if lease is None else self._channel.serve(*lease.step_parts, slice_ns)
                )
                if self._host.lock.waiters:
                    self._host.lock.yield_to_waiters()
            except BaseException as error:  # an engine is foreign code and may raise anything
                assert lease is not None
                self._refuse(lease.failure(error))
                continue
            if found == Result.HAS_COMMANDS:
                self._feed()
            elif found > 0:
                self._handle(found)
            else:
                self._look_after_client(found)
            if self._commands_wait:
                self._feed()

    def _handle(self, found: int) -> None:
        """Commands first, then actions with control bytes or from a client that does not drive yet."""
        if found & Result.HAS_COMMANDS:
            self._feed()
        if found & Result.HAS_ACTIONS:
            try:
                self._exchange(found & Result.HAS_CONTROL)
            except TransportError as error:
                self._refuse(error)
            else:
                self._channel.publish(0)

    def _exchange(self, has_control: int) -> None:
        lease = self._lease or self._admit()
        if not has_control:
            lease.step()
            return
        np.copyto(self._control, self._segment_control)  # read once: the client could change it under us
        lease.step(self._control)

    def _admit(self) -> Lease:
        """Make the attached client the driver; raises Busy."""
        self._know_client()
        name = self._peer.name if self._peer else "no process"
        self._lease = self._host.drive(
            f"shm client of {name} at {self._endpoint}",
            self._buffers[0],
            slots=self._slots(),
            device=self._device,
            interrupt=self._channel.interrupt,
        )
        return self._lease

    def _slots(self) -> ObservationSlots | None:
        """Return the observation slots, None where there is one or the client knows of one."""
        known = header.get(self._segment.mapping, "client_features") & Feature.SLOTS
        return ObservationSlots(self._buffers, self._turn) if known and len(self._buffers) > 1 else None

    def _turn(self) -> int:
        return (self._channel.seq + 1) % len(self._buffers)

    def _know_client(self) -> None:
        """Know the attached client's process, so that its death is seen."""
        mapping = self._segment.mapping
        pid = header.get(mapping, "client_pid")
        if pid and (self._peer is None or self._peer.pid != pid):
            if self._peer is not None:
                self._peer.close()
            self._peer = header.client_of(mapping, self._segment.lock_path)
            features, lock = header.get(mapping, "client_features"), self._peer.lock
            self._channel.set_peer(peer_bits(features), *lock)
            self._slice_ns = LOOP_SLICE_NS if lock[0] >= 0 else PEER_POLL_NS
            self._pipe.know_client(features)

    def _look_after_client(self, found: int) -> None:
        """Between exchanges: notice a client that came, left, died or broke the counters.

        Raises SegmentError when the segment was truncated.
        """
        self._segment.mapping.check()
        if found == Result.OUT_OF_ORDER:
            _log.warning("shm client of %s broke the action counter; its exchange is dropped", self._endpoint)
            self._channel.resync()
        pid = header.get(self._segment.mapping, "client_pid")
        if pid:
            self._know_client()
            if self._peer is not None and not self._peer.alive:
                _log.warning("shm client of %s (%s) ended without closing", self._endpoint, self._peer.name)
                self._let_go()
            elif self._env_words is not None and self._env_server is None and self._env_words.is_asked:
                self._step_envs(self._env_words)
        elif self._peer is not None or self._has_left_unseen():
            self._let_go()
        elif header.get(self._segment.mapping, "client_features"):
            self._slice_ns = PEER_POLL_NS  # it comes, and may die before it wakes us

    def _step_envs(self, words: EngineEnvWords) -> None:
        """Step envs on their own from now on, until the client goes."""
        try:
            lease = self._lease or self._admit()
        except TransportError as error:
            for env, _ in words.sent():
                words.publish(env, error)
            return
        self._env_server = EnvServer(self._host, lease, self._segment, self._strategy)

    def _has_left_unseen(self) -> bool:
        """True when a client has come and gone between two looks; one that is coming has its start time there."""
        features = header.get(self._segment.mapping, "client_features")
        return bool(features) and not header.get(self._segment.mapping, "client_start")

    def _let_go(self) -> None:
        """Forget the client: the engine is free for the next driver, the segment for the next client."""
        self._channel.set_peer(PEER_WAKES)
        self._channel.resync()
        self._forget_client(PeerDied(f"{self._pipe.peer} is gone", backend="shm"))
        if not self._stopping:  # what the engine said last is still to be read
            self._await_client()
        self._channel.commands_read(0)
        if self._env_words is not None:
            self._env_words.clear()
        mapping = self._segment.mapping
        self._device.let_go()
        header.put(mapping, "client_lock", 0)
        header.put(mapping, "client_pid_namespace", 0)
        header.put(mapping, "client_start", 0)
        header.put(mapping, "client_pid", 0)
        header.put(mapping, "client_features", 0)  # last: the next client waits for it

    def _forget_client(self, why: TransportError) -> None:
        """Let go of the client without a look at the segment; its calls end with `why`."""
        if self._env_server is not None:
            self._env_server.close()  # it has the lease
            self._env_server = self._lease = None
        elif self._lease is not None:
            self._lease.release()
            self._lease = None
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        self._slice_ns = LOOP_SLICE_NS
        self._calls.close(why)
        self._dispatcher.leave(self._pipe.peer)

    def _refuse(self, error: TransportError) -> None:
        """Publish an exchange without a frame, with the reason."""
        self._segment.write_error(error)
        self._channel.publish(error.wire_code)

    # -- commands -----------------------------------------------------------------------------------------------------

    def _await_client(self) -> None:
        """Have empty rings for the next client; none may be attached."""
        self._pipe = SegmentPipe.engine_end(
            self._segment,
            strategy=self._strategy,
            client=f"shm client {next(_clients)} at {self._endpoint}",
        )
        self._commands_wait = False
        self._calls = self._dispatcher.serve(
            self._pipe,
            steps=True,
            open_images=self._images.open,
            max_message_bytes=self._settings.max_message_bytes,
        )

    def _feed(self) -> None:
        """Handle the client's commands, as far as it reads its answers; one that writes garbage gets none any more."""
        try:
            if self._peer is None:
                self._know_client()
            self._commands_wait = not self._calls.feed()
            position = self._pipe.reader.position
        except TransportError as error:
            if not isinstance(error, ClosedError):
                _log.warning("shm client of %s: %s; its commands are dropped", self._endpoint, error)
            self._commands_wait = False
            position = self._written()
        if self._commands_wait:  # looked at again after the next exchange or slice, not at once
            position = self._written()
        self._channel.commands_read(position)

    def _written(self) -> int:
        return native.load32(self._segment.mapping, self._segment.layout["ring_c2s"].offset)

    def stop(self, grace_s: float = 1.0) -> None:
        self._grace_s = grace_s
        self._undo.close()

    def _end(self, thread: threading.Thread) -> None:
        mapping = self._segment.mapping
        self._stopping = True
        if not mapping.is_cut:
            header.put(mapping, "engine_state", EngineState.CLOSING)
        self._channel.interrupt()
        if thread.is_alive():
            thread.join(max(self._grace_s, 0.2))
        if not thread.is_alive() and mapping.is_cut:
            self._forget_client(mapping.error())
        elif not thread.is_alive():
            if header.get(self._segment.mapping, "action_seq") == self._channel.seq + 1:
                self._refuse(ClosedError("the engine is closing", backend="shm"))
            self._calls.shut_down(ClosedError("the engine is closing", backend="shm"))
            self._let_go()
