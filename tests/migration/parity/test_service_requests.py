"""Calls that are drawn have fields of every kind, with the values that programs get wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from lucky_transport.errors import ConfigError
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.service_method import ServiceMethod
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.service_call import ServiceCall
from lucky_transport_migration.parity.service_requests import calls
from tests.support.weather import WeatherPrograms

_COUNT = 300
#: Enough where values are named: each is in half of them.
_FEW = 100


@pytest.fixture(scope="module")
def report(weather: WeatherPrograms) -> ServiceMethod:
    found = methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")
    return next(one for one in found if one.name.endswith("/Report"))


def draw(method: ServiceMethod, values: FieldValues | None = None, count: int = _COUNT) -> list[ServiceCall]:
    found: list[ServiceCall] = []

    @seed(1)
    @settings(
        max_examples=count,
        phases=(Phase.generate,),
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(calls(method, values))
    def collect(call: ServiceCall) -> None:
        found.append(call)

    collect()
    return found


@pytest.fixture(scope="module")
def drawn(report: ServiceMethod) -> list[ServiceCall]:
    return draw(report)


@pytest.mark.exhaustive
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
    drawn: list[ServiceCall], report: ServiceMethod, holds: Callable[[Any], bool]
) -> None:
    messages = (report.request.FromString(one) for call in drawn for one in call.requests)
    assert any(map(holds, messages))


def test_a_stream_of_requests_is_drawn_empty_and_of_several(drawn: list[ServiceCall]) -> None:
    assert {len(call.messages) for call in drawn} >= {0, 1, 2, 3}
    assert {call.metadata for call in drawn} == {(), (("lucky-parity", "a"),)}


def test_the_text_of_a_call_says_its_requests_metadata_and_cancellation(report: ServiceMethod) -> None:
    call = ServiceCall((report.request(note="a"), report.request()), (("team", "b"),), 2)
    assert call.text == "requests [{note: \"a\"}, {}], metadata {'team': 'b'}, cancelled after 2 responses"


_READING = "weather.v1.Reading"


def test_a_field_with_named_values_has_them_mostly_and_others_too(report: ServiceMethod) -> None:
    rows = {f"{_READING}.note": ["Oslo"], f"{_READING}.sky": ["RAIN"], f"{_READING}.notes": ["a"]}
    values = FieldValues({**rows, f"{_READING}.raw": ["ab"], "weather.v1.Place.name": ["Rome"]})
    values.check([report])
    messages = [report.request.FromString(one) for call in draw(report, values, _FEW) for one in call.requests]
    assert sum(one.note == "Oslo" for one in messages) > sum(one.note not in ("", "Oslo") for one in messages) > 0
    assert any(one.sky == 2 for one in messages)
    assert any(one.raw == b"ab" for one in messages)
    assert any(one.place.name == "Rome" for one in messages)
    assert any("a" in one.notes for one in messages)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (f"{_READING}.note", "Oslo", "write a list of values"),
        (f"{_READING}.note", [], "write a list of values"),
        ("note", ["Oslo"], "'note' is no field; name message and field"),
        (f"{_READING}.nota", ["Oslo"], "has no field 'nota'; did you mean 'note'?"),
        ("weather.v1.Readin.note", ["Oslo"], "did you mean 'weather.v1.Reading'?"),
        (f"{_READING}.note", ["Oslo", 3], "cannot be 3"),
        (f"{_READING}.i32", [2**31], f"cannot be {2**31}"),
        (f"{_READING}.i32", [True], "cannot be True"),
        (f"{_READING}.calm", [1], "cannot be 1"),
        (f"{_READING}.sky", ["HAIL"], "cannot be 'HAIL'"),
        (f"{_READING}.place", ["Oslo"], "is a message or a map"),
        (f"{_READING}.counts", [1], "is a message or a map"),
        ("google.protobuf.Timestamp.seconds", [1], "is of a well-known message"),
    ],
)
def test_values_that_name_nothing_or_do_not_fit_are_refused(
    report: ServiceMethod, key: str, value: object, text: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        FieldValues({key: value}).check([report])
    assert text in str(raised.value)


def test_values_of_the_command_line_stand_beside_those_of_the_file(tmp_path: Path, report: ServiceMethod) -> None:
    (tmp_path / "lucky_transport.toml").write_text(f'[parity.values]\n"{_READING}.note" = ["Oslo"]\n')
    values = FieldValues.load([f"{_READING}.note=Rome", f"{_READING}.i32=7", f"{_READING}.gust=[1, 2]"], tmp_path)
    values.check([report])
    messages = [report.request.FromString(one) for call in draw(report, values, _FEW) for one in call.requests]
    assert {"Oslo", "Rome"} <= {one.note for one in messages}
    assert any(one.i32 == 7 for one in messages)
    assert {1, 2} <= {one.gust for one in messages}
    with pytest.raises(ConfigError, match="write FIELD=VALUE"):
        FieldValues.load(["note"], tmp_path)
