"""The engine's end of GPUs: what it publishes, offered in the header of its segment, and the order of its steps."""

from __future__ import annotations

import contextlib
import logging

from lucky_transport.cuda import libcuda
from lucky_transport.cuda.driver import Device, ExportedMemory
from lucky_transport.cuda.memory import DeviceBuffer, DeviceEvents
from lucky_transport.engine import Engine
from lucky_transport.errors import DeviceError
from lucky_transport.host.slots import OnHost
from lucky_transport.shm.segment import device_offer, header
from lucky_transport.shm.segment.device_offer import ACTIONS, OBSERVATIONS, EventOffer, MemoryFields
from lucky_transport.shm.segment.layout import Feature
from lucky_transport.shm.segment.segment import Segment

_log = logging.getLogger("lucky_transport")


class EngineDevice(OnHost):
    """What the engine's end of a segment does with GPUs: offers what the engine publishes, and orders its steps."""

    def __init__(self, segment: Segment, engine: Engine, *, actions: bool) -> None:
        """Offer what was published already; `actions`: also the memory for those.

        Raises DeviceError when there is no driver, or that memory cannot be shared.
        """
        self._segment = segment
        self._stream = engine.device_stream
        self._device: Device | None = None  # of what was published last
        self._events: DeviceEvents | None = None
        self._makes_events = True
        observations = engine.device_observations
        if observations is not None and observations.to_host is not None:
            features = header.get(segment.mapping, "engine_features")
            header.put(segment.mapping, "engine_features", features | Feature.DEVICE_ONLY)
        offered = ((OBSERVATIONS, observations), (ACTIONS, engine.device_actions if actions else None))
        with contextlib.ExitStack() as undo:
            for of, memory in offered:
                if memory is not None:
                    undo.callback(self._withdraw, of)
                    undo.callback(memory.watch(_MemoryOffer(self, segment, of)))
            self._end = undo.pop_all()

    def exported(self, pointer: int) -> ExportedMemory:
        """Return memory as it is offered; its device is that of the stream."""
        memory = libcuda.load_driver().export(pointer)
        self._device = memory.device
        return memory

    def begin_step(self) -> bool:
        mapping = self._segment.mapping
        if self._events is not None and self._stream is not None:
            self._events.wait_client(self._stream)
        if header.get(mapping, "gpu_act_seq") != header.get(mapping, "action_seq"):
            return True
        if not device_offer.is_open(mapping, ACTIONS):
            raise DeviceError(
                "the engine replaced its memory for actions after this step's were written to it",
                backend="shm",
                hint="publish DeviceActions in the constructor or in step()",
            )
        return False

    def end_step(self) -> bool:
        mapping = self._segment.mapping
        if self._stream is not None and self._device is not None:
            if self._events is None and self._makes_events:
                self._offer_events(self._device)
            if self._events is not None:
                self._events.record_frame(self._stream)
            if self._events is None or not header.get(mapping, "client_features") & Feature.EVENTS:
                libcuda.load_driver().synchronize(self._stream, self._device.ordinal)
        return device_offer.is_read_here(mapping)

    def _offer_events(self, device: Device) -> None:
        driver = libcuda.load_driver()
        try:
            frame, client = driver.make_event(device.ordinal), driver.make_event(device.ordinal)
        except DeviceError as error:
            self._makes_events = False
            _log.warning("no events on GPU %d, each step waits for it: %s", device.ordinal, error)
            return
        self._events = DeviceEvents(driver, device.ordinal, frame.event, client.event)
        offer = EventOffer(frame.handle, client.handle, device.ordinal, device.uuid)
        device_offer.write_events(self._segment.mapping, offer)

    def let_go(self) -> None:
        """Forget what a client said, and the events: work that died with it would never end for the next one."""
        mapping = self._segment.mapping
        device_offer.read_here(mapping, True)
        for of in (OBSERVATIONS, ACTIONS):
            header.put(mapping, of.opened, 0)  # its process has ended, or it has closed what it had open
        header.put(mapping, "gpu_act_seq", 0)
        events, self._events = self._events, None
        if events is not None:
            device_offer.write_events(mapping, None)
            try:
                events.close()
            except DeviceError as error:
                _log.warning("the events of %s were not closed: %s", self._segment.path, error)

    def close(self) -> None:
        """Offer nothing any more."""
        self._end.close()

    def _withdraw(self, of: MemoryFields) -> None:
        if not self._segment.mapping.is_cut:
            device_offer.write_offer(self._segment.mapping, of, None)


class _MemoryOffer:
    """Writes what an engine publishes of one array into the header of one segment."""

    def __init__(self, device: EngineDevice, segment: Segment, of: MemoryFields) -> None:
        self._device = device
        self._segment = segment
        self._of = of

    def published(self, buffer: DeviceBuffer | None) -> None:
        mapping, spec, of = self._segment.mapping, self._segment.spec, self._of
        if buffer is None:
            device_offer.write_offer(mapping, of, None)
            return
        expected = device_offer.array_bytes(spec, of)
        if buffer.size_bytes != expected:
            row = of.spec_of(spec)
            raise DeviceError(
                f"{buffer.size_bytes} bytes of device memory were published, the {of.array} have {expected}",
                backend="shm",
                hint=f"publish {(spec.num_envs, *row.shape)} {row.dtype}, C-contiguous, and nothing else",
            )
        device_offer.write_offer(mapping, of, self._device.exported(buffer.pointer), expected)

    def is_older_open(self) -> bool:
        return not self._segment.mapping.is_cut and device_offer.is_older_open(self._segment.mapping, self._of)
