"""Channel and server options: those of gRPC that mean something without a network.

An option has gRPC's name, default and meaning. What happens to each says the table of the README.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import StatusError
from lucky_transport.rpc.fragments import DEFAULT_LIMIT
from lucky_transport_stubs.words.metadata import USER_AGENT
from lucky_transport_stubs.words.status import Code, error_of

if TYPE_CHECKING:
    from lucky_transport.routing import ChannelOptions


Options = Iterable[tuple[str, Any]] | None

_log = logging.getLogger("lucky_transport")

_logged: set[str] = set()

#: Options, arguments and fields of a service config that the log names, by the reason: the README has all others.
_WITHOUT_EFFECT = {
    "metadata and details have 16,384 bytes at most": "grpc.max_metadata_size grpc.absolute_max_metadata_size",
    "a server takes 1,024 calls at a time of each connection": "grpc.max_concurrent_streams",
    "connections last until either side closes them": "grpc.max_connection_age_ms grpc.max_connection_age_grace_ms"
    " grpc.max_connection_idle_ms",
    "a channel stays connected": "grpc.client_idle_timeout_ms",
    "calls wait for a thread of the pool until their deadlines": "grpc.server.max_pending_requests"
    " grpc.server.max_pending_requests_hard_limit grpc.server_max_unrequested_time_in_server",
    "a server takes 1,024 clients": "grpc.max_allowed_incoming_connections",
    "memory is bounded by connection: each has rings that grow to a fixed size": "grpc.resource_quota",
    "no policy is applied: callers are processes of this user": "grpc.authorization_policy_provider",
    "channelz does not list what goes through shared memory": "grpc.enable_channelz"
    " grpc.max_channel_trace_event_memory_per_node",
    "responses are read as without it": "SingleThreadedUnaryStream",
    "there is no xDS": "xds",
    "a call makes one attempt at a time": "hedgingPolicy",
    "there is one server": "loadBalancingConfig loadBalancingPolicy",
    "a server that listens is taken to be healthy": "healthCheckConfig",
    "the channel's options limit the size of messages": "maxRequestMessageBytes maxResponseMessageBytes",
}
LOGGED = {name: why for why, names in _WITHOUT_EFFECT.items() for name in names.split()}

_DECIDING = frozenset(
    {"grpc.max_receive_message_length", "grpc.max_send_message_length", "grpc.service_config"}
    | {"grpc.enable_retries", "grpc.per_rpc_retry_buffer_size"}
)
#: What gRPC keeps of a call's requests for another attempt.
_RETRY_BUFFER_BYTES = 256 * 1024

#: What stands for "any length": more than any message has.
_UNLIMITED = 2**31 - 1


def log_ignored(options: Options) -> None:
    """Log, once in a process, each option given that has no effect here and would have one over a network."""
    log_unsupported(key.decode(errors="replace") if isinstance(key, bytes) else key for key, _ in options or ())


def log_unsupported(names: Iterable[str]) -> None:
    """Log in the same way each of these options, or fields of a service config, that has no effect here."""
    for name in names:
        if name in LOGGED and name not in _logged:
            _logged.add(name)
            _log.warning("the option %s has no effect over shared memory: %s", name, LOGGED[name])


def deciding(options: Options) -> ChannelOptions:
    """Return those that decide how calls end: limits of messages, and the service config with what belongs to it."""
    pairs = options if isinstance(options, (list, tuple)) else ()
    named = ((key.decode() if isinstance(key, bytes) else key, value) for key, value in pairs)
    return tuple((key, value) for key, value in named if key in _DECIDING and isinstance(value, str | int))


def max_receive_bytes(options: Options) -> int:
    """Return the length of the longest message that this side takes: 4 MiB, or what the options say.

    Raises TypeError, ValueError for what are no options.
    """
    limit = _value(options, "grpc.max_receive_message_length", int, DEFAULT_LIMIT)
    return _UNLIMITED if limit < 0 else limit


def max_send_bytes(options: Options) -> int | None:
    """Return the length of the longest message that this side sends, None for any. Raises the same errors."""
    limit = _value(options, "grpc.max_send_message_length", int, -1)
    return None if limit < 0 else limit


def user_agent(options: Options, own: str = USER_AGENT) -> str:
    """Return the user agent that the options put around our own, "" where that is the usual one. Raises the same."""
    first = _value(options, "grpc.primary_user_agent", str, "")
    last = _value(options, "grpc.secondary_user_agent", str, "")
    whole = f"{first} {own} {last}".strip()
    return "" if whole == USER_AGENT else whole


def authority(options: Options) -> str:
    """Return the host that the options name, "" where they name none. Raises the same errors."""
    overridden = _value(options, "grpc.ssl_target_name_override", str, "")
    return _value(options, "grpc.default_authority", str, overridden)


def target_of(options: Options, endpoint: Endpoint) -> str:
    """Return what `run` says the program dialled, else the endpoint. Raises the same errors."""
    return _value(options, "lucky_transport.target", str, str(endpoint))


def check_default_compression(compression: Any) -> None:
    """Raise TypeError, ValueError, as gRPC does, for what is no number of an algorithm, of a channel or a server."""
    int(compression or 0)


def check_compression(compression: Any) -> None:
    """Raise KeyError, as gRPC does, for what is neither a `grpc.Compression` nor false. Nothing is compressed."""
    if compression and compression not in (1, 2):
        raise KeyError(compression)


def service_config(options: Options) -> str | None:
    """Return the JSON of the service config, None where there is none. Raises the same errors."""
    return _value(options, "grpc.service_config", str, None)


def enables_retries(options: Options) -> bool:
    """Return whether retry policies hold. Raises the same errors."""
    return bool(_value(options, "grpc.enable_retries", int, 1))


def retry_buffer_bytes(options: Options) -> int:
    """Return how much of a call's requests is kept for another attempt. Raises the same errors."""
    return max(_value(options, "grpc.per_rpc_retry_buffer_size", int, _RETRY_BUFFER_BYTES), 0)


def uses_local_pool(options: Options) -> bool:
    """Return whether the channel shares no connection with others. Raises the same errors."""
    return bool(_value(options, "grpc.use_local_subchannel_pool", int, 0))


def received_too_long(side: str) -> Callable[[int, int], StatusError]:
    """Return the maker of the error for a message that is too long for `side` ("CLIENT", "SERVER"): (length, limit)."""
    return lambda length, limit: error_of(
        Code.RESOURCE_EXHAUSTED, f"{side}: Received message larger than max ({length} vs. {limit})"
    )


def sent_too_long(side: str, length: int, limit: int) -> StatusError:
    """Return the error of a message that `side` may not send."""
    return error_of(Code.RESOURCE_EXHAUSTED, f"{side}: Sent message larger than max ({length} vs. {limit})")


def _value(options: Options, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    """Return the first value given for `name`; as in gRPC, the others are ignored, and so is one of another type.

    Raises TypeError, ValueError for what are no pairs with a name, as gRPC does.
    """
    found: list[Any] = []
    for key, value in options or ():
        if not isinstance(key, str | bytes):
            raise TypeError(f"Expected str, not {type(key)}")
        if key == (name if isinstance(key, str) else name.encode()):  # `python -bb` compares no text with bytes
            found.append(value)
    return found[0] if found and isinstance(found[0], kind) else default
