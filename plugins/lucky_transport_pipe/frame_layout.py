"""How one exchange is laid out in two payloads: actions there, a frame back.

    request    number u64 | has control u8, 7 bytes unused | control u8[num_envs], if any | actions
    response   observations | signals f32 | rewards f32 | terminated u8 | truncated u8, each from a multiple of 8 on

A peer's bytes are checked against the spec before the first view of them exists. An engine writes its frame into the
response itself; a client's frame is a view of the bytes that came.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import Buffers
from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport.spec.actions import check_actions, check_control
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.transport import Frame
from lucky_transport_pipe.address import BACKEND

__all__ = ["EXCHANGE", "GET_SPEC", "FrameLayout", "pack_request", "unpack_request"]

#: The methods that carry the spec as JSON, and whole exchanges in the layouts of this file.
GET_SPEC = "/lucky_transport.v1.BatchService/GetSpec"
EXCHANGE = "/lucky_transport.v1.BatchService/Exchange"

if sys.byteorder != "little":  # pragma: no cover - no such machine runs an engine
    raise ImportError("lucky_transport packs arrays on little-endian machines only")

_HEAD = struct.Struct("<QB7x")
_ALIGNMENT = 8


def pack_request(seq: int, actions: NDArray[Any], control: NDArray[np.uint8] | None) -> bytes:
    """Return the request of exchange `seq`; actions C-contiguous, control uint8 (num_envs,) or None."""
    if control is None:
        return b"".join((_HEAD.pack(seq, 0), actions.data))
    return b"".join((_HEAD.pack(seq, 1), control.data, actions.data))


def unpack_request(spec: BatchSpec, payload: bytes) -> tuple[int, NDArray[Any], NDArray[np.uint8] | None]:
    """Return number, actions and control, which are views of the payload. Raises SpecError for what does not fit."""
    if len(payload) < _HEAD.size:
        raise SpecError(f"an exchange of {len(payload)} bytes", backend=BACKEND)
    seq, has_control = _HEAD.unpack_from(payload)
    at = _HEAD.size + (spec.num_envs if has_control else 0)
    count = spec.num_envs * spec.action.size
    expected = at + count * spec.action.itemsize_bytes
    if len(payload) != expected:
        raise SpecError(f"an exchange of {len(payload)} bytes, expected {expected}", backend=BACKEND)
    dtype = np.dtype(spec.action.dtype)
    if dtype.kind == "b":  # any nonzero byte is true; NumPy only knows 1
        actions = np.frombuffer(payload, np.uint8, count, at) != 0
    else:
        actions = np.frombuffer(payload, dtype, count, at)
    try:
        actions = check_actions(spec, actions.reshape(spec.action_shape))
    except (ValueError, TypeError) as error:
        raise SpecError(str(error), backend=BACKEND) from error
    if not has_control:
        return seq, actions, None
    control = np.frombuffer(payload, np.uint8, spec.num_envs, _HEAD.size)
    return seq, actions, check_control(spec, control)


class FrameLayout:
    """Where the arrays of a frame are in a response of `nbytes` bytes."""

    def __init__(self, spec: BatchSpec) -> None:
        n = (spec.num_envs,)
        self._spec = spec
        self._places: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]] = {}
        at = 0
        for name, dtype, shape in (
            ("observations", spec.observation.dtype, spec.observation_shape),
            ("signals", "float32", (spec.num_terms, spec.num_envs)),
            ("rewards", "float32", n),
            ("terminated", "uint8", n),
            ("truncated", "uint8", n),
        ):
            kind = np.dtype(dtype)
            self._places[name] = (kind, shape, at)
            nbytes = kind.itemsize * int(np.prod(shape))
            at += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        self.nbytes = at

    def _views(self, memory: bytes | bytearray) -> dict[str, NDArray[Any]]:
        return {name: np.ndarray(shape, dtype, memory, at) for name, (dtype, shape, at) in self._places.items()}

    def buffers(self, memory: bytearray) -> Buffers:
        """Return an engine's buffers whose frame lies in `memory`, `nbytes` long; the actions are apart."""
        return Buffers(actions=np.zeros(self._spec.action_shape, self._spec.action.dtype), **self._views(memory))

    def frame(self, payload: bytes) -> Frame:
        """Return the frame in a response, as read-only views of it. Raises RemoteProtocolError for another size."""
        if len(payload) != self.nbytes:
            raise RemoteProtocolError(f"a frame of {len(payload)} bytes, expected {self.nbytes}", backend=BACKEND)
        views = self._views(payload)
        if views["observations"].dtype.kind == "b":  # any nonzero byte is true; NumPy only knows 1
            views["observations"] = views["observations"].view(np.uint8) != 0
            views["observations"].flags.writeable = False
        frame = Frame(
            views["observations"], views["rewards"], views["terminated"], views["truncated"], views["signals"]
        )
        frame.any_ended = bool(frame.terminated.any() or frame.truncated.any())
        return frame
