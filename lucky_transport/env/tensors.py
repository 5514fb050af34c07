"""The newest observations of an env as a PyTorch tensor, on the CPU or on a GPU.

A copy to a GPU goes on while the program does. What it reads is memory that the engine writes again, so the exchange
that would overwrite it waits for the copy first. PyTorch is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.cuda import libcuda
from lucky_transport.errors import ConfigError, DeviceError, LocalProtocolError, MissingExtra, SpecError
from lucky_transport.transport import Frame, Transport

__all__ = ["TorchObservations"]


@dataclass(frozen=True, slots=True)
class _Reading:
    """Something that reads memory of the engine. due: the exchange before which it has to be over."""

    due: int
    wait: Callable[[], object]
    memory: object  # kept until then


class TorchObservations:
    """Makes tensors of one env's frames; `copies` as the env's `copy`."""

    def __init__(self, transport: Transport, *, copies: bool) -> None:
        """Raises MissingExtra without PyTorch, SpecError for observations with parts."""
        spec = transport.spec
        if spec.observation_parts:
            raise SpecError(
                f"the observations of engine {spec.engine!r} have parts, a tensor has none",
                hint="use torch.from_numpy on the arrays that step() returns",
            )
        self._torch = _import_torch()
        self._transport = transport
        self._copies = copies
        self._slots = transport.observation_slots
        self._sent = 0
        self._readings: list[_Reading] = []
        self._streams: dict[Any, Any] = {}

    def newest(self, frame: Frame, device: Any, *, under_way: bool, on_host: bool) -> Any:
        """Return the observations of `frame`, the last that was received, on `device`.

        under_way: the next exchange has begun. on_host: the frame has its observations. Raises ConfigError,
        DeviceError, SpecError, SegmentError, PeerDied, LocalProtocolError.
        """
        target = self._device(device)
        received = self._sent - under_way
        if target.type == "cpu" and on_host:
            return self._tensor(frame.observations.copy() if self._copies else _writable(frame.observations))
        if target.type != "cuda" and on_host:
            return self._tensor(frame.observations.copy()).to(target)
        driver = libcuda.load_driver()
        shared = self._transport.device_observations(driver)
        if shared is None and not on_host:
            raise DeviceError(
                "the engine offers its observations on no device any more, and wrote these for none else",
                backend=self._transport.name,
                hint="set env.observations = 'host' before the step",
            )
        if shared is None:
            self._transport.lock_pages(driver, target.index)
            return self._uploaded(frame.observations, target, received + self._slots)
        if under_way:
            raise LocalProtocolError(
                "the engine is writing its device memory: a step is under way",
                backend=self._transport.name,
                hint="call step_wait() first",
            )
        return self._of_device(shared, target, received + 1)

    def _device(self, device: Any) -> Any:
        torch = self._torch
        try:
            target = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise ConfigError(f"device {device!r}: {error}", hint="write 'cpu', 'cuda' or 'cuda:0'") from error
        if target.type != "cuda":
            return target
        if not torch.cuda.is_available():
            raise DeviceError(
                f"device {device!r}: PyTorch {torch.__version__} sees no CUDA device",
                hint="`lucky-transport doctor` says whether there is a driver; PyTorch must be built for CUDA; 'cpu' "
                "needs neither",
            )
        count = torch.cuda.device_count()
        index = torch.cuda.current_device() if target.index is None else target.index
        if index >= count:
            raise DeviceError(f"device {device!r}: there are {count} CUDA devices", hint="see CUDA_VISIBLE_DEVICES")
        return torch.device("cuda", index)

    def _tensor(self, array: NDArray[Any]) -> Any:
        with self._types_named():
            return self._torch.from_numpy(array)

    @contextmanager
    def _types_named(self) -> Generator[None]:
        """Raise SpecError where PyTorch has no tensors of the observations' type."""
        try:
            yield
        except TypeError as error:
            dtype = self._transport.spec.observation.dtype
            raise SpecError(
                f"PyTorch {self._torch.__version__} has no tensors of {dtype}: {error}",
                hint="convert the arrays that step() returns",
            ) from error

    def _uploaded(self, rows: NDArray[Any], target: Any, due: int) -> Any:
        """Return a tensor on a GPU into which `rows` are being copied; work of the present stream waits for that."""
        torch = self._torch
        stream = self._streams.get(target)
        if stream is None:
            stream = self._streams[target] = torch.cuda.Stream(target)
        source = self._tensor(_writable(rows))
        with torch.cuda.stream(stream):
            tensor = source.to(target, non_blocking=True)
            copied = stream.record_event()
        consumer = torch.cuda.current_stream(target)
        consumer.wait_event(copied)
        tensor.record_stream(consumer)  # it is of the other stream, and may be freed while this one still reads it
        self._readings.append(_Reading(due, copied.synchronize, source))
        return tensor

    def _of_device(self, shared: Any, target: Any, due: int) -> Any:
        """Return a tensor of the engine's device memory: a copy, or a view where the env hands out views."""
        torch = self._torch
        place = self._device(f"cuda:{shared.ordinal}")
        with self._types_named():
            view = torch.as_tensor(shared, device=place)
        reader = torch.cuda.current_stream(place)
        if not self._copies and target == place:
            # whatever the program asks of the view until then has to be over
            self._readings.append(_Reading(due, reader.synchronize, view))
            return view
        tensor = view.to(target, copy=True)
        self._readings.append(_Reading(due, reader.record_event().synchronize, view))
        return tensor

    def before_exchange(self) -> None:
        """Wait for what reads the memory that the next exchange overwrites; to be called before each."""
        self._sent += 1
        if self._readings:
            self._wait(self._sent)

    def _wait(self, due: int) -> None:
        later: list[_Reading] = []
        for reading in self._readings:
            if reading.due <= due:
                reading.wait()
            else:
                later.append(reading)
        self._readings = later

    def close(self) -> None:
        """Wait for everything that reads the engine's memory."""
        for reading in self._readings:
            reading.wait()
        self._readings = []


def _import_torch() -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports] - optional, and large
    except ImportError as error:
        raise MissingExtra(f"observations_torch needs PyTorch ({error})", hint="pip install torch") from error
    return torch


def _writable(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the same memory as an array that may be written, a copy where it may not.

    PyTorch has no read-only tensors, and warns of each that is made from a read-only array.
    """
    alias = rows.view()
    try:
        alias.flags.writeable = True
    except ValueError:
        return np.array(rows)
    return alias
