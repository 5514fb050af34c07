"""A relay: a server in shared memory, a channel to its upstream, what forwards each call from one to the other, and the
counts that `ls`, `top` and `inspect` show.
"""

from __future__ import annotations

import inspect
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lucky_transport.call_counts import CallCounter, CallCounters, Calls, new_folder
from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, read_options
from lucky_transport.errors import ConfigError, NotReachable
from lucky_transport.lazy_dict import LazyDict
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server_call import ServerCall
from lucky_transport.shm.files.server_description import described
from lucky_transport_grpc.address import target_of
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.run.targets import TargetMap
from lucky_transport_stubs.server.context import call_of
from lucky_transport_stubs.server.server import server
from lucky_transport_stubs.words.metadata import WAITS
from lucky_transport_stubs.words.status import GONE

SCHEMES = ("grpc", "grpcs", "grpc+unix")

#: What a client of ours takes; gRPC's own limit refuses some of what is longer than half of it, by chance.
_METADATA_BYTES = 16384
#: The limits are those of the client and of the server: the relay has none. gRPC connects again by itself, soon.
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", _METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


def _contents(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(path) from error


_FILE = EndpointOption(_contents, "a PEM file that can be read")
_NAME = EndpointOption(str, "the name in the server's certificate")
_TLS_OPTIONS = {"ca": _FILE, "cert": _FILE, "key": _FILE, "authority": _NAME}


def target_at(upstream: Endpoint) -> str:
    """Return gRPC's name of the server. Raises ConfigError for another scheme and for an address that is none."""
    if upstream.scheme not in SCHEMES:
        hint = "name a gRPC server, for instance grpc://127.0.0.1:50051"
        if upstream.scheme == "shm":
            hint += "; clients in shared memory reach shm:// without a relay"
        raise ConfigError(f"a relay leads to {', '.join(SCHEMES)}, not to {str(upstream)!r}", hint=hint)
    return target_of(upstream._replace(scheme="grpc") if upstream.scheme == "grpcs" else upstream)


def open_channel(upstream: Endpoint) -> grpc.Channel:
    """Return a channel to the server, over gRPC whatever this process has switched; it connects with the first call.

    Raises ConfigError for what is wrong with the endpoint or its certificates.
    """
    target, given = target_at(upstream), read_options(upstream, _TLS_OPTIONS, backend="grpc")
    if upstream.scheme != "grpcs":
        if given:
            raise ConfigError(f"endpoint {str(upstream)!r}: options are those of TLS", hint="write grpcs://host:port")
        return inspect.unwrap(grpc.insecure_channel)(target, options=_OPTIONS)
    if ("cert" in given) != ("key" in given):
        raise ConfigError(f"endpoint {str(upstream)!r}: cert and key belong together", hint="give both, or neither")
    options: tuple[tuple[str, Any], ...] = _OPTIONS
    if "authority" in given:
        options += (("grpc.ssl_target_name_override", given["authority"]),)
    credentials = grpc.ssl_channel_credentials(given.get("ca"), given.get("key"), given.get("cert"))
    return inspect.unwrap(grpc.secure_channel)(target, credentials, options=options)


DEFAULT_MAX_CALLS = 1000
#: So many methods are kept and counted; callers may name any number of them.
_MOST_METHODS = 1024
#: The limits of messages are those of the client and of the upstream server.
_SERVER_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Relay:
    """Serves the gRPC server at `upstream` at `endpoint`, as a context.

    endpoint: shm://NAME; {host} and {port} stand for those of the upstream, as in the map of `lucky-transport run`.
    max_calls: that are under way at once; more are RESOURCE_EXHAUSTED. Raises ConfigError for endpoints that are none,
    NotReachable where the name is taken.
    """

    def __init__(self, upstream: str, endpoint: str, max_calls: int = DEFAULT_MAX_CALLS) -> None:
        where = Endpoint.parse(upstream)
        target = target_at(where)
        self.endpoint = TargetMap([f"*={endpoint}"]).endpoint_of(target)
        self._channel = open_channel(where)
        _remove_left_over(Endpoint.parse(self.endpoint).address)
        self._pool = ThreadPoolExecutor(max_calls, thread_name_prefix="lucky-relay")
        self._folder = new_folder()
        name = f"{where.scheme}://{where.address}"  # without the files of its certificates
        self._server = server(self._pool, (Forwarding(self._channel, name),), None, _SERVER_OPTIONS, max_calls)
        self._server.counters_at, self._server.counts = self._counters_at, str(self._folder)
        self._server.target_of, self._server.is_relay = lambda address: target, True
        self._target = target
        try:
            self._server.add_insecure_port(self.endpoint)
        except RuntimeError as error:
            self._close()
            raise NotReachable(str(error), backend="shm", hint="give another --endpoint") from error

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(0.0)

    def stop(self, grace_s: float) -> None:
        """Refuse new calls, let those under way end within `grace_s` seconds, cancel the rest. Idempotent."""
        self._server.stop(grace_s).wait()
        self._close()

    def _close(self) -> None:
        self._channel.close()
        self._pool.shutdown(wait=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _counters_at(self, address: str) -> Mapping[str, CallCounter]:
        here, all_counters = f"shm://{Endpoint.parse(address).address}", CallCounters(self._folder)

        def counter(method: str) -> CallCounter:
            calls = Calls(self._target, here, "", method, role="server")
            return all_counters.counter(calls) if len(counters) < _MOST_METHODS else CallCounter(lambda: lambda: None)

        counters = LazyDict[str, CallCounter](counter, most=_MOST_METHODS)
        return counters


def _remove_left_over(name: str) -> None:
    """Remove the counts of a relay of this name that was killed; the listener removes the rest."""
    for _, description, pid in described():
        if description.is_relay and description.name == name and pid is None and description.counts:
            shutil.rmtree(description.counts, ignore_errors=True)


#: By the number of a `Shape`. The server cannot tell what its caller takes for one response from a stream of one.
_ARITIES = ("unary_unary", "stream_stream", "unary_stream", "stream_stream")
#: What says how messages came here, by which library, and to this relay.
_OF_THIS_HOP = frozenset({"user-agent", WAITS[0]})


class Forwarding(grpc.GenericRpcHandler):
    """Answers every method as the server behind `channel` does. upstream: its name in the details of its absence.

    Bytes stay bytes; no message is read. The call upstream has the caller's arity, metadata and the time that it has
    left, and waits for a server that is not there where the caller does. Of a stream one message each way is held here,
    so a side that reads slowly slows the other one. Both calls end together, whichever ends first.
    """

    def __init__(self, channel: grpc.Channel, upstream: str) -> None:
        self._upstream = upstream

        def method(path: str, arity: str) -> Callable[..., Any]:
            multicallable = getattr(channel, arity)(path)
            return multicallable if arity.endswith("stream") else multicallable.future

        self._method = lru_cache(_MOST_METHODS)(method)
        self._handler = grpc.stream_stream_rpc_method_handler(self._forward)

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler: it serves callers of every arity."""
        return self._handler

    def _forward(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        caller = call_of(context)
        upstream = self._begin(caller, requests)
        if upstream is None:
            return
        if not context.add_callback(upstream.cancel):
            upstream.cancel()
        try:
            initial = upstream.initial_metadata()
            if initial:  # empty ones go with the first message: those of a status alone would end the caller's retries
                context.send_initial_metadata(initial)
            with suppress(grpc.RpcError, grpc.FutureCancelledError):
                if caller.shape == Shape.UNARY:
                    yield upstream.result()
                else:
                    yield from upstream
            self._end(upstream, context)
        finally:
            upstream.cancel()

    def _begin(self, caller: ServerCall, requests: Iterator[bytes]) -> Any:
        """Return the call upstream, None where the caller has left before its request."""
        sends_many = bool(caller.shape & Shape.CLIENT_STREAM)
        sent: Any = CallerRequests(requests) if sends_many else next(requests, None)
        if sent is None:
            return None
        call = self._method(caller.path, _ARITIES[caller.shape])(
            sent,
            timeout=None if caller.deadline is None else caller.deadline.remaining_s,
            metadata=tuple(entry for entry in caller.metadata if entry[0] not in _OF_THIS_HOP),
            wait_for_ready=WAITS in caller.metadata,
        )
        if sends_many:
            sent.begun(call)
        return call

    def _end(self, upstream: Any, context: Any) -> None:
        code, details = upstream.code(), upstream.details() or ""
        if code is grpc.StatusCode.UNAVAILABLE and GONE.search(details):
            details = f"{details} (upstream {self._upstream})"
        context.set_trailing_metadata(upstream.trailing_metadata())
        context.set_code(code)
        context.set_details(details)


class CallerRequests:
    """A caller's requests, for gRPC's thread that sends them. Where the caller leaves, the call upstream is cancelled:
    its end must not look like the end of the requests.
    """

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._has_begun = threading.Event()
        self._call: Any = None

    def begun(self, call: Any) -> None:
        """Note the call that sends these."""
        self._call = call
        self._has_begun.set()

    def __iter__(self) -> CallerRequests:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._requests)
        except grpc.RpcError:
            self._has_begun.wait()
            self._call.cancel()
            raise StopIteration from None
