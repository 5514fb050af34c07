"""Options of an endpoint are read by a plugin's list; what is not on it, or cannot be read, is refused in words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.endpoint import Endpoint
from lucky_transport.endpoint_options import EndpointOption, number, one_of, read_options, switch, whole
from lucky_transport.errors import ConfigError

_OPTIONS = {
    "actors": EndpointOption(whole(1), "a number of actors, at least 1"),
    "map": EndpointOption(str, "a map", field="map_name"),
}


def read(query: str, **others: object) -> dict[str, object]:
    return read_options(Endpoint.parse(f"ray:?{query}"), _OPTIONS, backend="ray", others=others)


def test_values_come_by_their_fields() -> None:
    assert read("map=ridge&actors=2") == {"map_name": "ridge", "actors": 2}
    assert read_options(Endpoint.parse("ray:"), _OPTIONS, backend="ray") == {}


def test_what_is_for_the_other_end_is_passed_over() -> None:
    assert read("rate=25&actors=1", rate=1) == {"actors": 1}


def test_an_unknown_option_is_told_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown option 'actor'; did you mean 'actors'\?.*there are actors, map, rate"
    ):
        read("actor=2", rate=1)


def test_a_value_that_cannot_be_read_is_told_with_what_is_expected() -> None:
    with pytest.raises(ConfigError, match=r"'ray:\?actors=0': actors=0; expected a number of actors, at least 1"):
        read("actors=0")


@given(st.integers(-3, 12))
def test_a_whole_number_has_bounds(value: int) -> None:
    if 2 <= value <= 9:
        assert whole(2, 9)(str(value)) == value
    else:
        with pytest.raises(ValueError):
            whole(2, 9)(str(value))


@given(st.text(max_size=6))
def test_any_text_is_read_or_refused(text: str) -> None:
    for reader in (whole(), number(1e6), number(1e6, positive=True), one_of("a", "b"), switch):
        try:
            value = reader(text)
        except ValueError:
            continue
        if isinstance(value, float):
            assert 0 <= value <= 1e6


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e7", "0"])
def test_a_number_is_finite_and_within_its_bounds(text: str) -> None:
    with pytest.raises(ValueError):
        number(1e6, positive=True)(text)
    assert math.isclose(number(1e6)("2.5"), 2.5)


def test_a_switch_is_1_or_0() -> None:
    assert (switch("1"), switch("0")) == (True, False)
    with pytest.raises(ValueError):
        switch("yes")
