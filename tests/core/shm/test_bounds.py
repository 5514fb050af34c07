"""Every way of counting actions outside their bounds agrees with a comparison of exact values, for every dtype."""

from __future__ import annotations

import math
from fractions import Fraction
from mmap import mmap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lucky_transport import api, native
from lucky_transport.config import load_settings
from lucky_transport.engine import Buffers, Engine
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.process import unique_name
from lucky_transport.serving import Serving
from lucky_transport.shm.segment.channel import ActionFormat, ChannelOffsets, Result
from lucky_transport.spec.actions import Bounds
from lucky_transport.spec.array_spec import DTYPES, ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec, Part
from lucky_transport.spec.composite import pack
from lucky_transport.transport import Transport

#: Channels count these themselves; the transport counts the others by `Bounds`.
_NATIVE = ("float32", "float64", "int64")
#: Of a few words and _LONG copies of a case's values: from a kilobyte on, other instructions look at a batch.
_MEMORY, _LONG = 1 << 17, 201


def _limits(dtype: str) -> tuple[Any, Any]:
    if dtype == "bool":
        return 0, 1
    limits: Any = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
    return np.array(limits.min).item(), np.array(limits.max).item()


def _exact(value: Any) -> Any:
    return value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)


def _bound_in(dtype: str, bound: Any) -> Any:
    """The bound as an exact number of the dtype, written without the code under test."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return _exact(np.dtype(dtype).type(bound).item())
    return _exact(bound)


def _count(dtype: str, low: Any, high: Any, values: list[Any]) -> int:
    low = -math.inf if low is None else _bound_in(dtype, low)
    high = math.inf if high is None else _bound_in(dtype, high)
    return sum(_exact(value) < low or _exact(value) > high for value in values)


def _near(dtype: str, bound: Any) -> list[Any]:
    """The bound itself and its neighbours on both sides, where the dtype holds them."""
    if np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            at = np.dtype(dtype).type(bound)
            near = [at, np.nextafter(at, np.dtype(dtype).type(-np.inf)), np.nextafter(at, np.dtype(dtype).type(np.inf))]
        return [value.item() for value in near if np.isfinite(value)]
    if not math.isfinite(bound):
        return []
    least, most = _limits(dtype)
    around = (math.floor(bound) - 1, math.floor(bound), math.ceil(bound), math.ceil(bound) + 1)
    return [value for value in around if least <= value <= most]


def _bounds_of(dtype: str, unbounded: float) -> st.SearchStrategy[Any]:
    """Bounds of a dtype: its extremes, -0.0, infinity, NaN, and what only a wider type holds."""
    least, most = _limits(dtype)
    odd = st.sampled_from([-0.0, 0, 0.1, unbounded, math.nan, 2**53 + 1, 1e300])
    inside = (
        st.floats(least, most, width=64)
        if np.dtype(dtype).kind == "f"
        else st.one_of(st.sampled_from([least, most, least + 1, most - 1]), st.integers(least, most), st.just(0.5))
    )
    if np.dtype(dtype).kind != "f":
        odd = odd.filter(lambda bound: not math.isfinite(bound) or least <= bound <= most)
    return st.one_of(inside, odd)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[str, Any, Any, list[Any]]:
    dtype = draw(st.sampled_from(DTYPES))
    low, high = draw(_bounds_of(dtype, -math.inf)), draw(_bounds_of(dtype, math.inf))
    if low > high:
        low, high = high, low
    least, most = _limits(dtype)
    values = [least, most, *_near(dtype, low), *_near(dtype, high), 0]
    return dtype, low, high, values


def _batch(dtype: str, values: list[Any]) -> NDArray[Any]:
    return np.array(values, dtype).reshape(1, -1)


def _sent(bounds: Bounds, actions: NDArray[Any]) -> int:
    channel = _channel(bounds, actions)
    assert channel.send(actions, None) == 0
    return channel.out_of_bounds


def _exchanged(bounds: Bounds, actions: NDArray[Any]) -> int:
    """The count of the second exchange, which is the first that goes the quick way; its frames are there before."""
    memory = mmap(-1, _MEMORY)
    frame_seq = np.frombuffer(memory, np.uint64, 1)
    channel, frame = _channel(bounds, actions, memory), SimpleNamespace(seq=0, any_ended=False)
    channel.fuse((frame,), lambda code, *_: pytest.fail(f"not quick: {code}"), 1_000_000_000)
    frame_seq[0] = 1
    assert channel.exchange(np.zeros_like(actions)) is frame
    before = channel.out_of_bounds
    frame_seq[0] = 2
    assert channel.exchange(actions) is frame
    return channel.out_of_bounds - before


def _channel(bounds: Bounds, actions: NDArray[Any], memory: mmap | None = None) -> Any:
    assert bounds.low is not None
    assert bounds.high is not None
    code, low, high = actions.dtype.char, bounds.low.item(), bounds.high.item()
    offsets = ChannelOffsets(0, 8, 128, 256, 384, 512, 640, 4096, 2048, 2112, 2176, 1)
    actions_format = ActionFormat(actions.shape, code, low, high)
    return native.ClientChannel(memory or mmap(-1, _MEMORY), offsets, actions_format, strategy=1, peer=3)


@given(_cases())
@example(("int64", -(2**63), 2**63 - 1, [-(2**63), 0, 2**63 - 1]))
@example(("int64", -(2**53) - 1, 2**53 + 1, [-(2**53) - 2, -(2**53) - 1, 2**53 + 1, 2**53 + 2]))
@example(("uint64", 0, 2**64 - 2, [0, 2**63, 2**64 - 2, 2**64 - 1]))
@example(("float32", -0.1, 0.1, [np.float32(-0.1).item(), 0.0, np.float32(0.1).item()]))
@example(("float64", math.nan, 0.5, [0.5, 1.0, -9.0]))
def test_values_at_and_beside_each_bound_are_counted_alike(case: tuple[str, Any, Any, list[Any]]) -> None:
    dtype, low, high, values = case
    actions, bounds = _batch(dtype, values), Bounds(ArraySpec(dtype, (len(values),), low, high))
    expected = _count(dtype, low, high, values)
    assert bounds.count_outside(actions) == expected
    if expected:
        with pytest.raises(ValueError, match="out of bounds"):
            bounds.check(actions)
    else:
        bounds.check(actions)
    if dtype in _NATIVE:
        assert _sent(bounds, actions) == _exchanged(bounds, actions) == expected
        many = np.tile(actions, _LONG)
        assert _sent(bounds, many) == _exchanged(bounds, many) == _LONG * expected


@given(
    st.sampled_from(("float32", "float64")),
    st.sampled_from((math.nan, math.inf, -math.inf)),
    st.sampled_from((1, 7, 127, 128, 255, 256, 257, 4099)),
    st.booleans(),
    st.data(),
)
def test_one_value_that_is_not_finite_is_found_wherever_it_lies(
    dtype: str, value: float, count: int, bounded: bool, data: st.DataObject
) -> None:
    actions = np.full((1, count), 3, dtype)
    limit = 2.0 if bounded else math.inf
    channel = _channel(Bounds(ArraySpec(dtype, (count,), -limit, limit)), actions)
    assert channel.send(actions, None) == 0
    assert channel.out_of_bounds == bounded * count
    actions[0, data.draw(st.integers(0, count - 1), label="place")] = value
    assert channel.send(actions, None) == Result.NOT_FINITE
    assert channel.out_of_bounds == bounded * count


class _Still(Engine):
    """Takes actions of one spec and does nothing."""

    def __init__(self, action: ArraySpec, parts: tuple[Part, ...] = ()) -> None:
        self.spec = BatchSpec("still", 1, ArraySpec("float32", (1,)), action, action_parts=parts)

    def bind(self, buffers: Buffers) -> None:
        pass

    def step(self, control: NDArray[np.uint8] | None) -> None:
        pass


def _open(transport: str, engine: Engine) -> tuple[Serving, Transport]:
    if transport == "grpc":
        pytest.importorskip("grpc")
    address = "127.0.0.1:0" if transport == "grpc" else unique_name()
    serving = api.serve(engine, f"{transport}://{address}")
    return serving, api.open_transport(serving.endpoints[0], load_settings())


_CASES = [
    ("int64", -(2**63), 2**63 - 1),
    ("int64", -(2**53) - 1, 2**53 + 1),
    ("uint64", 1, 2**64 - 2),
    ("uint8", 1, 254),
    ("int32", -5, 5),
    ("float32", -0.1, 0.1),
    ("float64", -0.1, 0.1),
    ("float32", -0.0, math.inf),
    ("float64", None, 0.3),
]


@pytest.mark.parametrize("composite", [False, True])
@pytest.mark.parametrize("transport", ["inproc", "shm", "grpc"])
@pytest.mark.parametrize(("dtype", "low", "high"), _CASES)
def test_each_transport_counts_and_refuses_alike(
    dtype: str, low: Any, high: Any, transport: str, composite: bool
) -> None:
    values = [*_near(dtype, low if low is not None else -1), *_near(dtype, high), *_limits(dtype)]
    actions, action = _batch(dtype, values), ArraySpec(dtype, (len(values),), low, high)
    row, parts = pack([Part(("arm",), action)])[:2] if composite else (action, ())
    given: Any = {"arm": actions} if composite else actions
    expected = _count(dtype, low, high, values)
    serving, client = _open(transport, _Still(row, parts))
    with serving, VectorEnv(client, validate="pass") as env:
        env.reset()
        env.step(given)
        env.step(given)
        assert env.out_of_bounds == 2 * expected
    serving, client = _open(transport, _Still(row, parts))
    with serving, VectorEnv(client, validate="strict") as env:
        env.reset()
        if expected:
            with pytest.raises(ValueError, match="out of bounds"):
                env.step(given)
        space: Any = env.action_space
        inside = space["arm"] if composite else space
        for edge in (inside.low, inside.high):
            if np.isfinite(edge).all():
                env.step({"arm": edge} if composite else edge)
