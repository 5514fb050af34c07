"""A drop-in `grpc.Channel` to an engine or server in shared memory.

    channel = lucky_transport_stubs.channel("shm://name")       # where grpc.insecure_channel("host:port") was

It connects at the first call, and again after the connection broke.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from lucky_transport.config import load_settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError
from lucky_transport_grpc.address import target_of
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.client.connectivity import Connectivity
from lucky_transport_stubs.client.link import Link
from lucky_transport_stubs.client.methods import BY_ARITY, ConfiguredUnaryUnary
from lucky_transport_stubs.client.prepared import CallSettings
from lucky_transport_stubs.greenlets import why_no_threads
from lucky_transport_stubs.grpc_inside import ChannelBase, appears_as
from lucky_transport_stubs.words.arities import ArityChannel
from lucky_transport_stubs.words.options import check_default_compression, user_agent

Options = Iterable[tuple[str, Any]] | None


def channel(
    endpoint: str | Endpoint | None = None,
    options: Options = None,
    compression: Any = None,
    credentials: grpc.ChannelCredentials | None = None,
) -> grpc.Channel:
    """Return a channel to `endpoint` (default: `LUCKY_ENDPOINT`): shm://name, or a real one for grpc and grpc+unix.

    No server needs to be there. options, compression: as for `grpc.insecure_channel`. credentials: as for
    `grpc.secure_channel`; what they come to is in the README. Raises ConfigError for other endpoints and for
    credentials of a network's peer; TypeError, ValueError for what are no options; AttributeError, TypeError for what
    are no credentials.
    """
    found = endpoint_of(endpoint)
    if found.scheme == "shm":
        return Channel(found, options, credentials, compression)
    given = {"options": tuple(options or ()), "compression": compression}
    if credentials is None:
        return grpc.insecure_channel(target_of(found), **given)
    return grpc.secure_channel(target_of(found), credentials, **given)


def endpoint_of(endpoint: str | Endpoint | None) -> Endpoint:
    """Return where a channel leads: the endpoint given, or else the configured one. Raises ConfigError."""
    if endpoint is None:
        settings = load_settings()
        endpoint = settings.endpoint or (f"shm://{settings.shm_name}" if settings.shm_name else "")
        if not endpoint:
            raise ConfigError("no endpoint for a channel", hint="pass channel('shm://name') or set LUCKY_ENDPOINT")
    found = Endpoint.parse(endpoint)
    is_name = found.scheme == "shm" and found.address and "/" not in found.address
    if not is_name and found.scheme not in ("grpc", "grpc+unix"):
        raise ConfigError(f"endpoint {str(found)!r} of a channel", hint="write shm://name or grpc://127.0.0.1:50051")
    if is_name and (why := why_no_threads()):
        raise ConfigError(f"endpoint {str(found)!r} of a channel: {why}", hint="use gRPC in this process")
    return found


@appears_as(ChannelBase)
class Channel(ArityChannel):
    """Everything of `grpc.Channel`, including the undocumented parts that generated code uses.

    Its connection lives as long as the channel, a stub or a call of it, or until `close`.
    """

    def __init__(
        self, endpoint: Endpoint, options: Options = None, credentials: Any = None, compression: Any = None
    ) -> None:
        given = tuple(options or ())
        check_default_compression(compression)
        self._settings = CallSettings(endpoint, given, credentials, user_agent(given))
        # `_channel`, `_target`: the names by which programs know where a channel of grpc leads.
        self._link = self._channel = Link(endpoint, self._settings)
        self._target = self._settings.target.removeprefix("dns:///")
        self._connectivity = Connectivity(self._link)

    @property
    def _connectivity_state(self) -> Any:
        """What programs read in gRPC's own channel: how it stands; it knows that before it is subscribed to."""
        return SimpleNamespace(channel=self._link, connectivity=self._link.standing.state)

    def subscribe(self, callback: Callable[[Any], Any], try_to_connect: bool | None = False) -> None:
        """Tell `callback` how the channel stands, now and whenever that changes. Raises ValueError when closed."""
        if self._link.is_closed:
            raise ValueError("Cannot subscribe: Channel closed!")
        self._connectivity.subscribe(callback, bool(try_to_connect))

    def unsubscribe(self, callback: Callable[[Any], Any]) -> None:
        """Tell it no more; no effect for one that is not subscribed."""
        self._connectivity.unsubscribe(callback)

    def close(self) -> None:
        """End every call under way as CANCELLED, and let go of the connection; idempotent."""
        self._connectivity.close()
        self._link.close()

    def __del__(self) -> None:
        # Not made when making the channel failed. At the end of the process threads are gone, with locks they hold.
        if "_connectivity" in vars(self) and not sys.is_finalizing():
            self._connectivity.close()

    def _make(self, arity: str, method: str, serialize: Any, deserialize: Any) -> Any:
        path = method or "/"  # without a name no server knows it either
        is_configured = arity == "unary_unary" and self._settings.has_config(path)
        kind = ConfiguredUnaryUnary if is_configured else BY_ARITY[arity]
        return kind(self._link, path, self._settings.messages(serialize, deserialize))
