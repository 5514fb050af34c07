"""The methods of a stub, one class for each arity: requests in, responses or calls out.

What can be refused without the engine is refused first: an invalid request, invalid metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lucky_transport.call_counts import CallCounter
from lucky_transport.deadline import Deadline
from lucky_transport.errors import StatusError, TransportError
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.error_envelope import Metadata
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.unary import UnaryResult
from lucky_transport_stubs.client.call_machine import Action, CallMachine, Finish, Open
from lucky_transport_stubs.client.call_state import CallState, credentials_metadata, wait_for
from lucky_transport_stubs.client.calls import Rpc, failed, succeeded
from lucky_transport_stubs.client.link import Link
from lucky_transport_stubs.client.requests import StreamedRequests
from lucky_transport_stubs.grpc_inside import MULTI_CALLABLES, appears_as
from lucky_transport_stubs.words.credentials import Fetch
from lucky_transport_stubs.words.messages import Messages
from lucky_transport_stubs.words.metadata import WAITS, check_size, within_limit
from lucky_transport_stubs.words.options import check_compression
from lucky_transport_stubs.words.status import CallStatus, Code, status_of

#: gRPC's texts for a call on a closed channel: of calls that block, and of all others.
_CLOSED_BLOCKING = "Cannot invoke RPC on closed channel!"
_CLOSED = "Cannot invoke RPC: Channel closed!"

Given = Iterable[tuple[str, str | bytes]] | None


class _Method:
    """What the four arities share. path: the method's full name."""

    _lucky_counter: CallCounter | None = None  # counts each call that is started

    def __init__(self, link: Link, path: str, messages: Messages) -> None:
        settings = link.settings
        self._link = self._channel = link  # the names that programs know from grpc: this one, and those below
        self._path = path
        self._method = path.encode()
        self._request_serializer, self._response_deserializer = messages.serialize, messages.deserialize
        self._messages = messages
        self._settings = settings
        self._has_plugins = bool(settings.credentials.plugins)
        self._has_entries = bool(settings.user_agent)

    def _begin(
        self,
        shape: Shape,
        request: Any,
        timeout: float | None = None,
        metadata: Given = None,
        credentials: Any = None,
        wait_for_ready: bool | None = None,
        compression: Any = None,
    ) -> Rpc:
        """Return a call under way. request: a message, or an iterator, as the shape says. The rest is as gRPC has it.

        Raises what `_payload` raises; ValueError when closed; AttributeError, TypeError for no credentials and KeyError
        for no compression.
        """
        if self._lucky_counter is not None:
            self._lucky_counter.add()
        streams = bool(shape & Shape.CLIENT_STREAM)
        if not streams:
            request = self._payload(request)
        if self._link.is_closed:
            raise ValueError(_CLOSED)
        prepared = self._settings.prepare(self._path, timeout, wait_for_ready, credentials)
        check_compression(compression)
        deadline = until(prepared.timeout_s)
        state = CallState(self._link, prepared, self._messages, deadline, bool(shape & Shape.SERVER_STREAM))
        rpc = Rpc(state)
        try:
            if not streams:
                self._messages.check_length(request)
            prepared.entries = self._settings.entries(metadata)
        except StatusError as error:
            state.end(status_of(error))
            return rpc
        requests = (
            StreamedRequests(request, self._messages, prepared.retries, prepared.buffer_bytes) if streams else None
        )

        def opening(action: Open) -> ClientCall:
            call = action.connection.open(
                self._path,
                request if requests is None else b"",
                shape=shape,
                deadline=deadline,
                metadata=action.metadata,
                may_wait=False,
                group=self._link.group,
            )
            if requests is not None:
                try:
                    requests.send(call, state.fail)
                except BaseException:  # a signal handler's: nobody else knows the call
                    call.cancel()
                    raise
            return call

        state.begin(opening)
        return rpc

    def _fetch(self, credentials: Any) -> Fetch | None:
        """Return what a call that blocks fetches for its credentials; raises what `_begin` raises."""
        check_open(self._link)
        return self._settings.credentials.fetch(credentials, self._path)

    def _payload(self, request: Any) -> bytes:
        """Return the request as bytes; raises the failed call when it cannot be serialized, TypeError."""
        try:
            return self._messages.payload(request)
        except StatusError as error:
            raise failed(status_of(error)) from None


