"""What is said at a listener comes back as it was said, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.shm.listener.handshake import (
    CLIENT_HELLO_BYTES,
    LONGEST_SERVER_HELLO,
    ClientHello,
    ServerHello,
)


@given(hello=st.builds(ClientHello, st.integers(0, 0xFFFF), st.booleans()))
def test_a_hello_comes_back_as_it_was_said(hello: ClientHello) -> None:
    assert len(hello.to_bytes()) == CLIENT_HELLO_BYTES
    assert ClientHello.of(hello.to_bytes()) == hello


@given(
    answer=st.builds(
        ServerHello,
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.text(max_size=100),
        st.integers(0, 9),
        st.integers(0, 2**32 - 1),
        st.booleans(),
    )
)
def test_an_answer_comes_back_as_it_was_said(answer: ServerHello) -> None:
    assert ServerHello.of(answer.to_bytes()) == answer


def test_a_reason_too_long_for_an_answer_is_cut() -> None:
    message = ServerHello(9, 0, "é" * 2000).to_bytes()
    assert len(message) == LONGEST_SERVER_HELLO
    assert ServerHello.of(message).reason.startswith("éé")


@given(message=st.binary(max_size=40))
def test_other_bytes_are_neither(message: bytes) -> None:
    for kind in (ClientHello, ServerHello):
        with pytest.raises(RemoteProtocolError, match="is no "):
            kind.of(b"X" + message)


def test_features_of_a_later_version_are_ignored() -> None:
    assert ClientHello.of(b"LRRV\x01\x00\xff\xff") == ClientHello(1)


def test_hellos_of_before_know_no_arenas() -> None:
    assert ClientHello.of(b"LRRV\x01\x00\x01\x00") == ClientHello(1, arenas=False)
    before = b"LRRV\x01\x00\x01\x00" + bytes(4) + (4096).to_bytes(4, "little")
    assert ServerHello.of(before) == ServerHello(0, 4096, arena_bytes=0)
    assert ServerHello(0, 4096).to_bytes() == before
