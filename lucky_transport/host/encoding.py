"""Answers of an engine as bytes, and where their pictures lie: in the client's slots as far as there are any.

Rule 1: a message is left alone, for an engine may be sending it to several clients at once.
Rule 2: what does not fit its method is the engine's fault: EngineFailed, with the field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lucky_transport.codec.flatbuffers import ENCODERS, encode, encoder_without
from lucky_transport.errors import EngineFailed
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.images import detach, frames_of, holds_images
from lucky_transport.messages.methods import Method
from lucky_transport.rpc.images import Place
from lucky_transport.rpc.server_call import ServerCall

__all__ = ["encode_answer", "encode_response", "item_encoder", "response_encoder"]

_encode_bare = encoder_without(ImageFrame, "data")


def encode_response(method: Method, response: Any) -> bytes:
    """Return the response as bytes, pictures and all. Raises EngineFailed."""
    if type(response) is not method.response:
        raise EngineFailed(
            f"the engine's answer to {method.name} is no {method.response.__name__}: it is {type(response).__name__}"
        )
    try:
        return encode(response)
    except (TypeError, ValueError, AttributeError) as error:
        raise _misfit(method, error) from error


def response_encoder(method: Method) -> Callable[[Any], bytes]:
    """Return what does as `encode_response` to many responses of one method: the short way."""
    cls: type[Any] = method.response
    encode_one = ENCODERS[cls]

    def encode_quickly(response: Any) -> bytes:
        if response.__class__ is cls:
            try:
                return encode_one(response)
            except (TypeError, ValueError, AttributeError):
                pass  # told below
        return encode_response(method, response)

    return encode_quickly


def encode_answer(method: Method, call: ServerCall, response: Any) -> tuple[bytes, Sequence[Place]]:
    """Return the response as bytes, and where its pictures lie if not in it. Raises EngineFailed, NoSpace."""
    pictures = call.pictures if holds_images(method.response) else None
    if pictures is None or type(response) is not method.response:
        return encode_response(method, response), ()
    try:
        bare, data = detach(response)
        places = pictures.put(data)
    except (TypeError, ValueError, AttributeError) as error:
        raise _misfit(method, error) from error
    placed = [place.file for place in places]
    if 0 in placed:
        for frame, file, picture in zip(frames_of(bare), placed, data, strict=True):
            if not file:
                frame.data = picture
    try:
        payload = encode_response(method, bare)
    except EngineFailed:
        pictures.take_back(places)
        raise
    return payload, places if any(placed) else ()


def item_encoder(method: Method, call: ServerCall) -> Callable[[Any], tuple[bytes, Sequence[Place]]]:
    """Return what does as `encode_answer` to the items of one stream: the short way for pictures drawn in place."""
    usual = partial(encode_answer, method, call)
    pictures = call.pictures if method.response is ImageFrame else None
    if pictures is None:
        return usual
    put_drawn, take_back = pictures.put_drawn, pictures.take_back

    def encode_frame(frame: Any) -> tuple[bytes, Sequence[Place]]:
        place = put_drawn(frame.data) if frame.__class__ is ImageFrame else None
        if place is None:
            return usual(frame)
        try:
            return _encode_bare(frame), (place,)
        except (TypeError, ValueError, AttributeError) as error:
            take_back((place,))
            raise _misfit(method, error) from error

    return encode_frame


def _misfit(method: Method, error: Exception) -> EngineFailed:
    return EngineFailed(f"the engine's answer to {method.name} is no {method.response.__name__}: {error}")