@appears_as(MULTI_CALLABLES["unary_unary"])
class UnaryUnary(_Method, MULTI_CALLABLES["unary_unary"]):
    """One request, one response.

    A blocking call runs on its caller's thread. For speed it makes no object for the call, takes no lock and starts no
    thread.
    """

    def __call__(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Given = None,
        credentials: Any = None,
        wait_for_ready: bool | None = None,
        compression: Any = None,
    ) -> Any:
        if self._lucky_counter is not None:
            self._lucky_counter.add()
        return self._exchange(request, timeout, metadata, credentials, wait_for_ready, compression)[0]

    def with_call(
        self,
        request: Any,
        timeout: float | None = None,
        metadata: Given = None,
        credentials: Any = None,
        wait_for_ready: bool | None = None,
        compression: Any = None,
    ) -> tuple[Any, Any]:
        if self._lucky_counter is not None:
            self._lucky_counter.add()
        response, answer = self._exchange(request, timeout, metadata, credentials, wait_for_ready, compression)
        return response, succeeded(response, CallStatus(Code.OK, trailing=answer.trailing), answer.headers)

    def future(self, request: Any, *options: Any, **named: Any) -> Any:
        return self._begin(Shape.UNARY, request, *options, **named)

    def _exchange(
        self,
        request: Any,
        timeout: float | None,
        metadata: Given,
        credentials: Any,
        wait_for_ready: bool | None,
        compression: Any,
    ) -> tuple[Any, UnaryResult]:
        """Return the response and what came with it; raises the failed call, ValueError when closed, TypeError."""
        messages, link = self._messages, self._link
        fetch = None if credentials is None and not self._has_plugins else self._fetch(credentials)
        answer = None
        try:
            payload = messages.payload(request)
            if messages.max_send_bytes is not None:
                messages.check_length(payload)
            entries: Metadata = ()
            if compression:
                check_compression(compression)
            if metadata or self._has_entries:
                entries = self._settings.entries(metadata)
            deadline = None if timeout is None else Deadline(timeout if timeout > 0 else 0.0)
            calls = link.current()
            if calls is None:
                check_open(link)
                calls = link.reach(deadline, wait_for_ready=bool(wait_for_ready))
            if fetch is not None:
                entries = (*entries, *credentials_metadata(fetch, link, deadline))
                check_size(entries)
            if wait_for_ready and calls.is_relay:
                entries = (*entries, WAITS)
            answer = calls.exchange(self._path, payload, deadline, entries, link.group)
            if answer.headers or answer.trailing:
                check_size(answer.headers, answer.trailing)
            if answer.error is None:
                return messages.response(answer.payload), answer
            error = answer.error
        except TransportError as raised:
            error = raised
        raise failed_call(link.standing.status_of(error), answer) from None


