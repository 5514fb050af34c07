"""Messages as JSON data, in the styles of two protocols."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport.messages import (
    ListEntitiesResponse,
    SetSeedsRequest,
    SetSimulationModeRequest,
    SimulationMode,
)
from lucky_transport.messages.json_codec import JsonStyle
from lucky_transport.messages.values import EncodeError

NAMES = JsonStyle()
NUMBERS = JsonStyle(str.upper, enum_names=False, skips_unknown=True)


@pytest.mark.parametrize(
    ("style", "plain"), [(NAMES, {"mode": "FAST"}), (NUMBERS, {"MODE": 2})], ids=["names", "numbers"]
)
def test_a_style_says_how_keys_and_members_of_enums_are_written(style: JsonStyle, plain: dict[str, Any]) -> None:
    codec = style.codec_of(SetSimulationModeRequest)
    message = SetSimulationModeRequest(mode=SimulationMode.FAST)
    assert codec.plain(message) == plain
    assert codec.message(plain) == message
    assert type(codec.message(plain).mode) is SimulationMode


def test_a_member_that_only_a_newer_peer_knows_is_its_number() -> None:
    assert NAMES.codec_of(SetSimulationModeRequest).plain(SetSimulationModeRequest(77)) == {"mode": 77}  # type: ignore[arg-type]
    assert NUMBERS.codec_of(SetSimulationModeRequest).message({"MODE": 77}).mode == 77
    with pytest.raises(EncodeError, match="no SimulationMode has the number 77"):
        NAMES.codec_of(SetSimulationModeRequest).message({"mode": 77})


def test_a_key_of_no_field_is_refused_or_passed_over() -> None:
    with pytest.raises(EncodeError, match=r"SetSeedsRequest: no field 'seed'; did you mean 'seeds'"):
        NAMES.codec_of(SetSeedsRequest).message({"seed": [1]})
    assert NUMBERS.codec_of(SetSeedsRequest).message({"SEED": [1], "SEEDS": [2]}) == SetSeedsRequest([2])


def test_what_does_not_fit_is_named_by_its_path() -> None:
    with pytest.raises(EncodeError, match=r"ListEntitiesResponse\.entities\[1\]\.transform\.position"):
        NAMES.codec_of(ListEntitiesResponse).message({"entities": [{}, {"transform": {"position": "here"}}]})
    with pytest.raises(EncodeError, match=r"ListEntitiesResponse\.entities: expected a sequence"):
        NAMES.codec_of(ListEntitiesResponse).message({"entities": {"0": {}}})
