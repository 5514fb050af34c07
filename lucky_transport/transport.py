"""The contract of a transport's client end; its engine end is `lucky_transport.serving.Server`.

One exchange is `send` and then `recv`; `step` is both in one call:

    frame = transport.step(actions)                 # every env steps
    frame = transport.step(actions, control)        # some reset, some hold (lucky_transport.engine.RESET / HOLD)

No exchange is lost, doubled or torn: after `recv` the frame's `seq` is exactly one higher than before. Every wait ends,
at the deadline (PeerTimeout) or when the peer dies (PeerDied).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from lucky_transport.closing import Closing
from lucky_transport.deadline import Deadline
from lucky_transport.engine import Buffers
from lucky_transport.errors import LocalProtocolError, Unimplemented
from lucky_transport.futures import completed
from lucky_transport.spec.batch_spec import BatchSpec

if TYPE_CHECKING:
    from lucky_transport.aio import AsyncCalls
    from lucky_transport.cuda.libcuda import CudaDriver
    from lucky_transport.cuda.memory import DeviceArray
    from lucky_transport.messages.methods import Method

__all__ = ["Capabilities", "Frame", "Stream", "Transport"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features of a transport, declared by it; the contract suite checks each."""

    lockstep: bool = True
    hold: bool = True
    commands: bool = True
    streams: bool = False  # server streams
    zero_copy: bool = False  # frames are views of the engine's own memory
    sessions: bool = False
    images: bool = False  # images come in memory of their own, as views where asked for
    async_envs: bool = False  # envs are stepped on their own, where the engine does so


class Frame:
    """The result of one exchange. All arrays are read-only and valid until the next `send` on the same transport, the
    observations until `observation_slots` further ones.

    observations: spec dtype (num_envs, *shape). rewards: float32 (num_envs,), the default total. terminated, truncated:
    uint8 (num_envs,), nonzero = ended. signals: float32 (terms, num_envs), reward terms then termination terms.
    any_ended: False only when no env terminated or was truncated. seq: number of the exchange, from 1.
    """

    __slots__ = ("any_ended", "observations", "rewards", "seq", "signals", "terminated", "truncated")

    def __init__(
        self,
        observations: NDArray[Any],
        rewards: NDArray[np.float32],
        terminated: NDArray[np.uint8],
        truncated: NDArray[np.uint8],
        signals: NDArray[np.float32],
        seq: int = 0,
        any_ended: bool = False,
    ) -> None:
        self.observations = observations
        self.rewards = rewards
        self.terminated = terminated
        self.truncated = truncated
        self.signals = signals
        self.seq = seq
        self.any_ended = any_ended

    @classmethod
    def showing(cls, buffers: Buffers) -> Frame:
        """Return a frame whose arrays are read-only views of `buffers`: it shows whatever they hold at the moment."""

        def view(array: NDArray[Any]) -> NDArray[Any]:
            shown = array.view()
            shown.flags.writeable = False
            return shown

        return cls(
            view(buffers.observations),
            view(buffers.rewards),
            view(buffers.terminated),
            view(buffers.truncated),
            view(buffers.signals),
        )


