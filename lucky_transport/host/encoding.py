"""Encodes an engine's answers, with their images in the client's slots as far as there are any.

A message is never changed, since an engine may be sending it to several clients at once. What does not fit its method
is the engine's fault: EngineFailed, with the field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lucky_transport.codec.flatbuffers import ENCODERS, encode
from lucky_transport.errors import EngineFailed
from lucky_transport.messages.images import detach, frames_of, holds_images
from lucky_transport.messages.methods import Method
from lucky_transport.rpc.images import ImageRef
from lucky_transport.rpc.server_call import ServerCall


def encode_response(method: Method, response: Any) -> bytes:
    """Return the response as bytes, images included. Raises EngineFailed."""
    if type(response) is not method.response:
        raise EngineFailed(
            f"the engine's answer to {method.name} is no {method.response.__name__}: it is {type(response).__name__}"
        )
    try:
        return encode(response)
    except (TypeError, ValueError, AttributeError) as error:
        raise _misfit(method, error) from error


def response_encoder(method: Method) -> Callable[[Any], bytes]:
    """Return `encode_response` for the many responses of one method, without its checks where they fit."""
    cls: type[Any] = method.response
    encode_one = ENCODERS[cls]

    def encode_of_class(response: Any) -> bytes:
        if response.__class__ is cls:
            try:
                return encode_one(response)
            except (TypeError, ValueError, AttributeError):
                pass  # `encode_response` reports it
        return encode_response(method, response)

    return encode_of_class


def encode_answer(method: Method, call: ServerCall, response: Any) -> tuple[bytes, Sequence[ImageRef]]:
    """Return the response as bytes, and the places of its images if it does not hold them.

    Raises EngineFailed, NoSpace.
    """
    images = call.image_sink if holds_images(method.response) else None
    if images is None or type(response) is not method.response:
        return encode_response(method, response), ()
    try:
        bare, data = detach(response)
        places = images.put(data)
    except (TypeError, ValueError, AttributeError) as error:
        raise _misfit(method, error) from error
    placed = [place.file for place in places]
    if 0 in placed:
        for frame, file, image in zip(frames_of(bare), placed, data, strict=True):
            if not file:
                frame.data = image
    try:
        payload = encode_response(method, bare)
    except EngineFailed:
        images.take_back(places)
        raise
    return payload, places if any(placed) else ()


def _misfit(method: Method, error: Exception) -> EngineFailed:
    return EngineFailed(f"the engine's answer to {method.name} is no {method.response.__name__}: {error}")
