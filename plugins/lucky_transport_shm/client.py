"""The client's end of a segment: `ShmTransport`.

`step` is one native call, the channel's `exchange`, while the channel is fused and all is well. What is left to
`_step_slowly`:

    a step                                                      until
    that was not published, or has no frame in a first slice    it alone
    of a spec whose bounds only Python can count                ever (`_fuse`)
    after an env was sent on its own                            all envs have been received (`recv_envs`)
    after close() or fork(): refused                            ever

A segment has one client that steps; a further client is a command client (`lucky_transport_shm.command_client`). After
fork() the child's copy is closed, and the arrays that it holds stay readable.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import native
from lucky_transport.config import Settings
from lucky_transport.cuda.libcuda import CudaDriver
from lucky_transport.cuda.memory import DeviceArray
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import (
    Busy,
    ConfigError,
    NotReachable,
    PeerTimeout,
    RemoteProtocolError,
    SpecError,
)
from lucky_transport.fork import on_child
from lucky_transport.lockstep import Lockstep, LockstepEvent, LockstepState
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import LockHolder, process_name
from lucky_transport.shm.files.socket_path import live_socket
from lucky_transport.shm.segment import header
from lucky_transport.shm.segment.channel import Result, action_format, channel_offsets, peer_bits
from lucky_transport.shm.segment.segment import Segment, open_segment
from lucky_transport.shm.segment.segment_files import remove_stale
from lucky_transport.shm.segment.segment_pipe import SegmentPipe
from lucky_transport.shm.slot_files.image_reader import ImageReader
from lucky_transport.shm.timing import PEER_POLL_NS
from lucky_transport.shm.wait import strategy_code
from lucky_transport.spec.actions import Bounds, check_actions, check_control
from lucky_transport.transport import Capabilities, Frame
from lucky_transport_shm.attachment import attach, detach
from lucky_transport_shm.client_lockstep import ClientLockstep
from lucky_transport_shm.command_client import CallsTransport, CommandTransport
from lucky_transport_shm.device import ClientDevice
from lucky_transport_shm.env_client import ClientEnvs

_READY, _SENT, _LOST, _CLOSED = LockstepState.READY, LockstepState.SENT, LockstepState.LOST, LockstepState.CLOSED


def connect(endpoint: Endpoint, settings: Settings) -> ShmTransport | CommandTransport:
    """Return a transport to the engine of segment `shm://name`: the first client may step it, others send commands.

    Raises NotReachable, SegmentError, Busy (another client has it, and the engine takes no command clients).
    """
    name = endpoint.address or settings.shm_name
    if not name:
        raise ConfigError(
            "endpoint shm: names no segment", backend="shm", hint="write shm://name or set LUCKY_SHM_NAME"
        )
    deadline = Deadline(settings.connect_timeout_s)
    segment = open_segment(name, deadline)
    lock = lockfile.acquire(segment.lock_path, lockfile.CLIENT)
    if lock is None:
        return _connect_for_commands(segment, settings, deadline)
    with contextlib.ExitStack() as undo:
        undo.callback(lock.release)
        engine = header.engine_of(segment.mapping, segment.lock_path)
        undo.callback(engine.close)
        attach(segment, lock, engine, deadline)
        transport = ShmTransport(segment, lock, engine, settings)
        undo.pop_all()  # they are the transport's now
        return transport


def _connect_for_commands(segment: Segment, settings: Settings, deadline: Deadline) -> CommandTransport:
    try:
        return CommandTransport(segment, settings, deadline)
    except NotReachable as error:
        if lockfile.holder(segment.lock_path, lockfile.ENGINE) is None or live_socket(segment.name):
            raise  # the engine has ended since the segment was opened, or it has a listener and the error is about that
        other = process_name(lockfile.holder(segment.lock_path, lockfile.CLIENT) or 0)
        text = str(error).removesuffix(f"; {error.hint}")
        raise Busy(
            f"segment {segment.path} has a client already, {other}; {text}",
            backend="shm",
            hint=f"{error.hint}; an engine of a kit that does not listen has room for that one client",
        ) from error


class ShmTransport(CallsTransport):
    """Steps an engine through shared memory, as the client whose place is taken (`attach`)."""

    def __init__(self, segment: Segment, lock: lockfile.Lock, engine: LockHolder, settings: Settings) -> None:
        self.spec = spec = segment.spec
        layout = segment.layout
        self.capabilities = Capabilities(
            zero_copy=True, streams=True, hold=spec.hold, images=True, sessions=True, async_envs=layout.has_env_words
        )
        self._segment, self._lock, self._engine, self._settings = segment, lock, engine, settings
        self._closing = threading.RLock()  # reentrant: a signal handler may close it too
        self._is_attached, self._is_released = True, False
        buffers = [segment.buffers(slot) for slot in range(layout.observation_slots)]
        self.actions, self.observation_slots = buffers[0].actions, len(buffers)
        self._frames = tuple(map(Frame.showing, buffers))
        bounds = Bounds(spec.action)
        # Values outside these bounds are counted here, into `_counted`; outside all others by the channel.
        self._count_here = None if _counts_natively(bounds) else bounds
        self._counted = 0
        strategy, peer = strategy_code(settings.wait), peer_bits(header.get(segment.mapping, "engine_features"))
        counted = action_format(spec, bounds if self._count_here is None else None)
        offsets = channel_offsets(layout, spec.num_envs)
        self._channel = native.ClientChannel(segment.mapping, offsets, counted, strategy=strategy, peer=peer)
        self._native_send, self._native_recv = self._channel.send, self._channel.recv
        self._slice_ns = min(int(settings.step_timeout_s * 1e9), PEER_POLL_NS)
        self._fuse()
        self.step = self._channel.exchange  # the base class's `step` in one native call
        self._lockstep = ClientLockstep(segment, engine, self._channel)
        self._envs = ClientEnvs(segment, self._channel, self._lockstep, bounds, settings)
        self._device = ClientDevice(segment, engine)
        pipe = SegmentPipe.client_end(segment, engine, strategy=strategy, peer_bits=peer)
        limit, images = settings.max_message_bytes, ImageReader(segment.path, pipe.check_peer)
        self._calls = ClientCalls(pipe, backend="shm", max_message_bytes=limit, images=images)
        on_child(self.close_after_fork)

    def _fuse(self) -> None:
        self._channel.fuse(self._frames, self._step_slowly, self._slice_ns)
        if self._count_here is not None:
            self._channel.unfuse()

    @property
    def out_of_bounds(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Action values outside the bounds so far."""
        return self._counted + self._envs.out_of_bounds + self._channel.out_of_bounds

    # -- steps of all envs: `step` is `send` and `recv` where it is not native ----------------------------------------

    def _step_slowly(
        self, code: int, actions: NDArray[Any], control: NDArray[np.uint8] | None, deadline: Deadline | None
    ) -> Frame:
        """The rest of a step that was not a plain, successful exchange; `code` says how far it came."""
        if code in (Result.NOT_TRIED, Result.UNFIT_ACTIONS, Result.NOT_FINITE):  # nothing was published
            self.send(actions, control)
            return self.recv(deadline)
        return self._await_frame(code, Deadline(self._settings.step_timeout_s))

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        if self._lockstep.state is not _READY:
            raise self._lockstep.state_error(LockstepEvent.SEND)
        if control is not None or self._count_here is not None or self._native_send(actions, None):
            self._send_checked(actions, control)

    def _send_checked(self, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> None:
        """Find out in Python what the native check did not like; publish when it was only another dtype or layout."""
        on_device = hasattr(actions, "__cuda_array_interface__") and self._device.write_actions(actions)
        checked = self.actions if on_device or actions is self.actions else check_actions(self.spec, actions)
        if control is not None:
            control = check_control(self.spec, control)
        if self._count_here is not None and checked is not self.actions:
            self._counted += self._count_here.count_outside(checked)
        code = self._send_those_there(control) if on_device else self._channel.send(checked, control)
        if code == Result.OUT_OF_ORDER:
            self._lockstep.check_segment()
        if code:
            raise SpecError(f"the actions changed while they were sent (native check: {code})")

    def _send_those_there(self, control: NDArray[np.uint8] | None) -> int:
        """Publish an exchange whose actions lie in the engine's device memory."""
        seq = self._channel.seq + 1
        try:
            self._device.say_written(seq)
            return self._channel.send(self.actions, control)
        finally:
            if self._channel.seq != seq:  # not published, and the next one has the same number
                self._device.say_written(0)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        if self._lockstep.state is not _SENT:
            raise self._lockstep.state_error(LockstepEvent.FRAME)
        if deadline is None:
            code = self._native_recv(self._slice_ns)
            if code == 0 or code == 1:
                return self._show(code)
            deadline = Deadline(self._settings.step_timeout_s)
        else:
            code = self._channel.recv(min(deadline.remaining_ns, PEER_POLL_NS))
        return self._await_frame(code, deadline)

    def _await_frame(self, code: int, deadline: Deadline) -> Frame:
        code = self._lockstep.wait(code, deadline, self._channel.recv)
        if code == Result.TIMED_OUT:
            raise PeerTimeout(
                f"the engine ({self._engine.name}) sent no frame within {deadline.timeout_s} s",
                backend="shm",
                hint="recv() again, or raise step_timeout_s (LUCKY_STEP_TIMEOUT_S)",
            )
        return self._received(code)

    def _received(self, code: int) -> Frame:
        """Return the frame, or raise what `code` says happened instead of one."""
        if code not in (Result.FRAME, Result.FRAME_ENDED):
            self._lockstep.check_segment()
        if code in (Result.FRAME, Result.FRAME_ENDED):
            return self._show(code)
        if code == Result.FRAME_REFUSED:
            raise self._segment.read_error("shm")
        self._lockstep.on(LockstepEvent.LOST)
        raise RemoteProtocolError(
            f"the engine's frame counter moved by more than one (to {header.get(self._segment.mapping, 'frame_seq')})",
            backend="shm",
        )

    def _show(self, code: int) -> Frame:
        frame = self._frames[self._channel.seq % len(self._frames)]
        frame.any_ended = code == Result.FRAME_ENDED
        frame.seq = self._channel.frames
        return frame

    # -- steps of single envs -----------------------------------------------------------------------------------------

    def send_envs(
        self, actions: NDArray[Any], env_ids: NDArray[Any] | None = None, control: NDArray[np.uint8] | None = None
    ) -> None:
        self._envs.send(actions, env_ids, control)

    @property
    def envs_under_way(self) -> int:
        return self._lockstep.sent.count

    def recv_envs(self, least: int = 1, deadline: Deadline | None = None) -> tuple[NDArray[np.int32], Frame]:
        try:
            return self._envs.recv(least, deadline), self._frames[0]
        finally:
            if self._lockstep.state is _READY:
                self._fuse()

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._lockstep.kept is _CLOSED or self._lockstep.kept is _LOST:
            raise self._lockstep.state_error(LockstepEvent.SEND)

    def device_observations(self, driver: CudaDriver) -> DeviceArray | None:
        self._check_open()
        return self._device.observations(driver)

    def leave_on_device(self, there: bool) -> bool:
        self._check_open()
        return self._device.leave_observations(there)

    def lock_pages(self, driver: CudaDriver, ordinal: int) -> bool:
        self._check_open()
        return self._device.lock_pages(driver, ordinal)

    def close(self) -> None:
        with self._closing:
            if not self._is_released:
                self._release()
                self._is_released = True  # last: what a signal handler interrupts is done again by the next call

    def _release(self) -> None:
        self._lockstep.on(LockstepEvent.CLOSE)
        self._device.close()
        # it held this transport, which holds the memory
        self._channel.fuse(self._frames, _refuse_closed, self._slice_ns)
        self._channel.unfuse()
        self._calls.close()
        mapping = self._segment.mapping
        if self._is_attached and self._engine.alive and not mapping.is_cut:
            detach(self._segment, self._engine)
        self._is_attached = False  # another client may come from here on
        self._lock.release()
        if not self._engine.alive:
            remove_stale(self._segment.path.parent)  # a killed engine cannot clean up after itself
        self._engine.close()

    def close_after_fork(self) -> None:
        """In a forked child: refuse everything from now on; the connection is the parent's and stays as it is."""
        self._closing, self._is_released = threading.RLock(), True
        if self._lockstep.kept is not _CLOSED:
            self._channel.unfuse()
            self._device.forget()
            text = "this transport belongs to the parent process"
            self._lockstep.end(LockstepEvent.CLOSE, text, "connect again after fork()")


def _refuse_closed(code: int, actions: Any, control: Any, deadline: Deadline | None) -> Frame:
    """Stand in for `ShmTransport._step_slowly` once it is closed."""
    raise Lockstep(_CLOSED, "shm").state_error(LockstepEvent.SEND)


def _counts_natively(bounds: Bounds) -> bool:
    """True when the native scan can count out-of-bounds values (or there is nothing to count)."""
    low, high = bounds.low, bounds.high
    if low is None or high is None:
        return low is high
    return low.ndim == high.ndim == 0 and low.dtype.name in ("float32", "float64", "int64")
