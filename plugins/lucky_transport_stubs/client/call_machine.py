"""How one call goes, from its invocation to its status: the rules that threads and asyncio share.

    attempt        input                                  answer
    CONNECTING     connected, or begin with a connection  FetchMetadata; Open where no credentials have to be asked
    FETCHING       fetched: the credentials' metadata     Open
    OPEN           news: a response has begun             None: the call is committed to this attempt
                   news: it has failed before that        Pause; Finish where no other attempt follows
    PAUSED         begin                                  Connect

    before OPEN    failed                                 Pause; Finish where no other attempt follows
    any            end                                    the call is over, with the first status

A driver does what the machine answers, and tells it what came of that. The machine waits for nothing, takes no lock and
reads no clock: the driver ends the call at its deadline, at a cancel and where the channel is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lucky_transport.errors import StatusError, TransportError
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport.rpc.unary import UnaryResult
from lucky_transport_stubs.client.prepared import PreparedCall
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.metadata import WAITS, check_size, within_limit
from lucky_transport_stubs.words.status import OK, CallStatus


class Connect(NamedTuple):
    """Get the channel's connection: `connected`, or `failed`. is_patient: wait for an engine that is not there."""

    is_patient: bool


class FetchMetadata(NamedTuple):
    """Ask for the metadata of the credentials: `fetched`."""

    fetch: Fetch


class Open(NamedTuple):
    """Open the call on the connection with these metadata: then `news`, or `failed`."""

    connection: ClientCalls
    metadata: Metadata


class Pause(NamedTuple):
    """Wait so long before the next attempt, then `begin`."""

    seconds: float


class Finish(NamedTuple):
    """End the call with this status."""

    status: CallStatus


Action = Connect | FetchMetadata | Open | Pause | Finish


Attempt = ClientCall | UnaryResult


class CallMachine:
    """One call. status: how it ended, None until it is over. is_open: true in the state OPEN.

    status_of: says how a call over this channel ends with an error.
    """

    def __init__(self, prepared: PreparedCall, status_of: Callable[[TransportError], CallStatus]) -> None:
        self.status: CallStatus | None = None
        self.is_open = False
        self._prepared = prepared
        self._retries = prepared.retries
        self._status_of = status_of
        self._connection: ClientCalls | None = None

    @property
    def is_committed(self) -> bool:
        """True when no attempt follows the present one."""
        return self._retries is None or self._retries.is_committed

    # -- one attempt --------------------------------------------------------------------------------------------------

    def begin(self, connection: ClientCalls | None) -> Action:
        """The call begins, or its next attempt. connection: that which stands, None where there is none."""
        return Connect(self._prepared.is_patient) if connection is None else self.connected(connection)

    def connected(self, connection: ClientCalls) -> Action:
        """There is a connection."""
        self._connection = connection
        fetch = self._prepared.fetch
        if fetch is None:
            return self._open(())
        fixed = fetch.fixed
        return FetchMetadata(fetch) if fixed is None else self._open(fixed)

    def fetched(self, found: Metadata | StatusError) -> Action:
        """The credentials have given their metadata, or the error that ends the call."""
        return self.failed(found) if isinstance(found, StatusError) else self._open(found)

    def failed(self, error: TransportError) -> Action:
        """The attempt has come to nothing before it was open."""
        return self._after(self._status_of(error))

    def news(self, attempt: Attempt) -> Action | None:
        """Something came for the open attempt, or it has ended; None where it stays the call's attempt."""
        if self._retries is None or not self.is_open:
            return None
        is_ended = attempt.is_done()
        if attempt.has_started or (is_ended and attempt.error is None):
            self._retries.commit()
        if self._retries.is_committed or not is_ended:
            return None
        return self._after(self.ended_with(attempt))

    def _open(self, more: Metadata) -> Action:
        entries = self._prepared.entries
        if self._retries is not None:
            self._retries.begins()
            entries = self._retries.metadata(entries)
        if more:
            entries = (*entries, *more)
            try:
                check_size(entries)
            except StatusError as error:
                return self.failed(error)
        assert self._connection is not None
        if self._prepared.is_patient and self._connection.is_relay:
            entries = (*entries, WAITS)
        self.is_open = True
        return Open(self._connection, entries)

    def _after(self, status: CallStatus) -> Action:
        """Return what follows an attempt that has ended so."""
        retries = self._retries
        if retries is None or retries.is_committed or self.status is not None:
            return Finish(status)
        delay_s = retries.after(status)
        if delay_s is None:
            return Finish(status)
        self.is_open = False
        return Pause(delay_s)

    # -- the end ------------------------------------------------------------------------------------------------------

    def ended_with(self, attempt: Attempt) -> CallStatus:
        """Return the status of an attempt that has ended.

        Metadata that are more than a header holds do not reach the program: the call fails in their place.
        """
        trailing = within_limit(attempt.trailing)
        try:
            check_size(attempt.headers or (), attempt.trailing)
        except StatusError as error:
            return self._status_of(error)._replace(trailing=trailing)
        if attempt.error is not None:
            return self._status_of(attempt.error)
        return OK._replace(trailing=trailing) if trailing else OK

    def end(self, status: CallStatus) -> bool:
        """The call is over; False when it was before."""
        if self.status is not None:
            return False
        self.status = status
        if self._retries is not None and self._retries.is_committed:
            self._retries.after(status)
        return True
