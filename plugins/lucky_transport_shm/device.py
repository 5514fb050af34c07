"""GPUs and a segment: its pages locked for copies, and observations in device memory, offered and opened.

Both ends write header fields only (`lucky_transport.shm.segment.device_offer`); the arrays of a step are not touched.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable

import numpy as np

from lucky_transport.cuda import libcuda
from lucky_transport.cuda.driver import CudaDriver, find_device
from lucky_transport.cuda.memory import DeviceArray, DeviceBuffer, DeviceObservations
from lucky_transport.errors import DeviceError, PeerDied, SegmentError
from lucky_transport.shm.files.liveness import Process
from lucky_transport.shm.files.mapping import Mapping
from lucky_transport.shm.segment import device_offer, header
from lucky_transport.shm.segment.device_offer import DeviceOffer
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.segment import Segment

__all__ = ["ClientDevice", "offer_observations"]

_log = logging.getLogger("lucky_transport")
#: How often an engine may replace its memory while a client opens it.
_TRIES = 8


class ClientDevice:
    """What one client of a segment does with GPUs; nothing before it is asked to."""

    def __init__(self, segment: Segment, engine: Process) -> None:
        self._segment = segment
        self._engine = engine
        self._locked: tuple[CudaDriver, int] | None = None  # the driver and the device through which pages are locked
        self._could_not_lock = False
        self._opened: _OpenedMemory | None = None
        self._driver: CudaDriver | None = None

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
        segment = self._segment
        if self._opened is None and not device_offer.is_offered(segment.mapping):
            return None  # at once: for an engine of the host this is asked for each frame
        if not self._engine.alive:
            raise PeerDied(f"the engine's process ({self._engine.name}) ended", backend="shm", hint="start it again")
        for _ in range(_TRIES):
            offer = device_offer.read_offer(segment.mapping, segment.spec, str(segment.path))
            if offer is None:
                self._opened = None
                return None
            if self._opened is None or self._opened.generation != offer.generation:
                self._opened = None  # before the next: the engine may be waiting for it
                self._opened = _OpenedMemory(driver, offer, segment)
            if device_offer.current_generation(segment.mapping) == offer.generation:
                return self._opened.array(segment)
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
        if self._opened is not None:
            self._opened.mark.clear()  # the next client has that word
            self._opened = None
        if self._locked is not None:
            (driver, ordinal), self._locked = self._locked, None
            try:
                driver.unregister(_address(self._segment.mapping), ordinal)
            except DeviceError as error:
                _log.warning("the pages of %s were not unlocked: %s", self._segment.path, error)

    def forget(self) -> None:
        """In a forked child: leave everything as it is, since it belongs to the parent."""
        self._locked = None
        self._opened = None


class _OpenedMemory:
    """An engine's device memory, mapped for as long as this object or an array of it lives."""

    def __init__(self, driver: CudaDriver, offer: DeviceOffer, segment: Segment) -> None:
        device = find_device(driver.devices(), offer.uuid, offer.ordinal)
        if device is None:
            seen = ", ".join(f"{one.ordinal}: {one.name}" for one in driver.devices())
            raise DeviceError(
                f"the engine's observations lie on its GPU {offer.ordinal} ({offer.uuid.hex()}), which this process "
                f"does not see; it sees {seen}",
                backend="shm",
                hint="let CUDA_VISIBLE_DEVICES of both processes contain that device",
            )
        self.generation = offer.generation
        self.ordinal = device.ordinal
        self.mark = _OpenMark(segment.mapping, offer.generation)
        try:
            begin, size = driver.open(offer.handle, device.ordinal)
        except DeviceError as error:
            self.mark.clear()
            raise DeviceError(
                f"the engine's device memory cannot be opened: {error}",
                backend="shm",
                hint="it must come from cudaMalloc in another process of this host that still runs",
            ) from error
        self._end = weakref.finalize(self, _close_memory, driver, begin, device.ordinal, os.getpid(), self.mark)
        self.pointer = begin + offer.offset
        if offer.offset + offer.size_bytes > size:
            self._end()
            raise SegmentError(
                f"{segment.path}: gpu_obs_offset is {offer.offset}: {offer.size_bytes} bytes of observations there do "
                f"not lie in the {size} bytes that the handle opens",
                backend="shm",
                hint="start the engine again",
            )

    def array(self, segment: Segment) -> DeviceArray:
        spec = segment.spec
        return DeviceArray(
            self.pointer, spec.observation_shape, np.dtype(spec.observation.dtype).str, self.ordinal, self
        )


class _OpenMark:
    """The client's word in the header, which says that it has the handle of one generation open."""

    def __init__(self, mapping: Mapping, generation: int) -> None:
        self._mapping: Mapping | None = mapping
        self._generation = generation
        device_offer.mark_open(mapping, generation)

    def clear(self) -> None:
        """Take it back, once."""
        mapping, self._mapping = self._mapping, None
        if mapping is not None and not mapping.is_cut:
            device_offer.clear_open(mapping, self._generation)


def _close_memory(driver: CudaDriver, pointer: int, ordinal: int, pid: int, mark: _OpenMark) -> None:
    if os.getpid() != pid:  # a forked child: the mapping belongs to its parent, and the driver does not work here
        return
    try:
        driver.close(pointer, ordinal)
    except DeviceError as error:
        _log.warning("an engine's device memory was not closed: %s", error)
    mark.clear()


def _address(mapping: Mapping) -> int:
    return np.frombuffer(mapping, np.uint8).ctypes.data


def offer_observations(segment: Segment, observations: DeviceObservations | None) -> Callable[[], None]:
    """Pass on what the engine publishes, in the header of its segment; returns the function that ends that.

    Raises DeviceError when there is no driver, or memory that was published already cannot be shared.
    """
    if observations is None:
        return _nothing
    if observations.to_host is not None:
        features = header.get(segment.mapping, "engine_features")
        header.put(segment.mapping, "engine_features", features | Feature.DEVICE_ONLY)
    watcher = _SegmentOffer(segment)
    end = observations.watch(watcher)

    def withdraw() -> None:
        end()
        if not segment.mapping.is_cut:
            device_offer.write_offer(segment.mapping, None)

    return withdraw


class _SegmentOffer:
    """Writes what an engine publishes into the header of one segment."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def published(self, buffer: DeviceBuffer | None) -> None:
        mapping, spec = self._segment.mapping, self._segment.spec
        if buffer is None:
            device_offer.write_offer(mapping, None)
            return
        expected = spec.num_envs * spec.observation.size * spec.observation.itemsize_bytes
        if buffer.size_bytes != expected:
            raise DeviceError(
                f"{buffer.size_bytes} bytes of device memory were published, the observations have {expected}",
                backend="shm",
                hint=f"publish {spec.observation_shape} {spec.observation.dtype}, C-contiguous, and nothing else",
            )
        device_offer.write_offer(mapping, libcuda.load_driver().export(buffer.pointer), expected)

    def is_older_open(self) -> bool:
        return not self._segment.mapping.is_cut and device_offer.is_older_open(self._segment.mapping)


def _nothing() -> None:
    pass
