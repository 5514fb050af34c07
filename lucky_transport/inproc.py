"""The transport without a wire: the engine runs in the client's process.

It is the reference of parity and the floor of every benchmark. `inproc://name` finds a host that `serve` started in
this process under that name. The client's buffers are the engine's buffers. Calls and streams run on the calling
thread, so nothing ends a handler that does not check its call.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.call import Call, check_request, check_stream, check_unary, deadline_error
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import Buffers
from lucky_transport.errors import Cancelled, ClosedError, EngineFailed, NotReachable, TransportError
from lucky_transport.host.env_steps import EnvSteps
from lucky_transport.host.host import Host, Lease
from lucky_transport.host.slots import ObservationSlots
from lucky_transport.independent import SentEnvs, envs_late, together_only
from lucky_transport.lockstep import LockstepEvent, LockstepState, LockstepTransport
from lucky_transport.messages.images import owned
from lucky_transport.messages.methods import Method
from lucky_transport.serving import Server
from lucky_transport.transport import Capabilities, Frame, Stream
from lucky_transport.uninterrupted import WaitQueue, uninterrupted

_STEP_TIMEOUT_S = Settings().step_timeout_s

_hosts: dict[str, Host] = {}
_names = itertools.count(1)


def connect(endpoint: Endpoint, settings: Settings) -> InprocTransport:
    """Return a transport to the host that serves `inproc://name` in this process; raises NotReachable."""
    return InprocTransport(host_at(endpoint), settings.observation_slots, settings.step_timeout_s)


def host_at(endpoint: Endpoint) -> Host:
    """Return the host that serves `inproc://name` in this process; raises NotReachable."""
    host = _hosts.get(endpoint.address)
    if host is None:
        raise NotReachable(
            f"no engine at {endpoint} in this process",
            backend="inproc",
            hint="serve it here first: lucky_transport.serve(engine, endpoint)",
        )
    return host


def server(endpoint: Endpoint, settings: Settings) -> InprocServer:
    """Return a server that makes its host known under the endpoint's address."""
    return InprocServer(endpoint)


class InprocServer(Server):
    """Makes one host known by name within this process."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint if endpoint.address else endpoint.with_address(f"engine_{next(_names)}")

    def start(self, host: Host) -> Endpoint:
        if self._endpoint.address in _hosts:
            raise NotReachable(f"{self._endpoint} is taken in this process", backend="inproc", hint="use another name")
        _hosts[self._endpoint.address] = host
        return self._endpoint

    def stop(self, grace_s: float = 1.0) -> None:
        _hosts.pop(self._endpoint.address, None)


class InprocTransport(LockstepTransport):
    """A client in the engine's own process."""

    name = "inproc"

    def __init__(self, host: Host, observation_slots: int = 1, step_timeout_s: float = _STEP_TIMEOUT_S) -> None:
        first = Buffers.allocate(host.spec)
        super().__init__(host.spec, first.actions)
        self._host = host
        can_send = host.parallel_envs > 0 and observation_slots == 1
        self.capabilities = Capabilities(zero_copy=True, streams=True, sessions=True, async_envs=can_send)
        others = (np.zeros_like(first.observations) for _ in range(observation_slots - 1))
        self._buffers = [first, *(replace(first, observations=observations) for observations in others)]
        self.observation_slots = observation_slots
        self._turn = 0
        self._lease: Lease | None = None
        self._is_released = False
        self._step_timeout_s = step_timeout_s
        self._sent = SentEnvs(host.spec, self.name)
        self._steps: EnvSteps | None = None
        self._ended: dict[int, TransportError | None] = {}  # an env counts here while it is under way
        self._receivers = WaitQueue()
        self._control: NDArray[np.uint8] | None = None
        self._frames = [Frame.showing(buffers) for buffers in self._buffers]
        self._caller = f"inproc client {next(_names)} of pid {self._pid}"
        self._open: weakref.WeakSet[InprocStream] = weakref.WeakSet()

    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        self._note_last_env()
        checked, self._control = self._check(actions, control)
        self._keep(checked)
        self._lockstep.on(LockstepEvent.SEND)

    def recv(self, deadline: Deadline | None = None) -> Frame:
        self._check_sent()
        try:
            lease = self._drive()
            self._turn = (self._turn + 1) % self.observation_slots
            lease.step(self._control)
        except BaseException:
            self._lockstep.on(LockstepEvent.REFUSED)
            raise
        self._lockstep.on(LockstepEvent.FRAME)
        return self._numbered(self._frames[self._turn])

    def _drive(self) -> Lease:
        """Return the lease; taking it shows the last frame, and actions sent before it are still in place."""
        if self._lease is None:
            slots = ObservationSlots(self._buffers, lambda: self._turn) if self.observation_slots > 1 else None
            self._lease = self._host.drive(f"inproc client of pid {self._pid}", self._buffers[0], slots=slots)
        return self._lease

    def send_envs(
        self, actions: NDArray[Any], env_ids: NDArray[Any] | None = None, control: NDArray[np.uint8] | None = None
    ) -> None:
        if self._lockstep.state not in (LockstepState.READY, LockstepState.ENVS):
            raise self._lockstep.state_error(LockstepEvent.SEND_ENVS)
        self._check_process()
        if not self.capabilities.async_envs:
            raise together_only(self.spec.engine, self.observation_slots, self.name)
        rows, ids, codes = self._sent.check(actions, env_ids, control)
        if self._steps is None:
            [self._steps] = uninterrupted(EnvSteps, self._host, self._drive(), self._on_ended)
        self.actions[ids] = rows
        self.out_of_bounds += self._bounds.count_outside(rows)
        envs = list(zip(ids.tolist(), codes.tolist(), strict=True))
        self._lockstep.on(LockstepEvent.SEND_ENVS)
        not_begun: object = envs
        try:
            for env, _ in envs:
                self._ended.pop(env, None)
            self._sent.mask[ids] = True
            [not_begun] = uninterrupted(self._steps.begin, envs)
        finally:
            if not_begun is not None:
                self._sent.mask[ids] = False

    @property
    def envs_under_way(self) -> int:
        return self._sent.count

    def _on_ended(self, env: int, failure: TransportError | None) -> None:
        self._ended[env] = failure
        self._receivers.wake_all()

    def recv_envs(self, least: int = 1, deadline: Deadline | None = None) -> tuple[NDArray[np.int32], Frame]:
        if self._lockstep.state is not LockstepState.ENVS:
            raise self._lockstep.state_error(LockstepEvent.LAST_ENV)
        self._check_process()
        self._sent.check_least(least)
        deadline = Deadline.after(deadline, self._step_timeout_s)

        def ended() -> list[int]:
            return [env for env in tuple(self._ended) if self._sent.mask[env]]

        def is_enough() -> bool:
            envs = ended()
            return len(envs) >= least or any(self._ended[env] is not None for env in envs)

        if not self._receivers.wait_for(is_enough, deadline.remaining_s):
            raise envs_late(len(ended()), least, deadline.timeout_s, self.name)
        received = ended()
        failed = next((env for env in received if self._ended[env] is not None), None)
        ids = np.array(sorted(received) if failed is None else [failed], np.int32)
        self._sent.mask[ids] = False
        self._note_last_env()
        if failed is not None and (failure := self._ended[failed]) is not None:
            raise failure
        return ids, self._frames[0]

    def _note_last_env(self) -> None:
        """Go on from the last env; also where a signal handler's exception prevented that."""
        if self._lockstep.state is LockstepState.ENVS and not self._sent.count:
            self._lockstep.on(LockstepEvent.LAST_ENV)

    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        call = self._begin(deadline)
        check_unary(method)
        check_request(method, request)
        return owned(self._host.call(method, request, call))

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        call = self._begin(deadline)
        check_stream(method)
        check_request(method, request)
        stream = InprocStream(method, self._host.stream(method, request, call), call, copy, self._check_process)
        self._open.add(stream)
        return stream

    def implements(self, method: Method) -> bool:
        return self._host.implements(method) and method.name not in self._host.switch.refused

    def _begin(self, deadline: Deadline | None) -> Call:
        if self._lockstep.state is LockstepState.CLOSED:
            raise _closed()
        self._check_process()
        return Call(self._caller, deadline, between_steps=lambda: self._host.lock)

    def close(self) -> None:
        self._lockstep.on(LockstepEvent.CLOSE)
        if not self._is_released and os.getpid() == self._pid:
            for stream in list(self._open):
                stream.close()
            if self._steps is not None:
                self._steps.close()  # it has the lease
            elif self._lease is not None:
                self._lease.release()
            self._host.leave(self._caller)
            self._is_released = True  # last: what a signal handler interrupts is done again by the next call


