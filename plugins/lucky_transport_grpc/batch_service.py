"""Our BatchService: the spec, whole exchanges as packed bytes, and which clients are attached."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, TICK
from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport.host.driver_lease import DriverLease
from lucky_transport.host.host import Host
from lucky_transport.spec.actions import check_actions, check_control
from lucky_transport_grpc import _pb
from lucky_transport_grpc.caller import Caller
from lucky_transport_grpc.codec import unpack

_PATH = "/lucky_transport.v1.BatchService/"


class BatchService:
    """Handlers by path, with a lease of their own; an attached client keeps the lease of the agents too."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lease = DriverLease(host)
        self._spec_response: Any = _pb.methods()[_PATH + "GetSpec"].response
        self._exchange_response: Any = _pb.methods()[_PATH + "Exchange"].response
        self._event: Any = _pb.methods()[_PATH + "Attach"].response
        self._lock = threading.Lock()
        self._attached: dict[str, queue.SimpleQueue[str]] = {}
        self._closing = False

    @property
    def unary(self) -> dict[str, Callable[[Any, Caller], Any]]:
        """The methods with one response."""
        return {_PATH + "GetSpec": self._get_spec, _PATH + "Exchange": self._exchange}

    @property
    def streaming(self) -> dict[str, Callable[[Any, Caller], Iterator[Any]]]:
        """The methods with a stream of responses."""
        return {_PATH + "Attach": self._attach}

    def _get_spec(self, _: Any, caller: Caller) -> Any:
        return self._spec_response(spec_json=self._lease.spec.to_json())

    def _exchange(self, request: Any, caller: Caller) -> Any:
        lease = self._lease
        actions, control = self._read(request)  # every byte is checked before the engine's buffers are touched

        def act() -> Any:
            last = lease.last_seq("Exchange")
            if last and request.action_seq not in (last, last + 1):
                raise RemoteProtocolError(
                    f"exchange {request.action_seq} after exchange {last}: expected {last + 1}", backend="grpc"
                )

            def exchange() -> None:
                np.copyto(lease.buffers.actions, actions)
                lease.exchange(control)

            lease.once("Exchange", request.action_seq, exchange)
            buffers = lease.buffers
            return self._exchange_response(
                frame_seq=lease.frames,
                observations=buffers.observations.tobytes(),
                rewards=buffers.rewards.tobytes(),
                terminated=buffers.terminated.tobytes(),
                truncated=buffers.truncated.tobytes(),
                signals=buffers.signals.tobytes(),
            )

        return lease.run(caller.driver, caller.timeout_s, act)

    def _read(self, request: Any) -> tuple[NDArray[Any], NDArray[np.uint8] | None]:
        spec = self._lease.spec
        if not request.action_seq:
            raise SpecError("action_seq is 0; exchanges are numbered from 1", backend="grpc")
        actions = unpack("actions", request.actions, spec.action.dtype, spec.action_shape, SpecError)
        try:
            actions = check_actions(spec, actions)
        except (ValueError, TypeError) as error:
            raise SpecError(str(error), backend="grpc") from error
        if not request.control:
            return actions, None
        control = unpack("control", request.control, "uint8", (spec.num_envs,), SpecError)
        unknown = control[control > (RESET | HOLD | TICK)]
        if unknown.size:
            raise SpecError(
                f"control byte {unknown[0]}: expected 0 to 7 (bit 0 reset, bit 1 hold, bit 2 tick)", backend="grpc"
            )
        return actions, check_control(spec, control)

    def _attach(self, request: Any, caller: Caller) -> Iterator[Any]:
        """Keep the caller's lease for as long as the stream lives."""
        events: queue.SimpleQueue[str] = queue.SimpleQueue()
        with self._lock:
            if self._closing:
                return
            self._attached[caller.key] = events
        name = f"grpc client of pid {request.pid}" if request.pid else f"grpc client {caller.key}"
        for lease in (self._lease, self._host.agents.lease):
            lease.attach(caller.key, f"{name} ({caller.key})")
        try:
            caller.on_end(lambda: events.put(""))
            events.put("ready")
            while state := events.get():
                yield self._event(engine_state=state)
        finally:
            with self._lock:
                self._attached.pop(caller.key, None)
            self._lease.detach(caller.key)
            self._host.leave(caller.key)

    def close(self) -> None:
        """Tell every attached client that the engine closes, and end its stream."""
        with self._lock:
            self._closing = True
            for events in self._attached.values():
                events.put("closing")
                events.put("")

    def leave(self, key: str) -> None:
        """The client `key` has gone: its lease is given back. May wait for its exchange in progress."""
        self._lease.detach(key)

    def release(self, via: object) -> None:
        """Give the engine back if a client let in by `via` drives it."""
        self._lease.release(via)
