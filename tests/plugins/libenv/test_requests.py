"""The options of a host's `libenv_make` become Python values, and a broken request is refused."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError, TransportError
from lucky_transport_libenv.export.requests import read_request


def request(*options: tuple[str, int, int, bytes], envs: int = 4) -> bytes:
    """Return what the shared object writes."""
    body = b"".join(
        struct.pack(
            "<128sii",
            name.encode(),
            dtype,
            n,
        )
        + data
        for name, dtype, n, data in options
    )
    return struct.pack("<II", envs, len(options)) + body


def read(data: bytes) -> tuple[int, dict[str, Any]]:
    return read_request(io.BytesIO(data))


@pytest.mark.parametrize(
    ("dtype", "count", "data", "value"),
    [
        (1, 1, b"\1", True),
        (1, 1, b"\0", False),
        (1, 1, b"x", "x"),
        (1, 4, b"hard", "hard"),
        (1, 0, b"", ""),
        (1, 7, "a\tz\u00fc\u00a0".encode(), "a\tz\u00fc\u00a0"),
        (1, 2, b"\xff\xfe", b"\xff\xfe"),
        (1, 3, b"\0\1\2", b"\0\1\2"),
        (1, 1, b"\2", b"\2"),
        (1, 3, b"ab\0", b"ab\0"),
        (2, 1, struct.pack("<i", -5), -5),
        (2, 2, struct.pack("<ii", 1, 2), [1, 2]),
        (3, 1, struct.pack("<f", 0.1), 0.1),
        (3, 2, struct.pack("<ff", 0.5, 2), [0.5, 2.0]),
    ],
)
def test_an_option_has_the_type_that_its_host_gave_it(dtype: int, count: int, data: bytes, value: Any) -> None:
    _, options = read(request(("x", dtype, count, data)))
    assert (options["x"], type(options["x"])) == (value, type(value))


def test_the_number_of_envs_and_all_options_come_over() -> None:
    data = request(("a", 2, 1, struct.pack("<i", 1)), ("b", 1, 1, b"\1"), envs=7)
    assert read(data) == (7, {"a": 1, "b": True})


@pytest.mark.parametrize(("dtype", "count"), [(0, 1), (4, 1), (2, -1), (1, 1 << 30)])
def test_an_impossible_option_is_refused(dtype: int, count: int) -> None:
    with pytest.raises(RemoteProtocolError, match="option 'x' has dtype"):
        read(request(("x", dtype, count, b"")))


def test_a_request_that_ends_early_is_refused() -> None:
    whole = request(("x", 2, 2, struct.pack("<ii", 1, 2)))
    for length in range(len(whole)):
        with pytest.raises(RemoteProtocolError, match="ended after"):
            read(whole[:length])


@given(st.binary(max_size=600))
def test_whatever_bytes_come_a_request_is_read_or_refused(data: bytes) -> None:
    try:
        num_envs, options = read(data)
    except TransportError:
        return
    assert num_envs >= 0
    assert all(isinstance(name, str) for name in options)
