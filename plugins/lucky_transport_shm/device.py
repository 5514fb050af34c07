"""A client's end of GPUs: the segment's pages locked for copies, and the engine's device memory and events opened.

The engine's end is `lucky_transport_shm.device_server`. Both write header fields only
(`lucky_transport.shm.segment.device_offer`); the arrays of a step are not touched.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lucky_transport.cuda import libcuda
from lucky_transport.cuda.driver import Device, DeviceCopy, find_device
from lucky_transport.cuda.libcuda import CudaDriver
from lucky_transport.cuda.memory import DeviceArray, DeviceEvents
from lucky_transport.errors import DeviceError, PeerDied, SegmentError
from lucky_transport.shm.files.liveness import Process
from lucky_transport.shm.files.mapping import Mapping
from lucky_transport.shm.segment import device_offer, header
from lucky_transport.shm.segment.device_offer import ACTIONS, OBSERVATIONS, DeviceOffer, MemoryFields
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.segment import Segment

_log = logging.getLogger("lucky_transport")
#: How often an engine may replace its memory while a client opens it.
_TRIES = 8
#: How long closing waits for work on the GPU that uses the engine's memory.
_CLOSE_S = 10.0
_CLOSE_POLL_S = 0.001
#: CU_STREAM_LEGACY, the default stream.
_LEGACY_STREAM = 1


class ClientDevice:
    """What one client of a segment does with GPUs; nothing before it is asked to."""

    def __init__(self, segment: Segment, engine: Process) -> None:
        self._segment = segment
        self._engine = engine
        self._locked: tuple[CudaDriver, int] | None = None  # the driver and the device through which pages are locked
        self._could_not_lock = False
        self._opened: dict[MemoryFields, _OpenedMemory] = {}
        self._events = _OpenedEvents(segment, engine)

    def lock_pages(self, driver: CudaDriver, ordinal: int) -> bool:
        """Lock the segment's pages, once; False, with a warning in the log, where the driver refuses."""
        if self._locked is None and not self._could_not_lock:
            mapping = self._segment.mapping
            try:
                driver.register(_address(mapping), len(mapping), ordinal)
                self._locked = (driver, ordinal)
            except DeviceError as error:
                self._could_not_lock = True
                _log.warning("%s stays pageable, copies to the GPU are slower and wait: %s", self._segment.path, error)
        return self._locked is not None

    def observations(self, driver: CudaDriver) -> DeviceArray | None:
        """Return the observations in the engine's device memory, None where it offers none.

        Raises PeerDied, SegmentError (the offer does not fit the spec) and DeviceError (it cannot be opened).
        """
        memory = self._memory(OBSERVATIONS, driver)
        return None if memory is None else memory.array(self._segment, self._events.current(driver))

    def write_actions(self, actions: Any) -> bool:
        """Copy actions from a GPU into the engine's memory for them, after the work of the present stream.

        False: they go through the host, since the engine has no such memory, or they have another shape, dtype, layout
        or device. Their values are not looked at. Raises what `observations` raises.
        """
        mapping, spec = self._segment.mapping, self._segment.spec
        if not device_offer.is_offered(mapping, ACTIONS):
            return False
        given = actions.__cuda_array_interface__
        fits = tuple(given["shape"]) == spec.action_shape and np.dtype(given["typestr"]) == spec.action.dtype
        if not fits or given.get("strides") is not None:
            return False
        driver, source = libcuda.load_driver(), given["data"][0]
        memory = self._memory(ACTIONS, driver)
        if memory is None or driver.ordinal_of(source) != memory.ordinal:
            return False
        copy = DeviceCopy(memory.pointer, source, device_offer.array_bytes(spec, ACTIONS))
        stream, events = _present_stream(actions, given), self._events.current(driver)
        if events is not None:
            events.record_client(stream, copy)
        else:
            driver.enqueue(stream, memory.ordinal, (), copy, 0)
            driver.synchronize(stream, memory.ordinal)
        return True

    def say_written(self, seq: int) -> None:
        """Say that the actions of exchange `seq` are those that `write_actions` copied; 0: of none."""
        header.put(self._segment.mapping, "gpu_act_seq", seq)

    def _memory(self, of: MemoryFields, driver: CudaDriver) -> _OpenedMemory | None:
        """Return the engine's present memory of an array, None where it offers none."""
        segment = self._segment
        if of not in self._opened and not device_offer.is_offered(segment.mapping, of):
            return None  # at once: for an engine of the host this is asked for each frame
        if not self._engine.alive:
            raise PeerDied(f"the engine's process ({self._engine.name}) ended", backend="shm", hint="start it again")
        opened = self._opened.get(of)
        if opened is not None and 0 != opened.generation == device_offer.current_generation(segment.mapping, of):
            return opened
        for _ in range(_TRIES):
            offer = device_offer.read_offer(segment.mapping, of, segment.spec, str(segment.path))
            if offer is None or opened is None or opened.generation != offer.generation:
                opened = None
                self._opened.pop(of, None)  # closed before the next is opened: the engine may be waiting for it
            if offer is None:
                return None
            opened = self._opened[of] = opened or _OpenedMemory(driver, of, offer, segment, self._events.have_ended)
            if device_offer.current_generation(segment.mapping, of) == offer.generation:
                return opened
        raise SegmentError(
            f"{segment.path}: the engine replaced its device memory {_TRIES} times while it was opened",
            backend="shm",
            hint="publish memory that stays where it is",
        )

    def leave_observations(self, there: bool) -> bool:
        """Say whether the engine may write the next frames to its device memory alone; False: it never does."""
        mapping = self._segment.mapping
        if not header.get(mapping, "engine_features") & Feature.DEVICE_ONLY:
            return False
        device_offer.read_here(mapping, not there)
        return True

    def close(self) -> None:
        """Close the engine's memory and unlock the pages. Arrays that are still held keep the memory open."""
        while self._opened:
            self._opened.popitem()[1].mark.clear()  # the next client has that word
        self._events.close()
        if self._locked is not None:
            (driver, ordinal), self._locked = self._locked, None
            _logged(
                "the pages of a segment were not unlocked",
                partial(driver.unregister, _address(self._segment.mapping), ordinal),
            )

    def forget(self) -> None:
        """In a forked child: leave everything as it is, since it belongs to the parent."""
        self._locked = None
        self._events.forget()
        self._opened.clear()