class InprocStream(Stream):
    """A stream whose handler runs on the thread that asks for its items."""

    def __init__(
        self, method: Method, items: Generator[Any], call: Call, copy: bool, check_process: Callable[[], None]
    ) -> None:
        self._method = method
        self._check_process = check_process
        self._items = items
        self._call = call
        self._copy = copy
        self._cancelled = False
        self._closed = False
        self._ended = False
        self._error: TransportError | None = None

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a count, read only
        """Items that the handler skipped so far because the client did not ask for them in time."""
        return self._call.dropped

    def __next__(self) -> Any:
        self._check_process()
        if self._ended or self._cancelled or self._closed:
            raise self._outcome()
        deadline = self._call.deadline
        self._call.asked_late = deadline is not None and deadline.expired
        try:
            item = next(self._items)
            if deadline is not None and self._call.asked_late:
                raise deadline_error(self._method.name, deadline.timeout_s, "inproc")
        except StopIteration:
            self._ended = not (self._cancelled or self._closed)
        except TransportError as error:
            self._ended, self._error = True, error
        else:
            if not (self._cancelled or self._closed):
                return owned(item) if self._copy else item
        self._end()
        raise self._outcome()

    def _outcome(self) -> BaseException:
        if self._error is not None:
            return type(self._error)(str(self._error), backend=self._error.backend)
        if self._closed:
            return _closed()
        if self._cancelled:
            return Cancelled(f"{self._method.name} was cancelled", backend="inproc")
        return StopIteration()

    def cancel(self) -> None:
        if not (self.__dict__.get("_ended", True) or self._closed):
            self._cancelled = True
            self._end()

    def close(self) -> None:
        """End it because its transport closes."""
        if not (self._ended or self._cancelled):
            self._closed = True
            self._end()

    def _end(self) -> None:
        self._call.end()
        with contextlib.suppress(ValueError, EngineFailed):  # another thread is inside: it is woken by the call's end
            self._items.close()  # what its handler raises now is of no interest any more


def _closed() -> ClosedError:
    return ClosedError("the transport is closed", backend="inproc", hint="connect again")
