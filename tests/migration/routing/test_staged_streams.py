"""Streams over a staged transport: compared as far as their reader went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lucky_transport.errors import PeerDied
from lucky_transport.messages import StreamTelemetryRequest
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision
from tests.planted.changes import Items, connecting, items, only, swapped, without

_SHADOW = Decision("grpc", "shm", "shadow")

_TELEMETRY = method("TelemetryService/StreamTelemetry")

New = Callable[..., Any]


def test_a_stream_is_compared_as_far_as_its_reader_went(open_staged: New, new_policy: New, serve: New) -> None:
    endpoint = serve("toy")
    policy = new_policy(_SHADOW)
    stream = open_staged(policy, endpoint, endpoint).stream(_TELEMETRY, StreamTelemetryRequest(target_fps=200))
    taken = [next(stream) for _ in range(5)]
    stream.cancel()
    (note,) = policy.wait_for(_TELEMETRY.name)
    assert note.ended_early
    assert list(note.primary.items) == taken
    assert len(note.shadow.items) >= 5  # it may have been ahead of the reader
    assert note.shadow.code == "OK"


def test_of_an_endless_stream_the_first_items_are_compared(open_staged: New, new_policy: New, serve: New) -> None:
    endpoint = serve("toy")
    policy = new_policy(_SHADOW)
    with open_staged(policy, endpoint, endpoint).stream(_TELEMETRY, StreamTelemetryRequest(target_fps=2000)) as stream:
        for _ in range(100):
            next(stream)
        (note,) = policy.wait_for(_TELEMETRY.name)
        assert (len(note.primary.items), len(note.shadow.items), note.ended_early) == (64, 64, True)
    assert len(policy.notes) == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [(without(1), "OK"), (swapped(1), "OK"), (only(1, PeerDied("planted")), "UNAVAILABLE")],
)
def test_a_streams_shadow_may_do_what_it_likes(
    open_staged: New, new_policy: New, serve: New, change: Items, code: str
) -> None:
    endpoint = serve("toy")
    policy = new_policy(_SHADOW)
    wild = connecting(endpoint, items(_TELEMETRY, change))
    with open_staged(policy, endpoint, wild).stream(_TELEMETRY, StreamTelemetryRequest(target_fps=500)) as stream:
        for _ in range(6):
            next(stream)
    (note,) = policy.wait_for(_TELEMETRY.name)
    assert (note.primary.code, len(note.primary.items)) == ("OK", 6)
    assert note.shadow.code == code


def test_pictures_shown_in_place_are_not_kept_for_a_comparison(open_staged: New, new_policy: New, serve: New) -> None:
    endpoint = serve("toy")
    policy = new_policy(_SHADOW)
    staged = open_staged(policy, endpoint, endpoint)
    with staged.stream(_TELEMETRY, StreamTelemetryRequest(target_fps=500), copy=False) as stream:
        next(stream)
    (note,) = policy.wait_for(_TELEMETRY.name)
    assert (note.decision.shadow, list(note.primary.items)) == ("", [])
