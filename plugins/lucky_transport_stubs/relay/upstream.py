"""The gRPC server that a relay leads to: `grpc://host:port`, `grpcs://host:port?ca=FILE`, `grpc+unix:///path`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, read_options
from lucky_transport.errors import ConfigError
from lucky_transport_grpc.address import target_of
from lucky_transport_grpc.runtime import grpc

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
