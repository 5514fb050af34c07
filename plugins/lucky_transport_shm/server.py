"""The engine's end of a segment: `ShmServer`, and the thread that it starts, `StepLoop`.

The thread waits for actions and commands in one place; it answers commands that were written before the actions before
it steps. The engine writes its frames into the segment. A step that fails is published as a refused exchange, so that
the client does not wait for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading

import numpy as np

from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ClosedError, SegmentError, TransportError
from lucky_transport.host.host import Host
from lucky_transport.serving import Server
from lucky_transport.shm.listener.server_loop import serve_listener
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.channel import Result
from lucky_transport.shm.segment.layout import EngineState
from lucky_transport.shm.timing import PEER_POLL_NS
from lucky_transport.shm.wait import PEER_WAKES
from lucky_transport.uninterrupted import start_thread
from lucky_transport_shm.attached_client import AttachedClient, EngineEnd

_log = logging.getLogger("lucky_transport")


def server(endpoint: Endpoint, settings: Settings) -> ShmServer:
    """Return a server for segment `shm://name` (default: LUCKY_SHM_NAME, then `lucky_<pid>`)."""
    name = endpoint.address or settings.shm_name or f"lucky_{os.getpid()}"
    return ShmServer(endpoint.with_address(name), settings)


class ShmServer(Server):
    """Lets one client drive a host through a segment."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._grace_s = 0.0
        self._undo = contextlib.ExitStack()

    def start(self, host: Host) -> Endpoint:
        with contextlib.ExitStack() as undo:
            self._start(host, undo)
            self._undo = undo.pop_all()
        return self._endpoint

    def _start(self, host: Host, undo: contextlib.ExitStack) -> None:
        self._end = end = EngineEnd(self._endpoint, self._settings, host, undo, lambda: self._grace_s)
        loop = StepLoop(end)
        slots, strategy = end.dispatcher.slots, end.strategy
        commands = serve_listener(end.segment.name, end.serve, end.dispatcher.leave, slots=slots, strategy=strategy)
        undo.callback(lambda: commands.close(max(self._grace_s, 0.2)))
        thread = threading.Thread(target=loop.run, name=f"shm server {end.segment.name}", daemon=True)
        undo.callback(lambda: loop.end(thread, self._grace_s))  # before the start: it may be interrupted once it runs
        start_thread(thread)
        end.segment.publish_ready()

    def stop(self, grace_s: float = 1.0) -> None:
        self._grace_s = grace_s
        self._undo.close()


class StepLoop:
    """Serves one client after the other, on one thread."""

    def __init__(self, end: EngineEnd) -> None:
        self._end = end
        self._segment = end.segment
        self._channel = end.channel
        self._segment_control = end.segment.control()
        self._control = np.zeros(end.host.spec.num_envs, np.uint8)
        self._stopping = False
        self._client = AttachedClient(end)

    def run(self) -> None:
        """Serve until `end`; an error in it ends the server, and clients are not left waiting."""
        try:
            self._serve()
        except SegmentError as error:
            _log.error("the shm server of %s closes: %s", self._end.endpoint, error)
            self._client.close(error)
        except BaseException:
            _log.exception("the shm server of %s broke; it closes", self._end.endpoint)
            header.put(self._segment.mapping, "engine_state", EngineState.CLOSING)

    def _serve(self) -> None:
        """Plain actions of the driver are answered inside the channel's `serve`; whatever else is found comes here."""
        lock = self._end.host.lock
        while not self._stopping:
            client = self._client
            lease = client.lease
            try:
                slice_ns = PEER_POLL_NS if client.commands_wait else client.slice_ns
                found = (
                    self._channel.next(slice_ns) if lease is None else self._channel.serve(*lease.step_parts, slice_ns)
                )
                if lock.waiters:
                    lock.yield_to_waiters()
            except BaseException as error:  # an engine is foreign code and may raise anything
                assert lease is not None
                self._refuse(lease.failure(error))
                continue
            if found == Result.HAS_COMMANDS:
                client.feed()
            elif found > 0:
                self._handle(found)
            else:
                self._look_after_client(found)
            if self._client.commands_wait:
                self._client.feed()

    def _handle(self, found: int) -> None:
        """Commands first, then actions with control bytes or from a client that does not drive yet."""
        if found & Result.HAS_COMMANDS:
            self._client.feed()
        if found & Result.HAS_ACTIONS:
            try:
                self._exchange(found & Result.HAS_CONTROL)
            except TransportError as error:
                self._refuse(error)
            else:
                self._channel.publish(0)

    def _exchange(self, has_control: int) -> None:
        lease = self._client.lease or self._client.drive()
        if not has_control:
            lease.step()
            return
        np.copyto(self._control, self._segment_control)  # read once: the client could change it under us
        lease.step(self._control)

    def _refuse(self, error: TransportError) -> None:
        """Publish an exchange without a frame, with the reason."""
        self._segment.write_error(error)
        self._channel.publish(error.wire_code)

    def _look_after_client(self, found: int) -> None:
        """Between exchanges; raises SegmentError when the segment was truncated."""
        self._segment.mapping.check()
        if found == Result.OUT_OF_ORDER:
            _log.warning("shm client of %s broke the action counter; its exchange is dropped", self._end.endpoint)
            self._channel.resync()
        if not self._client.look_after():
            self._free_place()

    def _free_place(self) -> None:
        """End the client: the engine is free for the next driver, the segment for the next client."""
        self._channel.set_peer(PEER_WAKES)
        self._channel.resync()
        self._client.close()
        if not self._stopping:  # what the engine said last is still to be read
            self._client = AttachedClient(self._end)
        self._channel.commands_read(0)
        if self._end.env_words is not None:
            self._end.env_words.clear()
        self._end.device.let_go()
        for word in ("client_lock", "client_pid_namespace", "client_start", "client_pid"):
            header.put(self._segment.mapping, word, 0)
        header.put(self._segment.mapping, "client_features", 0)  # last: the next client waits for it

    def end(self, thread: threading.Thread, grace_s: float) -> None:
        """End the thread that runs this, and the client, which reads why."""
        mapping = self._segment.mapping
        self._stopping = True
        if not mapping.is_cut:
            header.put(mapping, "engine_state", EngineState.CLOSING)
        self._channel.interrupt()
        if thread.is_alive():
            thread.join(max(grace_s, 0.2))
        if not thread.is_alive() and mapping.is_cut:
            self._client.close(mapping.error())
        elif not thread.is_alive():
            error = ClosedError("the engine is closing", backend="shm")
            if header.get(mapping, "action_seq") == self._channel.seq + 1:
                self._refuse(error)
            self._client.calls.shut_down(error)
            self._free_place()
