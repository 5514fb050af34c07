"""Messages of one method on the client: requests to bytes, bytes to responses, within the channel's limits.

What a serializer raises is logged; the call fails with gRPC's status and text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from lucky_transport_stubs.words.options import received_too_long, sent_too_long
from lucky_transport_stubs.words.status import Code, error_of

_log = logging.getLogger("grpc._common")


class Messages:
    """serialize, deserialize: as a stub gives them, None for bytes as they are. max_send_bytes: None for any length."""

    def __init__(
        self,
        serialize: Callable[[Any], Any] | None,
        deserialize: Callable[[bytes], Any] | None,
        max_send_bytes: int | None,
        max_receive_bytes: int,
    ) -> None:
        self.serialize = serialize
        self.deserialize = deserialize
        self.max_send_bytes = max_send_bytes
        self._max_receive_bytes = max_receive_bytes

    def payload(self, request: Any) -> bytes:
        """Return the request as bytes.

        Raises StatusError (INTERNAL) when it cannot be made, TypeError when what was made are no bytes.
        """
        payload: Any = request
        if self.serialize is not None:
            try:
                payload = self.serialize(request)
            except Exception:  # foreign code may raise anything
                _log.exception("Exception serializing message!")
                payload = None
        if isinstance(payload, bytes):
            return payload
        if payload is None:
            raise error_of(Code.INTERNAL, "Exception serializing request!")
        raise TypeError(f"Argument 'message' has incorrect type (expected bytes, got {type(payload).__name__})")

    def check_length(self, payload: bytes) -> None:
        """Raise StatusError (RESOURCE_EXHAUSTED) for a request that the channel may not send."""
        limit = self.max_send_bytes
        if limit is not None and len(payload) > limit:
            raise sent_too_long("CLIENT", len(payload), limit)

    def response(self, payload: bytes) -> Any:
        """Return the response that the bytes are; raises StatusError when they are none, or too many."""
        if len(payload) > self._max_receive_bytes:
            raise received_too_long("CLIENT")(len(payload), self._max_receive_bytes)
        if self.deserialize is None:
            return payload
        try:
            response = self.deserialize(payload)
        except Exception:  # foreign code may raise anything
            _log.exception("Exception deserializing message!")
            response = None
        if response is None:
            raise error_of(Code.INTERNAL, "Exception deserializing response!")
        return response
