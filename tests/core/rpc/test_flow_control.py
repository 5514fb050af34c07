"""What leaves through a pipe: in its order, in fragments where it is long, and no more than the peer has granted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.codec.envelope import IMAGE_BYTES, Envelope, Kind, decode_envelope, encode_envelope
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.rpc.flow_control import EVERY, LATEST, ReceiveWindow, SendWindow, WindowSize
from lucky_transport.rpc.fragments import Assemblies, TooLarge
from lucky_transport.rpc.images import ImageRef
from lucky_transport.rpc.send_queue import Outgoing, SendQueue
from tests.support.memory_pipe import MemoryPipe, cut, memory_pipes


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
        assert granted == grant.renew(), "what was not noted is granted again"
        if outcome != "lost":
            credit.add(*granted)
        if outcome == "sent":
            grant.renewed()


def test_items_that_come_together_are_taken_all_or_none() -> None:
    grant = ReceiveWindow(LATEST)
    with pytest.raises(RemoteProtocolError):
        grant.arrived([b"x"] * 3)
    grant.arrived([b"x", b"x"])


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


Ends = tuple[MemoryPipe, MemoryPipe]


@pytest.fixture
def ends() -> Ends:
    return memory_pipes(2000)


def test_a_record_as_long_as_the_longest_leaves_in_one_piece(ends: Ends) -> None:
    here, there = ends
    record = b"x" * here.largest_record
    assert Outgoing(record).push(here) == 0
    assert list(there._in.records) == [record]  # pyright: ignore[reportPrivateUsage]


def test_the_longest_record_waits_where_there_is_no_free_space(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter([False, True])
    monkeypatch.setattr(ends[0], "try_push", lambda *arguments: next(tries))
    outgoing = Outgoing(b"x" * ends[0].largest_record)
    assert outgoing.push(ends[0]) == ends[0].largest_record
    assert outgoing.push(ends[0]) == 0


def test_an_image_envelope_too_long_for_a_record_is_left_to_fragments(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[int] = []
    monkeypatch.setattr(ends[0], "push", lambda *fields: pushed.append(len(fields[2])) or True)
    queue, longest = SendQueue(ends[0]), ends[0].largest_record - IMAGE_BYTES
    image = ImageRef(1, 1, 0, 1)
    taken = [queue.push(Kind.STREAM_ITEM, 1, bytes(size), 0, 0, 0, image) for size in (longest, longest + 1)]
    assert taken == [True, False]
    assert pushed == [longest]


def test_what_a_finalizer_sends_within_another_record_leaves_after_it(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (encode_envelope(Envelope(0, call, Kind.CANCEL)) for call in (1, 2))
    here, there = ends
    queue, push = SendQueue(here), here.try_push
    waiting = [second]

    def interrupted(*arguments: Any) -> bool:
        while waiting:
            queue.post_from_finalizer(waiting.pop())
        return push(*arguments)

    monkeypatch.setattr(here, "try_push", interrupted)
    queue.post(first, 1)
    records = there._in.records  # pyright: ignore[reportPrivateUsage]
    assert [decode_envelope(record).correlation_id for record in records] == [1, 2]
