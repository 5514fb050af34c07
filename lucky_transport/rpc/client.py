"""The caller's end of a pipe: `ClientCalls`, for any number of threads.

    calls = ClientCalls(pipe)
    payload = calls.unary(method.id, request, Deadline(10))
    call = calls.open(method.id, request, shape=Shape.SERVER_STREAM)     # see `lucky_transport.rpc.client_call`
    while (item := call.recv()) is not None: ...

Payloads are bytes; `lucky_transport.rpc.typed` encodes and decodes messages. There is no reader thread: waiting threads
read the pipe for each other (`lucky_transport.rpc.leader_followers`). The end of the connection ends every call with
its reason, at once.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

from lucky_transport.call import deadline_error
from lucky_transport.codec.envelope import (
    CompactFields,
    Envelope,
    ItemRun,
    Kind,
    Popped,
    Record,
    TooLong,
    decode_envelope,
    encode_compact,
)
from lucky_transport.deadline import Deadline, monotonic_ns
from lucky_transport.errors import Cancelled, ClosedError, PeerTimeout, SpecError, TransportError, from_wire
from lucky_transport.messages.method import Flow
from lucky_transport.rpc.base_call import BaseCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.completion_thread import NO_GROUP, CallGroup, CompletionThread
from lucky_transport.rpc.error_envelope import GOAWAY, Metadata, copy_error, name_of
from lucky_transport.rpc.flow_control import window_of
from lucky_transport.rpc.fragments import DEFAULT_LIMIT, too_large
from lucky_transport.rpc.images import ImageRef, ImageSource, no_source
from lucky_transport.rpc.leader_followers import LeaderFollowers
from lucky_transport.rpc.lifecycle import Shape, opened
from lucky_transport.rpc.pipe import Pipe
from lucky_transport.rpc.requests import RequestEncoder
from lucky_transport.rpc.send_queue import SendQueue
from lucky_transport.rpc.unary import UnaryResult

#: The same as `UnaryResult.is_done`, without a Python frame.
_IS_DONE = attrgetter("done")
_REQUEST, _RESPONSE, _STREAM_ITEM = int(Kind.REQUEST), int(Kind.RESPONSE), int(Kind.STREAM_ITEM)


class ClientCalls(BaseCalls[UnaryResult | ClientCall]):
    """All calls over one pipe.

    backend: names the transport in errors. max_message_bytes: limits what is received. refusal: makes the error of a
    longer message (its length, the limit). images: finds the images that do not come through the pipe.

    is_relay: the answerer carries calls on to another server; set by what connects.

    For event loops: `pump()` handles everything that has come, unless a thread waits and does so anyway, and never
    blocks. `fileno()` is a descriptor that turns readable when it may have something to do; -1 where the pipe has none.
    `expect()` says that an answer is expected; it is True where that may come sooner than a sleeper wakes: `look`,
    `pump` and `arm` then.

    on_break: called with the reason when the connection ends, from any thread; it must not block. It may be called
    twice.
    """

    def __init__(
        self,
        pipe: Pipe,
        *,
        backend: str = "",
        max_message_bytes: int = DEFAULT_LIMIT,
        refusal: Callable[[int, int], TransportError] = too_large,
        images: ImageSource | None = None,
    ) -> None:
        self.backend = backend
        self.images = images
        self.is_relay = False
        self._claim = no_source if images is None else images.claim
        self.on_break: Callable[[TransportError], None] | None = None
        self.waiters = LeaderFollowers(pipe, self._on_record, self._break)
        self.pump, self.expect, self.fileno = self.waiters.read_waiting, pipe.expect, pipe.fileno
        super().__init__(pipe, SendQueue(pipe, self.waiters.read_waiting), max_message_bytes, refusal)
        self._ids = itertools.count(1)
        self._requests = RequestEncoder(pipe.largest_record)
        self.note_answered = self._requests.note_answered
        self._completion_threads: dict[CallGroup, CompletionThread] = {}

    def unary(self, method: int | str, payload: bytes, deadline: Deadline, metadata: Metadata = ()) -> bytes:
        """Return the response to one request, for a method given by id or, without one, by its full name.

        Raises the error that the engine answered with, PeerTimeout, PeerDied, ClosedError, RemoteProtocolError.
        """
        answer = self.exchange(method, payload, deadline, metadata)
        if answer.error is not None:
            raise copy_error(answer.error, self.backend)
        return answer.payload

    def exchange(
        self,
        method: int | str,
        payload: bytes,
        deadline: Deadline | None,
        metadata: Metadata = (),
        group: CallGroup = NO_GROUP,
    ) -> UnaryResult:
        """Return all that came in response to one request; an error that ended it is its `error`.

        Without a deadline it waits as long as the engine lives. Raises PeerTimeout, PeerDied, ClosedError.
        """
        # Few Python frames: one that runs seldom takes a microsecond and more, as nothing of it is in the caches.
        correlation_id = next(self._ids)
        remaining_ns = 0 if deadline is None else deadline.at_ns - monotonic_ns()
        if remaining_ns <= 0 and deadline is not None:
            raise self.late(method, deadline)
        slot = UnaryResult()
        slot.group = group
        self.open_calls[correlation_id] = slot
        try:
            if self.error is not None or group.error is not None:
                self.check(group)
            number = self._requests.number_of(method) if isinstance(method, str) else method
            try:
                sent = (
                    not metadata
                    and number is not None
                    and self.send_queue.push(_REQUEST, correlation_id, payload, number, remaining_ns)
                )
            except TransportError as error:
                raise self._ended_by(error) from None
            if not sent:
                record = self._requests.encode(method, correlation_id, payload, remaining_ns, metadata)
                self._send_request(record, correlation_id, method, deadline, slot.is_done, len(payload))
            if not self.waiters.wait(slot, _IS_DONE, deadline):
                assert deadline is not None
                raise self.late(method, deadline)
            if number is None and slot.error is None:
                self.note_answered(method, correlation_id)
        except BaseException:
            self._give_up(correlation_id, slot)
            raise
        return slot

    def open(
        self,
        method: int | str,
        payload: bytes = b"",
        *,
        shape: Shape = Shape.SERVER_STREAM,
        flow: Flow = Flow.EVERY,
        deadline: Deadline | None = None,
        metadata: Metadata = (),
        may_wait: bool = True,
        group: CallGroup = NO_GROUP,
    ) -> ClientCall:
        """Start a call of any shape; `payload` is the request where requests are no stream.

        `deadline` ends the call wherever it is then. Unless it `may_wait` for free space, the request stays pending
        until there is some. Raises PeerTimeout, PeerDied, ClosedError.
        """
        remaining_ns = self._remaining_ns(method, deadline)
        correlation_id = next(self._ids)
        window = window_of(flow)
        number = self._requests.number_of(method) if isinstance(method, str) else method
        record = self._requests.encode(method, correlation_id, payload, remaining_ns, metadata, shape, window)
        call = ClientCall(self, correlation_id, method, opened(shape), window, deadline)
        call.is_named, call.group = number is not None, group
        self.open_calls[correlation_id] = call
        try:
            if self.error is not None or group.error is not None:
                self.check(group)
            if may_wait:
                self._send_request(record, correlation_id, method, deadline, call.is_ended, len(payload))
            else:
                self.post(record, correlation_id, len(payload))
                if number is None:
                    self._requests.note_sent(method, correlation_id, record)
        except BaseException:
            self._give_up(correlation_id, call)
            raise
        return call

    def on_end(self, call: ClientCall, callback: Callable[[], None]) -> None:
        """Read the call to its end, and keep its deadline, though no thread waits for it.

        `callback()` is called once, when it has ended, on the completion thread of the call's group.
        """
        thread = self._completion_threads.get(call.group) or CompletionThread(self.waiters)
        self._completion_threads.setdefault(call.group, thread).watch(call, callback)

    def look(self, longest_ns: int) -> None:
        """Look for the answer that is expected, if there is one, for so long at most: before `pump`."""
        if self.open_calls:
            self.pipe.look(longest_ns)

    def arm(self) -> bool:
        """Have `fileno()` turn readable with the next record; True where there is one already, or soon: then `pump`
        again.

        Raises PeerDied, ClosedError, and the connection has then ended.
        """
        try:
            return self.pipe.arm(bool(self.open_calls))
        except TransportError as error:
            raise self._ended_by(error) from None

    def end_calls(self, group: CallGroup) -> None:
        """End every call of this group with its error; idempotent, from any thread."""
        for correlation_id, call in tuple(self.open_calls.items()):
            if call.group is group and group.error is not None:
                call.on_error(group.error)
                self.waiters.wake(call)
                self.post(encode_compact(Kind.CANCEL, correlation_id, b""))
                self.forget(correlation_id)  # last: what a signal handler interrupts is made again
        self._completion_threads.pop(group, None)

    def close(self) -> None:
        """End every call with ClosedError and close the pipe; idempotent, from any thread."""
        self._break(ClosedError("the transport is closed", backend=self.backend, hint="connect again"))
        if self.images is not None:
            self.images.close()

    def check(self, group: CallGroup = NO_GROUP) -> None:
        """Raise what ended the connection, or the group, if one of them has ended."""
        if (error := self.error or group.error) is not None:
            raise copy_error(error, self.backend)

    def late(self, method: int | str, deadline: Deadline) -> PeerTimeout:
        """Return the error of a call that did not end in time."""
        return deadline_error(name_of(method), deadline.timeout_s, self.backend)

    # -- sending ------------------------------------------------------------------------------------------------------

    def _remaining_ns(self, method: int | str, deadline: Deadline | None) -> int:
        """Return the nanoseconds that the engine has, 0 for no limit. Raises PeerTimeout when there are none left."""
        if deadline is None:
            return 0
        remaining_ns = deadline.remaining_ns
        if not remaining_ns:
            raise self.late(method, deadline)
        return remaining_ns

    def _send_request(
        self,
        request: Record | CompactFields,
        correlation_id: int,
        method: int | str,
        deadline: Deadline | None,
        is_over: Callable[[], bool],
        message_bytes: int,
    ) -> None:
        is_sent = self.send(request, correlation_id, message_bytes, deadline, is_over)
        if not is_sent and not is_over() and deadline is not None:
            raise PeerTimeout(
                f"{name_of(method)}: nothing took the request within {deadline.timeout_s} s, the ring is full",
                backend=self.backend,
                hint="the peer may hang; restart it",
            )
        self._requests.note_sent(method, correlation_id, request)

    def send(
        self,
        envelope: Record | CompactFields,
        correlation_id: int,
        message_bytes: int,
        deadline: Deadline | None,
        is_over: Callable[[], bool],
    ) -> bool:
        """Call `SendQueue.send`; an error ends the connection, and what ended it first is raised."""
        try:
            return self.send_queue.send(envelope, correlation_id, message_bytes, deadline, is_over)
        except SpecError:
            raise
        except TransportError as error:
            raise self._ended_by(error) from None

    def _give_up(self, correlation_id: int, call: UnaryResult | ClientCall) -> None:
        """Drop a call whose answer is not awaited any more, and tell the engine as far as that is possible."""
        was_open = self.open_calls.pop(correlation_id, None) is not None
        self._assemblies.drop(correlation_id)
        if was_open and self.error is None and not call.is_done():
            with contextlib.suppress(TransportError):
                self.send_queue.post(encode_compact(Kind.CANCEL, correlation_id, b""))

    # -- receiving ----------------------------------------------------------------------------------------------------

    def _on_record(self, record: Popped | ItemRun | TooLong) -> None:
        """Handle what was taken from the pipe; raises RemoteProtocolError for what no honest engine sends."""
        if not isinstance(record, tuple):
            self._on_envelope(decode_envelope(record))
            return
        if len(record) != 7:
            if len(record) == 2:
                self._on_items(*record)
            else:
                self._refuse(record[0], self._refusal(record[1], record[2]))
            return
        kind, correlation_id, payload, _, _, dropped, image = record
        if image is not None:
            payload = self._claim(payload, (image,))
        call = self.open_calls.get(correlation_id)
        if call is None:
            return  # given up
        if kind == _STREAM_ITEM:
            call.on_item(payload, dropped)
        elif kind == _RESPONSE:
            call.on_response(payload, ())
            self.open_calls.pop(correlation_id, None)
        else:
            self._on_envelope(decode_envelope(record))
            return
        if call.gates:
            self.waiters.wake_followers(call)

    def _on_items(self, correlation_id: int, payloads: list[bytes]) -> None:
        call = self.open_calls.get(correlation_id)
        if call is not None:
            call.on_items(payloads)
            if call.gates:
                self.waiters.wake_followers(call)

    def _on_envelope(self, envelope: Envelope) -> None:
        correlation_id = envelope.correlation_id
        if envelope.kind is Kind.FRAGMENT:
            if correlation_id in self.open_calls:
                self._on_client_fragment(envelope)
            else:
                self._assemblies.drop(correlation_id)
            return
        if correlation_id == GOAWAY and envelope.kind is Kind.ERROR:
            self._break(from_wire(envelope.status, envelope.details, backend=self.backend))
            return
        if envelope.images:  # claimed even when the call was given up: then the claim gives the places back
            places = [ImageRef(place.length, place.file, place.slot, place.number) for place in envelope.images]
            envelope.payload = cast(Any, self._claim(envelope.payload, places))
        call = self.open_calls.get(correlation_id)
        if call is not None:
            call.on_envelope(envelope)
            if call.is_done():
                self.forget(correlation_id)
            self.waiters.wake_followers(call)

    def _on_client_fragment(self, fragment: Envelope) -> None:
        """Handle it once: a signal handler that interrupts that ends the call, whose message would have a gap."""
        self.waiters.redo = None
        try:
            self._on_fragment(fragment)
        except TransportError:
            raise
        except BaseException:
            self._refuse(fragment.correlation_id, Cancelled("a signal handler interrupted its message"))
            raise

    def _refuse(self, correlation_id: int, error: TransportError) -> None:
        call = self.open_calls.get(correlation_id)
        if call is not None:
            self._give_up(correlation_id, call)
            call.on_error(error)
            self.waiters.wake_followers(call)

    def _on_send_error(self, error: TransportError) -> None:
        self._break(error)

    def _ended_by(self, error: TransportError) -> TransportError:
        """End the connection for this error; return what a caller raises, the first error that ended it."""
        self._break(error)
        return copy_error(self.error or error, self.backend)

    def _break(self, error: TransportError) -> None:
        """End everything for this reason; the first one counts."""
        self._keep_error(error)
        error = self.error or error
        for correlation_id, call in tuple(self.open_calls.items()):
            call.on_error(error)
            self.waiters.wake(call)
            self.open_calls.pop(correlation_id, None)
        self.send_queue.close()
        self.pipe.close()
        on_break = self.on_break
        if on_break is not None:
            on_break(error)
            self.on_break = None  # last: what a signal handler interrupts is done again by `close`
        self.waiters.forget_owner()
