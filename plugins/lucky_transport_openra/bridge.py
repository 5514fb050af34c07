"""The bridge's methods as calls: what goes to an engine with OpenRA-RL's service, real or ours, and what comes back."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from lucky_transport.call import deadline_error
from lucky_transport.config import Settings
from lucky_transport.deadline import Deadline
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import Busy, TransportError
from lucky_transport_grpc.connection import GrpcConnection
from lucky_transport_grpc.errors import is_local_timeout
from lucky_transport_grpc.runtime import grpc
from lucky_transport_openra import _pb
from lucky_transport_openra.options import grpc_endpoint
from lucky_transport_openra.wire import LOOK, METHODS, from_bridge

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a call that the engine refused because it was busy is made again.

    Only a refusal is retried, never a call that may have begun, so no tick is done twice. The waits, in seconds, grow
    and are never alike for two clients. attempts: how often a call is made at most, 1 = it is not retried.
    """

    attempts: int = 12
    first_wait_s: float = 0.02
    longest_wait_s: float = 2.0

    def call(self, make: Callable[[], _T], deadline: Deadline) -> _T:
        """Return what `make` returns; raises its error, Busy only after the last attempt or at the deadline."""
        wait_s = self.first_wait_s
        for _ in range(self.attempts - 1):
            try:
                return make()
            except Busy:
                pause_s = wait_s * random.uniform(0.5, 1.0)
                if pause_s >= deadline.remaining_s:
                    raise
                time.sleep(pause_s)
                wait_s = min(2 * wait_s, self.longest_wait_s)
        return make()


def advance_request(
    session_id: str, ticks: int, commands: Sequence[Any] = (), interrupts: Sequence[str] = (), *, check_every: int = 1
) -> Any:
    """Return the message of `Bridge.advance`."""
    return _pb.FastAdvanceRequest(
        ticks=ticks,
        commands=commands,
        session_id=session_id,
        check_events_every=check_every if interrupts else 0,
        enabled_interrupts=interrupts,
    )


class Bridge:
    """A client of one engine's bridge service; messages are those of `_pb`. `close` ends all its calls and streams.

    Every call has a deadline. A connection that broke comes back by itself, as soon as the engine is there: GetState
    waits for that until its deadline, other calls fail at once meanwhile. retry: of what the engine refuses because it
    is busy.
    """

    def __init__(self, endpoint: Endpoint, settings: Settings, retry: Retry | None = None) -> None:
        self.endpoint = endpoint
        self.settings = settings
        self._connection = GrpcConnection(grpc_endpoint(endpoint), settings)
        self.retry = retry or Retry()
        self._stubs = {name: method.stub(self._connection.channel) for name, method in METHODS.items()}

    def state(self, session_id: str = "", deadline: Deadline | None = None) -> Any:
        """Return the session's `GameState` ("" = the oldest that goes on). Raises PeerDied, PeerTimeout."""
        return self._call("GetState", _pb.StateRequest(session_id=session_id), deadline)

    def create(self, map_name: str = "", bots: str = "", seed: int = 0, deadline: Deadline | None = None) -> str:
        """Return the id of a new session, whose world is built meanwhile. seed: 0 = the engine's choice.

        Raises Busy, SpecError (unknown map), Unimplemented (an engine of the older generation), PeerDied, PeerTimeout.
        """
        request = _pb.CreateSessionRequest(map_name=map_name, bots=bots, seed=seed)
        answer: Any = self._call("CreateSession", request, deadline)
        return answer.session_id

    def advance(
        self,
        session_id: str,
        ticks: int,
        commands: Sequence[Any] = (),
        interrupts: Sequence[str] = (),
        deadline: Deadline | None = None,
        *,
        check_every: int = 1,
    ) -> Any:
        """Return the `GameObservation` after that many ticks (1 to 5,000), or at the first of `interrupts`.

        Raises Busy (after the last retry), SessionEnded, UnknownSession, PeerDied, PeerTimeout, EngineFailed.
        """
        request = advance_request(session_id, ticks, commands, interrupts, check_every=check_every)
        return self._call("FastAdvance", request, deadline)

    def look(self, session_id: str, deadline: Deadline | None = None) -> Any:
        """Return the `GameObservation` of now; an engine that is not ours does one tick for it. Raises the errors of
        `advance`.
        """
        return self._call("FastAdvance", advance_request(session_id, 1), deadline, (LOOK, "1"))

    def begin_advance(self, request: Any, deadline: Deadline, *, only_look: bool = False) -> Future[Any]:
        """Begin an `advance`, or a `look`, and return the call: several go on beside each other. No refusal is retried.

        Raises ClosedError, PeerTimeout.
        """
        metadata = ((LOOK, "1"),) if only_look else ()
        self._check_open()
        self._check_in_time("FastAdvance", deadline)
        return self._connection.begin(
            self._stubs["FastAdvance"],
            request,
            deadline,
            lambda answer: answer,
            lambda error: self._error("FastAdvance", error, deadline),
            metadata,
        )

    def destroy(self, session_id: str, deadline: Deadline | None = None) -> None:
        """End a session; idempotent."""
        self._call("DestroySession", _pb.DestroySessionRequest(session_id=session_id), deadline)

    def open_stream(self, actions: Any, metadata: Sequence[tuple[str, str]] = ()) -> Any:
        """Return gRPC's call of GameSession, which sends what the iterator `actions` gives. Raises ClosedError."""
        sent = [*self._connection.identity, *metadata]
        return self._connection.start_stream(
            lambda channel: METHODS["GameSession"].stub(channel)(actions, metadata=sent)
        )

    def error(self, error: Any) -> TransportError:
        """Return our error for a failed call or stream."""
        return self._connection.ended() if self._connection.closed else from_bridge(error, str(self.endpoint))

    def _call(self, name: str, request: Any, deadline: Deadline | None, *metadata: tuple[str, str]) -> Any:
        self._check_open()
        deadline = Deadline.after(deadline, self.settings.command_timeout_s)
        return self.retry.call(lambda: self._once(name, request, deadline, metadata), deadline)

    def _once(self, name: str, request: Any, deadline: Deadline, metadata: Sequence[tuple[str, str]]) -> Any:
        self._check_in_time(name, deadline)
        try:
            return self._stubs[name](
                request,
                timeout=deadline.remaining_s,
                wait_for_ready=name == "GetState",
                metadata=[*self._connection.identity, *metadata],
            )
        except grpc.RpcError as error:
            raise self._error(name, error, deadline) from error

    def _error(self, name: str, error: Any, deadline: Deadline) -> TransportError:
        if is_local_timeout(error):
            return deadline_error(METHODS[name].path, deadline.timeout_s, "openra")
        return self.error(error)

    def _check_open(self) -> None:
        self._connection.check_process()
        if self._connection.closed:
            raise self._connection.ended()

    @staticmethod
    def _check_in_time(name: str, deadline: Deadline) -> None:
        """Raise PeerTimeout where no time is left: gRPC rounds deadlines up, and might make the call all the same."""
        if deadline.expired:
            raise deadline_error(METHODS[name].path, deadline.timeout_s, "openra")

    def close(self) -> None:
        """End everything; idempotent."""
        self._connection.close()
