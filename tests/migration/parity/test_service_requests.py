"""Calls that are drawn have fields of every kind, with the values that programs get wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.parity.service_requests import DrawnCall, calls
from tests.support.weather import WeatherPrograms

_COUNT = 300


@pytest.fixture(scope="module")
def report(weather: WeatherPrograms) -> ServiceMethod:
    found = methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")
    return next(one for one in found if one.name.endswith("/Report"))


@pytest.fixture(scope="module")
def drawn(report: ServiceMethod) -> list[DrawnCall]:
    found: list[DrawnCall] = []

    @seed(1)
    @settings(
        max_examples=_COUNT,
        phases=(Phase.generate,),
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(calls(report))
    def collect(call: DrawnCall) -> None:
        found.append(call)

    collect()
    return found


@pytest.mark.parametrize(
    "holds",
    [
        lambda one: math.isnan(one.temperature),
        lambda one: math.isinf(one.humidity),
        lambda one: one.i64 == -(2**63),
        lambda one: one.u64 == 2**64 - 1,
        lambda one: one.sf32 == 2**31 - 1,
        lambda one: len(one.note) > 1000,
        lambda one: one.HasField("gust") and one.gust == 0,
        lambda one: not one.HasField("gust") and one.calm,
        lambda one: one.WhichOneof("source") == "ship",
        lambda one: one.WhichOneof("source") is None and one.calm,
        lambda one: one.sky not in (0, 1, 2, 3),
        lambda one: len(one.counts) > 1,
        lambda one: any(place.name for place in one.places.values()),
        lambda one: len(one.stops) > 1,
        lambda one: len(one.raw) > 1000,
        lambda one: one.at.nanos > 0,
    ],
)
def test_every_kind_of_value_is_drawn(
    drawn: list[DrawnCall], report: ServiceMethod, holds: Callable[[Any], bool]
) -> None:
    messages = (report.request.FromString(one) for call in drawn for one in call.requests)
    assert any(map(holds, messages))


def test_a_stream_of_requests_is_drawn_empty_and_of_several(drawn: list[DrawnCall]) -> None:
    assert {len(call.messages) for call in drawn} >= {0, 1, 2, 3}
    assert {call.metadata for call in drawn} == {(), (("lucky-parity", "a"),)}


def test_the_text_of_a_call_says_its_requests_metadata_and_cancellation(report: ServiceMethod) -> None:
    call = DrawnCall((report.request(note="a"), report.request()), (("team", "b"),), 2)
    assert call.text == "requests [{note: \"a\"}, {}], metadata {'team': 'b'}, cancelled after 2 responses"