class Transport(Closing, ABC):
    """The client end of a way to an engine. Made by `lucky_transport.connect` or a plugin's client factory.

    `actions` is the array an in-place policy writes into: pass `transport.actions` itself to `send` and nothing is
    copied, and a zero-copy transport does not check the values: a policy that writes in place is responsible for them.
    `out_of_bounds` counts the action values outside the spec's bounds that were looked at; they are passed on as is.
    """

    name: str
    spec: BatchSpec
    capabilities: Capabilities
    actions: NDArray[Any]
    out_of_bounds: int = 0
    #: The observations of a frame stay as they are until this many further sends; everything else of it until the next.
    observation_slots: int = 1

    @abstractmethod
    def send(self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None) -> None:
        """Publish one exchange's actions (num_envs, *action shape) and control bytes (None: every env steps).

        Raises SpecError for actions of a wrong shape, kind or with NaN or infinite values, before
        anything is published; LocalProtocolError when the frame of the last `send` was not received yet.
        """

    @abstractmethod
    def recv(self, deadline: Deadline | None = None) -> Frame:
        """Return the frame of the last `send`; waits at most until `deadline` (default: the configured step timeout).

        Raises PeerTimeout (the exchange stays open, `recv` may be called again), PeerDied, Busy, EngineFailed.
        """

    def step(
        self, actions: NDArray[Any], control: NDArray[np.uint8] | None = None, deadline: Deadline | None = None
    ) -> Frame:
        """`send` and `recv` in one call."""
        self.send(actions, control)
        return self.recv(deadline)

    def send_envs(
        self, actions: NDArray[Any], env_ids: NDArray[Any] | None = None, control: NDArray[np.uint8] | None = None
    ) -> None:
        """Begin a step of each of these envs alone; they begin in turn and end in any order.

        actions: (k, *action shape). env_ids: integers (k,), None for all envs. control: uint8 (k,), 0 or RESET. Until
        all envs under way were received, nothing else may be stepped. Raises, before anything is published, SpecError
        as `send` does and for ids, LocalProtocolError for an env or an exchange under way, Unimplemented
        where the engine or the transport cannot.
        """
        raise Unimplemented(
            f"transport {self.name!r} steps all envs together, send() and recv() need one that steps single envs",
            backend=self.name,
            hint="connect over shm:// or inproc: without interceptors of steps, or use step()",
        )

    @property
    def envs_under_way(self) -> int:
        """How many envs were sent alone and not received yet."""
        return 0

    def recv_envs(self, least: int = 1, deadline: Deadline | None = None) -> tuple[NDArray[np.int32], Frame]:
        """Return all envs that ended their steps, at least so many, and a frame whose rows of these envs are valid.

        The ids are int32 (k,), ascending. The rows of an env are valid until it is sent again; other rows may be just
        being written. Waits at most until `deadline` (default: the configured step timeout). Raises SpecError,
        LocalProtocolError where fewer are under way, EngineFailed for an env that failed (it is then received, without
        a frame), PeerTimeout (nothing is lost, `recv_envs` may be called again), PeerDied.
        """
        raise LocalProtocolError("recv_envs() with no env under way", backend=self.name, hint="call send_envs() first")

    @abstractmethod
    def call(self, method: Method, request: Any, deadline: Deadline | None = None) -> Any:
        """Return the response message of a typed method; a call made before `send` takes effect before that step.

        Raises Unimplemented when the engine does not answer this method, PeerTimeout, PeerDied, EngineFailed.
        """

    def begin(self, method: Method, request: Any, deadline: Deadline | None = None) -> Future[Any]:
        """Begin a unary call and return its future, so that several calls go on beside each other.

        The future's result is the response message, its error what `call` raises; `cancel` tells the engine as far as
        that is possible. A future that is dropped goes on until its answer or its deadline comes. A transport that can
        have only one call under way makes it at once. Raises what is known before the request is sent.
        """
        return completed(lambda: self.call(method, request, deadline))

    def stream(self, method: Method, request: Any, deadline: Deadline | None = None, *, copy: bool = True) -> Stream:
        """Return the items of a server stream, as they come; without a deadline it goes on until either side ends it.

        Images in them are bytes. With `copy` False a transport that has them in shared memory shows them there: the
        `data` of an ImageFrame is then a read-only memoryview, valid until the next item is asked for or the stream is
        over; kept longer it stays readable, but may show a later image.

        Raises Unimplemented when the transport carries no streams; everything else is raised by the stream.
        """
        raise Unimplemented(f"transport {self.name!r} carries no streams", backend=self.name)

    def implements(self, method: Method) -> bool | None:
        """True when the engine answers `method`, False when not, None where this transport cannot tell without trying.

        Never waits for the engine.
        """
        return None

    def async_calls(self) -> AsyncCalls | None:
        """Return calls for asyncio that need no thread, None where there are none; may wait for the engine.

        They belong to the first event loop that uses them, and to the engine they may be those of another client.

        Raises what connecting raises, ClosedError.
        """
        return None

    def device_observations(self, driver: CudaDriver) -> DeviceArray | None:
        """Return the newest observations in device memory of the engine, None where this transport shows none.

        They are valid until the next `send`. The engine's memory stays open while the array lives, and is the engine's:
        once that has ended it may not be used. Raises DeviceError, SegmentError, PeerDied.
        """
        return None

    def leave_on_device(self, there: bool) -> bool:
        """Say whether the observations of the next frames may stay in the engine's device memory.

        True: until this is taken back, their `Frame.observations` mean nothing. False: frames over this transport, or
        of this engine, always have their observations, whatever is said.
        """
        return False

    def lock_pages(self, driver: CudaDriver, ordinal: int) -> bool:
        """Lock the pages that frames lie in until `close`, so that copies to GPUs are asynchronous; False if not done.

        ordinal: the device through whose context that is done; it then holds for all.
        """
        return False

    @abstractmethod
    def close(self) -> None:
        """End the connection and release everything; idempotent. Arrays already handed out stay readable."""


class ForwardingTransport(Transport):
    """Stands for `inner` in all that a subclass does not do otherwise. Closing it closes that."""

    def __init__(self, inner: Transport) -> None:
        self.name = inner.name
        self.spec = inner.spec
        self.capabilities = inner.capabilities
        self.actions = inner.actions
        self.observation_slots = inner.observation_slots
        self._inner = inner

    @property
    def out_of_bounds(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] - a count, read only
        return self._inner.out_of_bounds

    def implements(self, method: Method) -> bool | None:
        return self._inner.implements(method)

    def close(self) -> None:
        self._inner.close()


class Stream(ABC):
    """A server stream being received: iterate over it. Dropping it, `break` and `cancel` end it on the engine's side.

    dropped: items that the engine skipped so far because this side was slow.
    """

    dropped: int = 0

    def __iter__(self) -> Self:
        return self

    @abstractmethod
    def __next__(self) -> Any:
        """Return the next item, waiting for it; StopIteration after the last.

        Raises Cancelled after `cancel`, Unimplemented, EngineFailed, PeerTimeout (the stream's deadline), PeerDied.
        After the end no item comes any more: what was raised is raised again.
        """

    @abstractmethod
    def cancel(self) -> None:
        """End the stream from any thread, also while another one waits in `next`; idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def __del__(self) -> None:
        self.cancel()