class _OpenedEvents:
    """The two events that order this client's work and the engine's, opened where the engine offers them."""

    def __init__(self, segment: Segment, engine: Process) -> None:
        self._segment = segment
        self._engine = engine
        self._generation = 0
        self._events: DeviceEvents | None = None

    def current(self, driver: CudaDriver) -> DeviceEvents | None:
        """Return them, None where the engine offers none: its memory then shows the frame already."""
        mapping = self._segment.mapping
        if device_offer.events_generation(mapping) == self._generation:
            return self._events
        self.close()
        generation, offer = device_offer.read_events(mapping, str(self._segment.path))
        if offer is not None:
            ordinal = _device_of(driver, offer.ordinal, offer.uuid, "events are").ordinal
            with contextlib.ExitStack() as undo:
                frame = driver.open_event(offer.frame, ordinal)
                undo.callback(driver.close_event, frame, ordinal)
                self._events = DeviceEvents(driver, ordinal, frame, driver.open_event(offer.client, ordinal))
                undo.pop_all()
        self._generation = generation
        return self._events

    def have_ended(self) -> bool:
        """Wait until nothing of both sides is under way; False when something stays, as where the engine has died."""
        end = time.monotonic() + _CLOSE_S
        try:
            while self._events is not None and not self._events.is_done:
                if not self._engine.alive or time.monotonic() >= end:
                    return False
                time.sleep(_CLOSE_POLL_S)
        except DeviceError as error:
            _log.warning("work on the GPU cannot be waited for: %s", error)
            return False
        return True

    def close(self) -> None:
        """Close them when nothing waits for them any more; otherwise they stay until this process ends."""
        events = self._events if self.have_ended() else None
        self.forget()
        if events is not None:
            _logged("an engine's events were not closed", events.close)

    def forget(self) -> None:
        """Leave them open."""
        self._events, self._generation = None, 0


