"""The newest observations of an env as a PyTorch tensor, on the CPU or on a GPU.

A copy of much goes on while the program does. What it reads is memory that the engine writes again, so the exchange
that would overwrite it waits for the copy first. PyTorch is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.cuda import libcuda
from lucky_transport.cuda.memory import DeviceArray
from lucky_transport.errors import ConfigError, DeviceError, LocalProtocolError, MissingExtra, SpecError
from lucky_transport.foreign_code import import_problem
from lucky_transport.transport import Frame, Transport

#: Observations up to this size are copied to a GPU as `torch.from_numpy(...).to(device)` copies them. Of the device in
#: docs/how-to/gpu.md that takes 85 us and 0.137 us a kB; a copy beside the program, of locked pages, 184 to 257 us and
#: 0.02 us a kB: the two meet between 0.8 and 1.5 MB.
_PLAIN_BYTES = 1_500_000


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
        if why := import_problem("torch"):
            raise MissingExtra(f"observations_torch needs PyTorch ({why})", hint="pip install torch")
        import torch  # pyright: ignore[reportMissingImports] - optional, and large

        self._torch: Any = torch
        self._transport = transport
        self._copies = copies
        self._slots = transport.observation_slots
        self._is_small = spec.num_envs * spec.observation.size * spec.observation.itemsize_bytes <= _PLAIN_BYTES
        self._sent = 0
        #: By slot, which exchange n overwrites where n modulo the slots is its number: what has it wait for a reader of
        #: its memory, and what keeps that memory meanwhile.
        self._readers: list[list[tuple[Callable[[], object], object]]] = [[] for _ in range(self._slots)]
        self._devices: dict[Any, Any] = {}  # by what the program calls them
        self._uploads: dict[Any, tuple[Any, list[Any]]] = {}  # by device: a stream, and an event for each slot

    def newest(self, frame: Frame, device: Any, *, under_way: bool, on_host: bool) -> Any:
        """Return the observations of `frame`, the last that was received, on `device`.

        under_way: the next exchange has begun. on_host: the frame has its observations. Raises ConfigError,
        DeviceError, SpecError, SegmentError, PeerDied, LocalProtocolError.
        """
        target = self._device(device)
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
            source = self._tensor(_writable(frame.observations))
            if self._is_small or not self._transport.lock_pages(driver, target.index):
                return source.to(target)
            return self._uploaded(source, target, (self._sent - under_way) % self._slots)
        if under_way:
            raise LocalProtocolError(
                "the engine is writing its device memory: a step is under way",
                backend=self._transport.name,
                hint="call step_wait() first",
            )
        return self._of_device(shared, target)

    def _device(self, device: Any) -> Any:
        """Return the device, with its number where it is a GPU; "cuda" is the present one."""
        try:
            found = self._devices.get(device)
        except TypeError:  # it cannot be a key, and PyTorch says what it is
            found = None
        if found is None:
            found = self._devices[device] = self._found(device)
        if found.type == "cuda" and found.index is None:
            return self._torch.device("cuda", self._torch.cuda.current_device())
        return found

    def _found(self, device: Any) -> Any:
        torch = self._torch
        try:
            target = torch.device("cuda", device) if type(device) is int else torch.device(device)
        except (RuntimeError, TypeError) as error:
            first = str(error).partition("\n")[0]
            raise ConfigError(f"device {device!r}: {first}", hint="write 'cpu', 'cuda' or 'cuda:0'") from error
        if target.type != "cuda":
            try:
                torch.from_numpy(np.empty(0, np.uint8)).to(target)
            except (RuntimeError, AssertionError, ImportError) as error:
                first = str(error).partition("\n")[0]
                raise DeviceError(f"device {device!r}: {first}", hint="'cpu' is always there") from error
            return target
        if not torch.cuda.is_available():
            raise DeviceError(
                f"device {device!r}: PyTorch {torch.__version__} sees no CUDA device",
                hint="`lucky-transport doctor` says whether there is a driver; PyTorch must be built for CUDA; 'cpu' "
                "needs neither",
            )
        count = torch.cuda.device_count()
        if target.index is not None and target.index >= count:
            raise DeviceError(f"device {device!r}: there are {count} CUDA devices", hint="see CUDA_VISIBLE_DEVICES")
        return target

    def _tensor(self, array: NDArray[Any]) -> Any:
        return self._typed(self._torch.from_numpy, array)

    def _typed(self, make: Callable[..., Any], memory: Any, **named: Any) -> Any:
        """Return a tensor of `memory`; raises SpecError where PyTorch has none of the observations' type."""
        try:
            return make(memory, **named)
        except TypeError as error:
            dtype = self._transport.spec.observation.dtype
            raise SpecError(
                f"PyTorch {self._torch.__version__} has no tensors of {dtype}: {error}",
                hint="convert the arrays that step() returns",
            ) from error

    def _uploaded(self, source: Any, target: Any, slot: int) -> Any:
        """Return a tensor on a GPU into which `source` is being copied; work of the present stream waits for that."""
        cuda = self._torch.cuda
        if target not in self._uploads:
            self._uploads[target] = cuda.Stream(target), [cuda.Event() for _ in range(self._slots)]
        stream, events = self._uploads[target]
        with cuda.stream(stream):
            tensor = source.to(target, non_blocking=True)
        copied = events[slot]
        copied.record(stream)
        consumer = cuda.current_stream(target)
        consumer.wait_event(copied)
        tensor.record_stream(consumer)  # it is of the other stream, and may be freed while this one still reads it
        self._readers[slot].append((copied.synchronize, source))
        return tensor

    def _of_device(self, shared: DeviceArray, target: Any) -> Any:
        """Return a tensor of the engine's device memory: a copy, or a view where the env hands out views."""
        place = self._device(f"cuda:{shared.ordinal}")
        reader = self._torch.cuda.current_stream(place)
        events = shared.events
        if events is not None:
            events.wait_frame(reader.cuda_stream)
        tensor = view = self._typed(self._torch.as_tensor, shared, device=place)
        is_copy = self._copies or target != place
        if is_copy:
            tensor = view.to(target, copy=True)
        if events is not None:  # the engine's stream waits, for whatever this one was given before the next exchange
            wait = partial(events.record_client, reader.cuda_stream)
        else:
            wait = reader.record_event().synchronize if is_copy else reader.synchronize
        self._readers[(self._sent + 1) % self._slots].append((wait, view))  # it writes that memory, in any slot
        return tensor

    def before_exchange(self) -> None:
        """Wait for what reads the memory that the next exchange overwrites, or have the engine's stream wait for it.

        To be called before each exchange.
        """
        self._sent += 1
        readers = self._readers[self._sent % self._slots]
        if readers:
            _wait(readers)

    def close(self) -> None:
        """Wait for everything that reads the engine's memory."""
        for readers in self._readers:
            _wait(readers)


def _wait(readers: list[tuple[Callable[[], object], object]]) -> None:
    for wait, _ in readers:
        wait()
    readers.clear()


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
