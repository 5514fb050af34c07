"""Long envelopes: cut, mixed, put together again, and refused without harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import Envelope, Kind, decode_envelope
from lucky_transport.errors import RemoteProtocolError, SpecError
from lucky_transport.rpc.fragments import Assemblies, TooLarge
from tests.support.fragments import cut


def pieces(record: bytes, call: int = 1, largest: int = 300) -> list[Envelope]:
    return [decode_envelope(part) for part in cut(record, call, largest)]


@given(length=st.integers(301, 5000), largest=st.integers(230, 300))
def test_every_piece_fits_and_together_they_are_the_record(length: int, largest: int) -> None:
    record = bytes(number % 251 for number in range(length))
    parts = list(cut(record, 2**64 - 1, largest))
    assert all(len(part) <= largest for part in parts)
    assemblies = Assemblies()
    results = [assemblies.add(decode_envelope(part)) for part in parts]
    assert results == [None] * (len(parts) - 1) + [record]


def test_what_fits_is_not_cut() -> None:
    assert list(cut(b"x" * 300, 1, 300)) == [b"x" * 300]


def test_a_ring_without_room_for_a_piece_is_refused() -> None:
    with pytest.raises(SpecError, match="make the rings larger"):
        list(cut(b"x" * 300, 1, 100))


@given(order=st.permutations([1] * 4 + [2] * 4 + [3] * 4))
def test_pieces_of_several_calls_may_be_mixed(order: list[int]) -> None:
    records = {call: bytes([call]) * 600 for call in (1, 2, 3)}
    waiting = {call: pieces(record, call, 350) for call, record in records.items()}
    assemblies = Assemblies()
    done: dict[int, bytes] = {}
    for call in order + [1, 2, 3] * 4:
        if waiting[call]:
            result = assemblies.add(waiting[call].pop(0))
            if result is not None:
                done[call] = result
    assert done == records


@pytest.mark.parametrize(
    ("field", "value"), [("offset", 7), ("total", 999), ("payload", b""), ("payload", b"x" * 5000)]
)
def test_pieces_that_do_not_fit_together_are_the_peers_fault(field: str, value: object) -> None:
    first, second, *_ = pieces(bytes(1000))
    assemblies = Assemblies()
    assemblies.add(first)
    setattr(second, field, value)
    with pytest.raises(RemoteProtocolError, match="fragment of call 1"):
        assemblies.add(second)


def test_the_limit_is_one_of_the_message_not_of_what_is_around_it() -> None:
    at_limit = Envelope(0, 1, Kind.FRAGMENT, payload=b"x", total=(4 << 20) + 1000)
    assert Assemblies().add(at_limit) is None
    beyond = Envelope(0, 1, Kind.FRAGMENT, payload=b"x", total=(4 << 20) + (65 << 10))
    with pytest.raises(TooLarge, match="the limit is 4194304") as caught:
        Assemblies().add(beyond)
    assert caught.value.correlation_id == 1


def test_the_rest_of_a_refused_message_is_ignored() -> None:
    assemblies = Assemblies(limit=100)
    first, second, *_ = pieces(bytes(100_000))
    with pytest.raises(TooLarge):
        assemblies.add(first)
    assert assemblies.add(second) is None
    assert 1 not in assemblies


def test_a_claim_takes_no_memory_and_many_halves_are_refused() -> None:
    assemblies = Assemblies(limit=48 << 20)
    half = bytes(40 << 20)
    for call in (1, 2):
        assert assemblies.add(Envelope(0, call, Kind.FRAGMENT, payload=half, total=48 << 20)) is None
    with pytest.raises(TooLarge, match="unfinished messages of this client"):
        assemblies.add(Envelope(0, 3, Kind.FRAGMENT, payload=half, total=48 << 20))
    assemblies.drop(1)
    assert assemblies.add(Envelope(0, 3, Kind.FRAGMENT, payload=half, total=48 << 20)) is None