class _OpenedMemory:
    """An engine's device memory, mapped for as long as this object or an array of it lives."""

    def __init__(
        self,
        driver: CudaDriver,
        of: MemoryFields,
        offer: DeviceOffer,
        segment: Segment,
        have_ended: Callable[[], bool],
    ) -> None:
        """have_ended: waits for what uses the memory on the GPU; False when that does not end."""
        device = _device_of(driver, offer.ordinal, offer.uuid, f"{of.array} lie")
        self.generation = offer.generation
        self.ordinal = device.ordinal
        self.mark = _OpenMark(segment.mapping, of, offer.generation)
        try:
            begin, size = driver.open(offer.handle, device.ordinal)
        except DeviceError as error:
            self.mark.clear()
            raise DeviceError(
                f"the engine's device memory cannot be opened: {error}",
                backend="shm",
                hint="it must come from cudaMalloc in another process of this host that still runs",
            ) from error
        close = partial(driver.close, begin, device.ordinal)
        self._end = weakref.finalize(self, _close_memory, close, have_ended, os.getpid(), self.mark)
        self.pointer = begin + offer.offset
        if offer.offset + offer.size_bytes > size:
            self._end()
            raise SegmentError(
                f"{segment.path}: {of.prefix}_offset is {offer.offset}: {offer.size_bytes} bytes of {of.array} there "
                f"do not lie in the {size} bytes that the handle opens",
                backend="shm",
                hint="start the engine again",
            )

    def array(self, segment: Segment, events: DeviceEvents | None) -> DeviceArray:
        spec = segment.spec
        dtype = np.dtype(spec.observation.dtype).str
        return DeviceArray(self.pointer, spec.observation_shape, dtype, self.ordinal, self, events)


class _OpenMark:
    """The client's word in the header, which says that it has the handle of one generation open."""

    def __init__(self, mapping: Mapping, of: MemoryFields, generation: int) -> None:
        self._mapping: Mapping | None = mapping
        self._of = of
        self._generation = generation
        device_offer.mark_open(mapping, of, generation)

    def clear(self) -> None:
        """Take it back, once."""
        mapping, self._mapping = self._mapping, None
        if mapping is not None and not mapping.is_cut:
            device_offer.clear_open(mapping, self._of, self._generation)


def _close_memory(close: Callable[[], None], have_ended: Callable[[], bool], pid: int, mark: _OpenMark) -> None:
    if os.getpid() != pid:  # a forked child: the mapping belongs to its parent, and the driver does not work here
        return
    if not have_ended():  # closing would wait for the device
        _log.warning("an engine's device memory stays open: work on the GPU that uses it does not end")
        return
    _logged("an engine's device memory was not closed", close)
    mark.clear()


def _logged(failure: str, close: Callable[[], object]) -> None:
    """Close something; where the driver cannot, closing goes on."""
    try:
        close()
    except DeviceError as error:
        _log.warning("%s: %s", failure, error)


def _device_of(driver: CudaDriver, ordinal: int, uuid: bytes, what: str) -> Device:
    """Return the engine's device as this process sees it; raises DeviceError."""
    device = find_device(driver.devices(), uuid, ordinal)
    if device is None:
        seen = ", ".join(f"{one.ordinal}: {one.name}" for one in driver.devices())
        raise DeviceError(
            f"the engine's {what} on its GPU {ordinal} ({uuid.hex()}), which this process does not see; it sees {seen}",
            backend="shm",
            hint="let CUDA_VISIBLE_DEVICES of both processes contain that device",
        )
    return device


def _present_stream(actions: Any, given: dict[str, Any]) -> int:
    """Return the stream that an array on a GPU is ready on: of its interface, which PyTorch's does not tell."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(actions, torch.Tensor):
        return torch.cuda.current_stream(actions.device).cuda_stream
    return given.get("stream") or _LEGACY_STREAM


def _address(mapping: Mapping) -> int:
    return np.frombuffer(mapping, np.uint8).ctypes.data
