"""Requests told apart by a hash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.messages import GetAgentSchemaRequest, GetSceneInfoRequest, LidarSensorRequest
from lucky_transport_migration.evidence.call_comparison import request_hash

PAYLOADS = st.lists(st.binary(min_size=1, max_size=20), max_size=4)


@given(PAYLOADS, PAYLOADS)
def test_equal_requests_have_one_hash_and_different_ones_do_not(left: list[bytes], right: list[bytes]) -> None:
    assert (request_hash(left) == request_hash(right)) == (left == right)


def test_messages_are_told_apart_by_their_fields() -> None:
    hashes = [request_hash(GetAgentSchemaRequest(name)) for name in ("agent_1", "agent_2", "agent_1")]
    assert hashes[0] == hashes[2] != hashes[1]
    assert len(hashes[0]) == 16


@pytest.mark.parametrize("request_", [None, b"", [], [b""], GetSceneInfoRequest(), LidarSensorRequest()], ids=repr)
def test_what_carries_nothing_has_no_hash(request_: Any) -> None:
    assert request_hash(request_) == ""
