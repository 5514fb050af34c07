"""iceoryx2 as a peer: publish and subscribe in shared memory, one service each way, polled as its own benchmark does.

Messages are written and read where they lie; a view of a chunk is made once per chunk, not per message. Files and
segments of a pair bear the pair's own prefix and are gone when it is closed.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Self

import iceoryx2
import numpy as np

from lucky_transport.process import unique_name
from lucky_transport_migration.bench.peers.wire import Bytes, Offer, polled

__all__ = ["Iceoryx"]

# The package is a compiled module without type hints, so its names are not known to a checker.
_iox: Any = iceoryx2
_SHM = Path("/dev/shm")


class Iceoryx:
    """`address` is the prefix and the directory of the pair; `first` tells which service is written."""

    def __init__(self, address: str, largest: int, *, first: bool) -> None:
        self._prefix, _, directory = address.partition(":")
        self._largest, self._first = largest, first
        self._views: dict[int, Bytes] = {}
        self._sample: Any = None
        _iox.set_log_level(_iox.LogLevel.Error)
        config = _iox.config.default()
        config.global_cfg.prefix = _iox.FileName.new(self._prefix)
        config.global_cfg.root_path = _iox.Path.new(directory)
        builder = _iox.NodeBuilder.new().config(config)
        self._node = builder.signal_handling_mode(_iox.SignalHandlingMode.Disabled).create(_iox.ServiceType.Ipc)
        names = ("requests", "answers") if first else ("answers", "requests")
        written, read = (self._service(name) for name in names)
        publisher = written.publisher_builder().initial_max_slice_len(largest).max_loaned_samples(1)
        self._publisher = publisher.create()
        self._subscriber = read.subscriber_builder().create()
        self._loan: Any = None

    def _service(self, name: str) -> Any:
        builder = self._node.service_builder(_iox.ServiceName.new(name))
        builder = builder.publish_subscribe(iceoryx2.Slice[ctypes.c_uint8])
        builder = builder.max_publishers(1).max_subscribers(1).subscriber_max_buffer_size(2)
        return builder.subscriber_max_borrowed_samples(2).enable_safe_overflow(False).open_or_create()

    @classmethod
    def offer(cls, directory: Path, largest: int) -> Offer:
        address = f"{unique_name()}_:{directory}/"
        return Offer(cls(address, largest, first=True), address)

    @classmethod
    def accept(cls, address: str, largest: int) -> Self:
        return cls(address, largest, first=False)

    def blank(self, nbytes: int) -> Bytes:
        self._loan = self._publisher.loan_slice_uninit(nbytes)
        return self._view(self._loan.payload_ptr)[:nbytes]

    def send(self) -> None:
        receivers = self._loan.assume_init().send()
        if not receivers:
            raise EOFError("no iceoryx2 subscriber is left")

    def receive(self, nbytes: int) -> Bytes:
        if self._sample is not None:
            self._sample.delete()
        self._sample = polled(self._subscriber.receive, "iceoryx2")
        return self._view(self._sample.payload_ptr)[:nbytes]

    def _view(self, address: int) -> Bytes:
        view = self._views.get(address)
        if view is None:
            chunk: Any = (ctypes.c_uint8 * self._largest).from_address(address)
            view = np.frombuffer(chunk, np.uint8)
            self._views[address] = view
        return view

    def close(self) -> None:
        for one in (self._sample, self._subscriber, self._publisher):
            if one is not None:
                one.delete()
        self._views.clear()
        del self._node
        if self._first:  # a segment for the node's own use stays after it
            for left in _SHM.glob(f"{self._prefix}*"):
                left.unlink(missing_ok=True)
