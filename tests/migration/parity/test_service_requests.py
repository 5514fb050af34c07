"""Calls that are drawn have fields of every kind, with the values that programs get wrong."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, UninterpretedOption
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message_factory import GetMessages
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.text_format import Parse
from google.protobuf.timestamp_pb2 import Timestamp

from lucky_transport.errors import ConfigError
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.compare.messages import first_unequal
from lucky_transport_migration.parity.field_values import FieldValues
from lucky_transport_migration.parity.request_table import CASES
from lucky_transport_migration.parity.service_call import ServiceCall, smaller
from lucky_transport_migration.parity.service_requests import DrawnCalls
from tests.support.weather import WeatherPrograms

#: What the default run draws.
_COUNT = 100


@pytest.fixture(scope="module")
def report(weather: WeatherPrograms) -> Any:
    found = methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")
    return next(one for one in found if one.name.endswith("/Report"))


def draw(method: Any, values: FieldValues | None = None, count: int = _COUNT) -> list[ServiceCall]:
    return list(islice(DrawnCalls(method, values or FieldValues(), 1), count))


@pytest.fixture(scope="module")
def drawn(report: Any) -> list[ServiceCall]:
    return draw(report)


@pytest.fixture(scope="module")
def messages(drawn: list[ServiceCall], report: Any) -> list[Any]:
    return [report.request.FromString(one) for call in drawn for one in call.requests]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "holds",
    [
        lambda one: math.isnan(one.temperature),
        lambda one: math.isinf(one.humidity),
        lambda one: one.i64 == -(2**63),
        lambda one: one.u64 == 2**64 - 1,
        lambda one: one.sf32 == 2**31 - 1,
        lambda one: one.HasField("gust") and one.gust == 0,
        lambda one: not one.HasField("gust") and one.calm,
        lambda one: one.WhichOneof("source") == "ship",
        lambda one: one.WhichOneof("source") is None and one.note,
        lambda one: one.sky not in (0, 1, 2, 3),
        lambda one: any(place.name for place in one.places.values()),
        lambda one: len(one.stops) > 1,
        lambda one: one.at.nanos > 0,
        lambda one: not one.HasField("gust"),
        lambda one: 2**16 < len(one.note) < 2**17,
        lambda one: one.ByteSize() > 2**20 and len(one.samples) > 100_000,
        lambda one: one.ByteSize() > 2**20 and len(one.stops) > 1000,
        lambda one: one.ByteSize() > 2**20 and len(one.counts) > 10_000,
        lambda one: not (one.samples or one.notes or one.stops or one.counts),
    ],
)
def test_every_kind_of_value_is_in_the_default_run(messages: list[Any], holds: Callable[[Any], bool]) -> None:
    assert any(map(holds, messages))


@pytest.mark.parametrize(
    "field", ["i32", "i64", "u32", "u64", "s32", "s64", "f32", "f64", "sf32", "sf64", "temperature", "humidity", "note"]
)
def test_each_field_has_each_of_its_cases_before_anything_random(messages: list[Any], field: str) -> None:
    descriptor = messages[0].DESCRIPTOR.fields_by_name[field]
    kind = {1: "i32", 2: "i64", 3: "u32", 4: "u64", 5: "f64", 6: "f32", 9: "str"}[descriptor.cpp_type]
    drawn = {repr(getattr(one, field)) for one in messages}
    assert {repr(one) for one in CASES[kind]} <= drawn


def test_the_bits_of_a_nan_and_fields_of_a_newer_client_are_drawn(drawn: list[ServiceCall]) -> None:
    requests = b"".join(one for call in drawn for one in call.requests if len(one) < 10_000)
    assert bytes.fromhex("efbeadde0000f87f") in requests
    assert b"\x03new" in requests
    assert len({call.requests[0] for call in drawn if len(call.requests) == 1}) > 80


_TEXT_BY_BOOL = """name: "by_bool.proto" message_type { name: "ByBool"
  field { name: "m" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".ByBool.MEntry" }
  nested_type { name: "MEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_BOOL }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING } } }"""
BY_BOOL = GetMessages([Parse(_TEXT_BY_BOOL, FileDescriptorProto())])["ByBool"]


_TEXT_EXTENDED = """name: "extended.proto" message_type { name: "Extended"
  extension_range { start: 100 end: 200 } field { name: "n" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 } }
  extension { name: "torque" number: 100 label: LABEL_OPTIONAL type: TYPE_DOUBLE extendee: ".Extended" }
  extension { name: "tags" number: 101 label: LABEL_REPEATED type: TYPE_STRING extendee: ".Extended" }
  extension { name: "inner" number: 102 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".Extended"
    extendee: ".Extended" }"""
EXTENDED: Any = GetMessages([Parse(_TEXT_EXTENDED, FileDescriptorProto())])["Extended"]


_RIVALS = 8
_TEXT_RIVALS = f"""name: "rivals.proto" message_type {{ name: "Rivals" oneof_decl {{ name: "one" }} {
    " ".join(
        f'field {{ name: "s{n}" number: {n} label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }}'
        for n in range(1, _RIVALS + 1)
    )
} }}"""
RIVALS: Any = GetMessages([Parse(_TEXT_RIVALS, FileDescriptorProto())])["Rivals"]


def test_each_field_of_a_oneof_has_each_of_its_cases(report: Any) -> None:
    calls = draw(replace(report, request=RIVALS, requests_stream=False), count=_RIVALS * 20)
    found = {
        (which, getattr(one, which)) for call in calls for one in call.messages if (which := one.WhichOneof("one"))
    }
    assert {(f"s{n}", text) for n in range(1, _RIVALS + 1) for text in CASES["str"]} <= found


def test_each_extension_is_drawn_and_one_that_an_answer_lacks_is_found(report: Any) -> None:
    calls = draw(replace(report, request=EXTENDED, requests_stream=False))
    found = {field.name: call for call in calls for field, _ in call.messages[0].ListFields() if field.is_extension}
    assert set(found) == {"torque", "tags", "inner"}
    for name, call in found.items():
        assert list(smaller(call, requests_stream=False))
        without = EXTENDED.FromString(call.requests[0])
        without.ClearExtension(EXTENDED.DESCRIPTOR.file.extensions_by_name[name])
        assert first_unequal(EXTENDED, call.messages[0], without), name


@pytest.mark.parametrize(
    "kind",
    [
        *(Timestamp, Duration, FieldMask, Struct, Value, Empty),
        *(DescriptorProto, UninterpretedOption, FileDescriptorProto, BY_BOOL),
    ],
)
def test_requests_of_any_message_can_be_sent_and_made_smaller(kind: Any, report: Any) -> None:
    """Well-known ones, and those of proto2 with fields that have to be there and closed enums."""
    calls = draw(replace(report, request=kind, requests_stream=False))
    assert all(len(call.requests) == 1 and call.text for call in calls if len(call.requests[0]) < 10_000)
    # Value has fields of Struct and ListValue, messages that look like a map and a list
    assert all(one != call for call in calls for one in islice(smaller(call, requests_stream=False), 10))
    if kind in (Timestamp, Duration):
        assert all(call.messages[0].ToJsonString() for call in calls)


def test_the_same_seed_draws_the_same_calls_each_time(report: Any, drawn: list[ServiceCall]) -> None:
    again = DrawnCalls(report, FieldValues(), 1)
    for _ in range(2):
        assert [one.requests for one in islice(again, 10)] == [one.requests for one in drawn[:10]]


def test_what_is_random_begins_when_the_table_ends(weather: WeatherPrograms) -> None:
    found = methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")
    calls = DrawnCalls(next(one for one in found if one.name.endswith("/SetStation")), FieldValues(), 0)
    was_random = [calls.is_random for _ in islice(calls, _COUNT)]
    assert was_random.index(True) > 20
    assert was_random == sorted(was_random)


def test_the_text_of_a_call_says_its_requests_metadata_and_cancellation(report: Any) -> None:
    call = ServiceCall((report.request(note="a"), report.request()), (("team", "b"),), 2)
    assert call.text == "requests [{note: \"a\"}, {}], metadata {'team': 'b'}, cancelled after 2 responses"


_READING = "weather.v1.Reading"


def test_a_field_with_named_values_has_them_mostly_and_others_too(report: Any) -> None:
    rows = {f"{_READING}.note": ["Oslo"], f"{_READING}.sky": ["RAIN"], f"{_READING}.notes": ["a"]}
    values = FieldValues({**rows, f"{_READING}.raw": ["ab"], "weather.v1.Place.name": ["Rome"]})
    values.check([report])
    messages = [report.request.FromString(one) for call in draw(report, values, 150) for one in call.requests]
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
def test_values_that_name_nothing_or_do_not_fit_are_refused(report: Any, key: str, value: object, text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        FieldValues({key: value}).check([report])
    assert text in str(raised.value)


def test_values_of_methods_that_are_not_called_are_checked_too(weather: WeatherPrograms) -> None:
    one, *others = methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")
    keys = {f"{row.request.DESCRIPTOR.full_name}.{row.request.DESCRIPTOR.fields[0].name}" for row in others}
    for key in keys:
        with pytest.raises(ConfigError, match="cannot be"):
            FieldValues({key: [object()]}).check([one])


def test_values_of_the_command_line_stand_beside_those_of_the_file(tmp_path: Path, report: Any) -> None:
    (tmp_path / "lucky_transport.toml").write_text(f'[parity.values]\n"{_READING}.note" = ["Oslo"]\n')
    values = FieldValues.load([f"{_READING}.note=Rome", f"{_READING}.i32=7", f"{_READING}.gust=[1, 2]"], tmp_path)
    values.check([report])
    messages = [report.request.FromString(one) for call in draw(report, values) for one in call.requests]
    assert {"Oslo", "Rome"} <= {one.note for one in messages}
    assert any(one.i32 == 7 for one in messages)
    assert {1, 2} <= {one.gust for one in messages}
    with pytest.raises(ConfigError, match="write FIELD=VALUE"):
        FieldValues.load(["note"], tmp_path)
