"""Calls that are drawn have fields of every kind, with the values that programs get wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, settings

from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.parity.service_requests import calls
from tests.support.weather import WeatherPrograms

_SETTINGS = settings(
    max_examples=2000,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    derandomize=True,
)


@pytest.fixture(scope="module")
def report(weather: WeatherPrograms) -> ServiceMethod:
    found = methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")
    return next(one for one in found if one.name.endswith("/Report"))


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
def test_every_kind_of_value_is_drawn(report: ServiceMethod, holds: Callable[[Any], bool]) -> None:
    found = find(calls(report), lambda call: any(map(holds, call.messages)), settings=_SETTINGS)
    again = [report.request.FromString(one) for one in found.requests]
    assert any(map(holds, again))


def test_the_text_of_a_call_says_all_that_is_drawn(report: ServiceMethod) -> None:
    found = find(calls(report), lambda call: len(call.messages) == 2 and bool(call.metadata), settings=_SETTINGS)
    assert found.text.startswith("requests [{")
    assert "metadata {'lucky-parity': 'a'}" in found.text
