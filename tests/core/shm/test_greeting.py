"""What is said at a rendezvous comes back as it was said, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.shm.greeting import GREETING_BYTES, LONGEST_ANSWER, Answer, Does, Greeting

features = st.sampled_from([Does(0), Does.PARKS])


@given(greeting=st.builds(Greeting, features, st.integers(0, 0xFFFF)))
def test_a_greeting_comes_back_as_it_was_said(greeting: Greeting) -> None:
    assert len(greeting.to_bytes()) == GREETING_BYTES
    assert Greeting.of(greeting.to_bytes()) == greeting


@given(
    answer=st.builds(
        Answer, features, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.text(max_size=100), st.integers(0, 9)
    )
)
def test_an_answer_comes_back_as_it_was_said(answer: Answer) -> None:
    assert Answer.of(answer.to_bytes()) == answer


def test_a_reason_too_long_for_an_answer_is_cut() -> None:
    message = Answer(Does.PARKS, 9, 0, "é" * 2000).to_bytes()
    assert len(message) == LONGEST_ANSWER
    assert Answer.of(message).reason.startswith("éé")


@given(message=st.binary(max_size=40))
def test_other_bytes_are_neither(message: bytes) -> None:
    for kind in (Greeting, Answer):
        with pytest.raises(RemoteProtocolError, match="is no "):
            kind.of(b"X" + message)


def test_features_of_a_later_version_are_ignored() -> None:
    assert Greeting.of(b"LRRV\x01\x00\xff\xff").features == Does.PARKS