@appears_as(MULTI_CALLABLES["unary_unary"])
class ConfiguredUnaryUnary(UnaryUnary):
    """A `UnaryUnary` of which the channel's service config says something; calls of others pay nothing for that.

    It drives the call's machine on its caller's thread, for speed without an object for the call.
    """

    def _exchange(
        self,
        request: Any,
        timeout: float | None,
        metadata: Given,
        credentials: Any,
        wait_for_ready: bool | None,
        compression: Any,
    ) -> tuple[Any, UnaryResult]:
        link = self._link
        check_open(link)
        prepared = self._settings.prepare(self._path, timeout, wait_for_ready, credentials)
        if prepared.retries is None:
            return super()._exchange(
                request, prepared.timeout_s, metadata, credentials, prepared.is_patient, compression
            )
        machine = CallMachine(prepared, link.standing.status_of)
        try:
            payload = self._messages.payload(request)
            self._messages.check_length(payload)
            check_compression(compression)
            prepared.entries = self._settings.entries(metadata)
        except StatusError as error:
            raise failed(status_of(error)) from None
        deadline, answer = until(prepared.timeout_s), None
        action: Action = machine.begin(link.current())
        while not isinstance(action, Finish):
            if not isinstance(action, Open):
                answer = None
                action = wait_for(action, machine, link, deadline)
                continue
            try:
                answer = action.connection.exchange(self._path, payload, deadline, action.metadata, self._link.group)
                following = machine.news(answer)
                if following is None:
                    return self._response(machine, answer), answer
                action = following
            except TransportError as error:
                action = machine.failed(error)
        raise failed_call(action.status, answer)

    def _response(self, machine: CallMachine, answer: UnaryResult) -> Any:
        """Return the response of the attempt that the call is committed to; raises the failed call."""
        status, response = machine.ended_with(answer), None
        if status.code is Code.OK:
            try:
                response = self._messages.response(answer.payload)
            except StatusError as error:
                status = status_of(error)
        machine.end(status)
        if response is None:
            raise failed_call(status, answer)
        return response


@appears_as(MULTI_CALLABLES["unary_stream"])
class UnaryStream(_Method, MULTI_CALLABLES["unary_stream"]):
    """One request, a stream of responses: the call itself is their iterator."""

    def __call__(self, request: Any, *options: Any, **named: Any) -> Any:
        return self._begin(Shape.SERVER_STREAM, request, *options, **named)


@appears_as(MULTI_CALLABLES["stream_unary"])
class StreamUnary(_Method, MULTI_CALLABLES["stream_unary"]):
    """A stream of requests, pulled from an iterator; one response."""

    def __call__(self, request_iterator: Any, *options: Any, **named: Any) -> Any:
        return self.with_call(request_iterator, *options, **named)[0]

    def with_call(self, request_iterator: Any, *options: Any, **named: Any) -> tuple[Any, Any]:
        check_open(self._link)
        call = self._begin(Shape.CLIENT_STREAM, request_iterator, *options, **named)
        if call.code() is not Code.OK:
            raise call.as_error()
        return call.result(), call

    def future(self, request_iterator: Any, *options: Any, **named: Any) -> Any:
        return self._begin(Shape.CLIENT_STREAM, request_iterator, *options, **named)


@appears_as(MULTI_CALLABLES["stream_stream"])
class StreamStream(_Method, MULTI_CALLABLES["stream_stream"]):
    """A stream of requests, pulled from an iterator; a stream of responses: the call itself is their iterator."""

    def __call__(self, request_iterator: Any, *options: Any, **named: Any) -> Any:
        return self._begin(Shape.BIDIRECTIONAL, request_iterator, *options, **named)


#: Arity -> the class of its callables.
BY_ARITY = {
    "unary_unary": UnaryUnary,
    "unary_stream": UnaryStream,
    "stream_unary": StreamUnary,
    "stream_stream": StreamStream,
}


def until(timeout: float | None) -> Deadline | None:
    """Return the deadline of a call; a timeout of zero or less has passed already."""
    return None if timeout is None else Deadline(timeout if timeout > 0 else 0.0)


def check_open(link: Link) -> None:
    """Raise ValueError, in gRPC's words for a call that blocks, when the channel is closed."""
    if link.is_closed:
        raise ValueError(_CLOSED_BLOCKING)


def failed_call(status: CallStatus, answer: UnaryResult | None) -> Any:
    """Return what to raise; an answer that came has metadata, also when its message could not be read."""
    if answer is None:
        return failed(status)
    return failed(CallStatus(status.code, status.details, within_limit(answer.trailing)), within_limit(answer.headers))
