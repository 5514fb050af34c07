"""The codec beside protobuf: both carry the same message, and both are timed."""

from __future__ import annotations

import pytest

pytest.importorskip("google.protobuf", reason="protobuf is not installed")

from tests.endurance import codec


def test_both_are_timed_to_write_and_to_read() -> None:
    found = codec.measure(0.01)
    assert set(found) == {f"{way}, {name}" for way in ("write", "read") for name in ("FlatBuffers", "protobuf")}
    assert all(ns > 0 for ns in found.values())


def test_a_message_that_reads_otherwise_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "decode", lambda cls, content: cls(**codec._VALUES | {"frame_number": 1}))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ValueError, match="'frame_number': 1"):
        codec.measure(0.01)
