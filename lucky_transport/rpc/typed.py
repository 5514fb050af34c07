"""Typed calls over a pipe: messages in, messages out; what `Transport.call` and `Transport.stream` need."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from lucky_transport.call import check_request, check_stream, check_unary
from lucky_transport.codec.flatbuffers import DECODERS, ENCODERS, decode, encode
from lucky_transport.deadline import Deadline
from lucky_transport.errors import RemoteProtocolError, TransportError
from lucky_transport.futures import CallFuture, on_cancel, settle
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.images import frames_of, holds_images
from lucky_transport.messages.methods import Flow, Method
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.error_envelope import copy_error
from lucky_transport.rpc.images import ImageLease, Payload
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.transport import Stream


def call(calls: ClientCalls, method: Method, request: Any, deadline: Deadline) -> Any:
    """Return the response of a unary method.

    Raises TypeError or ValueError for a request that does not fit, LocalProtocolError for a stream, the error the
    engine answered with, PeerTimeout, PeerDied, ClosedError.
    """
    if method.stream is not None:
        check_unary(method)
    if not isinstance(request, method.request):
        check_request(method, request)
    answer = calls.exchange(method.id, ENCODERS[request.__class__](request), deadline)
    if answer.error is not None:
        raise copy_error(answer.error, calls.backend)
    if answer.payload.__class__ is not bytes:
        return response_of(calls, method, answer.payload)
    return DECODERS[method.response](answer.payload)


def begin(calls: ClientCalls, method: Method, request: Any, deadline: Deadline) -> Future[Any]:
    """Send a unary method's request, and return the call's future.

    Raises TypeError or ValueError for a request that does not fit, LocalProtocolError for a stream, PeerTimeout,
    PeerDied, ClosedError.
    """
    opened = open_unary(calls, method, request, deadline)

    def response() -> Any:
        payload: Any = opened.recv()
        return response_of(calls, method, payload)

    try:
        future: Future[Any] = CallFuture()
        on_cancel(future, opened.cancel)
        calls.on_end(opened, lambda: settle(future, response))
    except BaseException:  # a signal handler's: nobody else knows the call
        opened.cancel()
        raise
    return future


def open_unary(
    calls: ClientCalls, method: Method, request: Any, deadline: Deadline, *, may_wait: bool = True
) -> ClientCall:
    """Send a unary method's request, and return the call; `may_wait` as in `ClientCalls.open`.

    Raises what `begin` raises.
    """
    check_unary(method)
    check_request(method, request)
    return calls.open(method.id, encode(request), shape=Shape.UNARY, deadline=deadline, may_wait=may_wait)


def response_of(calls: ClientCalls, method: Method, payload: Payload) -> Any:
    """Return the response that `payload` holds, with its images. Raises RemoteProtocolError."""
    cls: type[Any] = method.response
    if isinstance(payload, bytes):
        return decode(cls, payload)
    response = decode(cls, payload.payload)
    if not payload.fill(frames_of(response), copy=True):
        raise RemoteProtocolError(
            f"the engine has overwritten the images of its answer to {method.name}",
            backend=calls.backend,
            hint="the engine is broken; restart it",
        )
    return response


def stream(
    calls: ClientCalls,
    method: Method,
    request: Any,
    deadline: Deadline | None,
    *,
    copy: bool = True,
    may_wait: bool = True,
) -> CallStream:
    """Open a server stream; `copy` as in `Transport.stream`, `may_wait` as in `ClientCalls.open`.

    Raises what `call` raises.
    """
    check_stream(method)
    check_request(method, request)
    flow = method.stream or Flow.EVERY
    if calls.images is not None and holds_images(method.response):
        flow = Flow.EVERY  # images are held back by themselves, as long as they are not given back
    opened = calls.open(
        method.id, encode(request), shape=Shape.SERVER_STREAM, flow=flow, deadline=deadline, may_wait=may_wait
    )
    try:
        return CallStream(calls, opened, method.response, copy)
    except BaseException:  # a signal handler's
        opened.cancel()
        raise


class CallStream(Stream):
    """A server stream over a pipe; see `lucky_transport.transport.Stream`."""

    def __init__(self, calls: ClientCalls, opened: ClientCall, response: type, copy: bool) -> None:
        self.opened = opened
        self._decode = DECODERS[response]
        self._copy = copy
        self._is_frame = response is ImageFrame
        self._images = calls.images
        self._overwritten = 0
        self._held: ImageLease | None = None
        self._files: set[int] = set()

    @property
    def dropped(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Items that the engine skipped so far because this side was slow."""
        return self.opened.dropped + self._overwritten

    def __next__(self) -> Any:
        if self._held is not None:
            self._release()
        while True:
            item = self._item(self._recv())
            if item is not None:
                return item

    def try_next(self) -> Any:
        """Return the next item, None when none has come yet; never waits. Raises what `next` raises."""
        if self._held is not None:
            self._release()
        while self.opened.has_news():
            item = self._item(self._recv())
            if item is not None:
                return item
        return None

    def _item(self, payload: Any) -> Any:
        """Return the item, None for one whose images were overwritten; one that cannot be decoded ends the stream."""
        try:
            return self._decode(payload) if payload.__class__ is bytes else self._with_images(payload)
        except TransportError as error:
            self.opened.fail(error)
            raise

    def _with_images(self, lease: Any) -> Any:
        """Return the item that came with images, None when the engine has overwritten them."""
        item = self._decode(lease.payload)
        if not lease.fill((item,) if self._is_frame else frames_of(item), self._copy, self._files):
            self._overwritten += 1
            return None
        if not self._copy:
            self._held = lease
        return item

    def _release(self) -> None:
        """Give back the images of the last item."""
        if self._held is not None:
            self._held.release()
            self._held = None

    def _forget_files(self) -> None:
        files, self._files = self._files, set()
        if self._images is not None and files:
            self._images.forget(files)

    def _recv(self) -> Any:
        """Return the next payload. Raises StopIteration after the last."""
        try:
            payload = self.opened.recv()
        except TransportError:
            self._forget_files()
            raise
        if payload is None:
            self._forget_files()
            raise StopIteration
        return payload

    def cancel(self) -> None:
        held = self._held
        if held is not None and not self.opened.is_ended():
            held.keep()  # what was looked at last stays as it is: its file goes with the stream
        self.opened.cancel()
        self._forget_files()

    def __del__(self) -> None:
        if "_files" in vars(self):  # not so when opening it failed
            self.cancel()
