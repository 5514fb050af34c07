"""Metadata on their way out and in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport.errors import StatusError
from lucky_transport_stubs.words.metadata import (
    USER_AGENT,
    InvalidMetadata,
    check_size,
    checked,
    invocation_metadata,
    metadata_of,
    outgoing,
    within_limit,
)

_KEYS = st.from_regex(r"[a-z0-9_.-]{1,20}", fullmatch=True)
_LEGAL = st.one_of(
    st.tuples(
        _KEYS.filter(lambda key: not key.endswith("-bin")),
        st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126)),
    ),
    st.tuples(_KEYS.map("{}-bin".format), st.binary(max_size=50)),
)
_ANYTHING = st.one_of(st.none(), st.integers(), st.text(max_size=20), st.binary(max_size=20))


@given(st.lists(_LEGAL, max_size=10))
def test_legal_metadata_travel_as_they_are(metadata: list[tuple[str, Any]]) -> None:
    assert checked(metadata) == tuple(metadata)
    assert metadata_of(tuple(metadata)) == tuple(metadata)


@given(st.lists(st.one_of(st.tuples(_ANYTHING, _ANYTHING), _ANYTHING), max_size=4))
def test_whatever_is_given_travels_as_legal_text_or_is_refused(metadata: Any) -> None:
    try:
        travelling = checked(metadata)
    except (InvalidMetadata, TypeError, ValueError):
        return
    assert checked(travelling) == travelling


def test_the_limit_counts_keys_values_and_entries() -> None:
    assert outgoing([("k", "v" * (16384 - 33))])
    with pytest.raises(StatusError, match=r"exceeds hard limit \(16385 vs. 16384\)"):
        outgoing([("k", "v" * (16384 - 32))])


def test_what_came_is_measured_likewise_and_left_out_when_it_is_too_much() -> None:
    small, large = (("k", "v"),), (("k", b"v" * 16384),)
    check_size(small, ())
    with pytest.raises(StatusError, match=r"\(value length 16384 vs. 16384\)"):
        check_size(small, large)
    assert (within_limit(small), within_limit(large)) == (small, ())


def test_a_user_agent_comes_first_and_is_the_channels_business() -> None:
    reserved = [("user-agent", "mine"), ("te", "x"), ("content-type", "x"), ("grpc-timeout", "1S")]
    assert outgoing([*reserved, ("k", "v")]) == (("k", "v"),)
    assert outgoing(None, "special") == (("user-agent", "special"),)
    assert invocation_metadata(outgoing(None, "special")) == (("user-agent", "special"),)
    assert invocation_metadata((("k", "v"),)) == (("user-agent", USER_AGENT), ("k", "v"))
    assert invocation_metadata(())[0].key == "user-agent"
