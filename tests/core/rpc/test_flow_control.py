"""Credits: the books of both sides agree, nothing stalls, and overdrawing is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.methods import Flow
from lucky_transport.rpc.flow_control import EVERY, LATEST, ReceiveWindow, SendWindow, WindowSize, window_of


@given(
    lengths=st.lists(st.integers(0, 200_000), max_size=300),
    window=st.sampled_from([EVERY, LATEST, WindowSize(1, 1, 4, 4)]),
    eager=st.booleans(),
)
def test_a_stream_of_any_lengths_flows_and_never_oversteps(lengths: list[int], window: WindowSize, eager: bool) -> None:
    grant, credit = ReceiveWindow(window), SendWindow(window.items, window.bytes)
    on_its_way: list[int] = []
    waiting = list(lengths)
    while waiting or on_its_way:
        while waiting and credit.try_spend(waiting[0]):
            grant.arrived([bytes(waiting[0])])  # raises when the two books disagree
            on_its_way.append(waiting.pop(0))
        assert len(on_its_way) <= window.most_items
        assert sum(on_its_way[:-1]) < window.most_bytes
        assert on_its_way, "the stream stalls"
        for _ in range(1 if eager else len(on_its_way)):
            if grant.consumed(on_its_way.pop(0)):
                credit.add(*grant.renew())
                grant.renewed()


@pytest.mark.parametrize("window", [WindowSize(2, 1000, 2, 1000), WindowSize(99, 20, 99, 20)], ids=["items", "bytes"])
def test_an_item_without_credit_is_the_senders_fault(window: WindowSize) -> None:
    grant = ReceiveWindow(window)
    grant.arrived([bytes(10)])
    grant.arrived([bytes(10)])
    with pytest.raises(RemoteProtocolError, match="a stream item of 10 bytes without credit"):
        grant.arrived([bytes(10)])


def test_a_receiver_that_keeps_up_grants_more_up_to_a_limit() -> None:
    window = WindowSize(4, 1000, 16, 1000)
    grant, credit = ReceiveWindow(window), SendWindow(4, 1000)
    under_way: list[int] = []
    for _ in range(6):
        sent = 0
        while credit.try_spend(1):
            grant.arrived([b"x"])
            sent += 1
        for _ in range(sent):
            if grant.consumed(1):
                credit.add(*grant.renew())
                grant.renewed()
        under_way.append(sent)
    assert under_way[0] == 4
    assert max(under_way) <= 16
    assert under_way[-1] > 8


@given(outcomes=st.lists(st.sampled_from(["lost", "sent, not noted", "sent"]), max_size=12), by_bytes=st.booleans())
def test_a_stream_goes_on_whichever_of_its_grants_are_interrupted(outcomes: list[str], by_bytes: bool) -> None:
    window = WindowSize(1 << 20, 64, 1 << 20, 2048) if by_bytes else WindowSize(64, 1 << 20, 2048, 1 << 20)
    grant, credit = ReceiveWindow(window), SendWindow(window.items, window.bytes)
    for outcome in [*outcomes, "sent"]:
        while not grant.is_due:
            assert credit.try_spend(1), "the stream stalls"
            grant.arrived([b"x"])
            grant.consumed(1)
        granted = grant.renew()
        if outcome != "lost":
            credit.add(*granted)
        if outcome == "sent":
            grant.renewed()


def test_a_grant_that_was_interrupted_is_made_again() -> None:
    grant = ReceiveWindow(LATEST)
    grant.arrived([b"x", b"x"])
    assert grant.consumed(1)
    lost = grant.renew()  # and never sent
    assert grant.is_due, "nothing more comes unless it is granted"
    assert grant.renew() == lost
    grant.renewed()
    assert not grant.is_due


def test_items_that_come_together_are_taken_all_or_none() -> None:
    grant = ReceiveWindow(LATEST)
    with pytest.raises(RemoteProtocolError):
        grant.arrived([b"x"] * 3)
    grant.arrived([b"x", b"x"])


def test_the_latest_is_kept_fresh_by_few_items_and_every_one_fast_by_many() -> None:
    assert 2 <= window_of(Flow.LATEST).items <= 4
    assert (window_of(Flow.EVERY).items, window_of(Flow.EVERY).bytes) == (64, 64 << 10)
