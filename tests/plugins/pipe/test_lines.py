"""Lines, objects and messages as text, without any pipe."""

import json
import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages.scalars import F32, F64, I32
from lucky_transport_pipe.conversation import ClientRun
from lucky_transport_pipe.experiment import json_word
from lucky_transport_pipe.json_codec import ObjectCollector, camel_case, compact, decode, encode, snake_case
from lucky_transport_pipe.lines import (
    LineCutter,
    MessageType,
    ParsedLine,
    error_line,
    parse_from_engine,
    parse_score,
    score_text,
)

# -- lines ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.text('ab {}"é', min_size=1), max_size=8), st.data())
def test_lines_are_the_same_however_the_bytes_are_cut(lines: list[str], data: st.DataObject) -> None:
    lines = [line.strip() for line in lines if line.strip()]
    whole = "".join(line + data.draw(st.sampled_from(["\n", "\r\n"])) for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    cutter = LineCutter()
    found: list[str] = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += cutter.feed(whole[start:end])
    assert found == lines


def test_a_line_without_end_is_refused_in_time() -> None:
    cutter = LineCutter(longest=100)
    cutter.feed(b"x" * 100)
    with pytest.raises(RemoteProtocolError, match="more than 100 bytes"):
        cutter.feed(b"x")


@given(st.floats())
def test_a_score_comes_back_bit_for_bit_and_is_never_taken_for_a_state(score: float) -> None:
    line = parse_from_engine(f"0 {score_text(score)}")
    assert line.type is MessageType.SCORE
    assert repr(parse_score(line.text)) == repr(score)


@pytest.mark.parametrize(("score", "text"), [(math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN")])
def test_a_score_that_is_no_number_has_a_word_that_every_reader_knows(score: float, text: str) -> None:
    assert score_text(score) == text


def test_an_error_is_one_line() -> None:
    assert error_line("first\r\nsecond\n\tthird") == "Error: first second third"


# -- objects ----------------------------------------------------------------------------------------------------------

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('{}"\\ a\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('{}"\\ b', max_size=3), inner, max_size=3),
)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), _PLAIN, max_size=3), max_size=5),
    st.sampled_from([None, 0, 2]),
    st.sampled_from(["", " ", "\n", ","]),
)
def test_objects_are_found_however_they_lie_in_lines(values: list[Any], indent: int | None, between: str) -> None:
    collector = ObjectCollector()
    found: list[Any] = []
    for line in between.join(json.dumps(value, indent=indent) for value in values).split("\n"):
        found += collector.feed(line)
    assert found == values
    assert not collector.is_open


@given(st.text('{}[]":,1 ab\\\n'))
def test_any_text_is_objects_an_open_object_or_an_error(text: str) -> None:
    collector = ObjectCollector(longest=50)
    for line in text.split("\n"):
        try:
            found = collector.feed(line)
        except ValueError:
            assert not collector.is_open
        else:
            assert all(isinstance(each, dict) for each in found)


def test_an_object_that_is_too_long_is_refused() -> None:
    collector = ObjectCollector(longest=1000)
    with pytest.raises(ValueError, match="more than 1000 characters"):
        collector.feed('{"a":"' + "x" * 1000)
    assert collector.feed("{}") == [{}]


# -- messages ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Wheel:
    spin_rate: F32 = 0.0


@dataclass(slots=True)
class Car:
    top_speed: F64 = 0.0
    gears: I32 = 0
    is_open: bool = False
    driver: str = ""
    plate: bytes = b""
    wheels: list[Wheel] = field(default_factory=list[Wheel])
    loads: dict[str, F64] = field(default_factory=dict[str, float])
    spare: Wheel | None = None
    mass: F64 | None = None


@dataclass(slots=True)
class Point:
    x: F64 = 0.0
    steps_done: I32 = 0


_finite = st.floats(allow_nan=False, allow_infinity=False)
_wheels = st.builds(Wheel, st.floats(width=32, allow_nan=False, allow_infinity=False))
_cars = st.builds(
    Car,
    top_speed=_finite,
    gears=st.integers(-(2**31), 2**31 - 1),
    is_open=st.booleans(),
    driver=st.text(),
    plate=st.binary(),
    wheels=st.lists(_wheels, max_size=3),
    loads=st.dictionaries(st.text(), _finite, max_size=3),
    spare=st.none() | _wheels,
    mass=st.none() | _finite,
)


@given(_cars)
def test_a_message_is_one_word_and_comes_back(car: Car) -> None:
    text = encode(Car, car)
    assert text.split() == [text]
    assert text.isascii()
    assert repr(decode(Car, text)) == repr(car)


@given(_finite, st.integers(-(2**31), 2**31 - 1))
def test_a_message_of_numbers_is_the_text_of_any_json_library(x: float, steps: int) -> None:
    for number in (x, np.float64(x)):
        text = encode(Point, Point(number, steps))
        assert text == json.dumps({"X": x, "StepsDone": steps}, separators=(",", ":"))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_none_of_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="Point is no JSON"):
        encode(Point, Point(bad))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"TopSpeed":"fast"}', r"Car\.TopSpeed: expected a number, got 'fast'"),
        ('{"TopSpeed":true}', r"Car\.TopSpeed: expected a number, got True"),
        ('{"Gears":1.5}', r"Car\.Gears: expected a whole number, got 1\.5"),
        ('{"IsOpen":0}', r"Car\.IsOpen: expected True or False, got 0"),
        ('{"Driver":7}', r"Car\.Driver: expected text, got 7"),
        ('{"Plate":"?"}', r"Car\.Plate: no base64"),
        ('{"Wheels":{}}', r"Car\.Wheels: expected a sequence, got \{\}"),
        ('{"Wheels":[{"SpinRate":[]}]}', r"Car\.Wheels\[0\]\.SpinRate: expected a number, got \[\]"),
        ("[]", "Car: expected an object"),
        ("{", "Car: '{' is no JSON"),
        ("{} {}", "Extra data"),
    ],
)
def test_a_field_that_does_not_fit_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode(Car, text)


def test_unknown_keys_are_passed_over_and_missing_ones_have_their_defaults() -> None:
    assert decode(Car, '{"Colour":"red","Gears":5}') == Car(gears=5)


@given(st.from_regex(r"[a-z][a-z0-9]*(_[a-z][a-z0-9]*)*", fullmatch=True))
def test_a_name_survives_its_camel_case(name: str) -> None:
    assert snake_case(camel_case(name)) == name


def test_what_policies_make_of_numpy_is_plain_data() -> None:
    assert compact({"a": np.bool_(True), "b": np.float32(0.5), "c": np.arange(2), "d": "x y"}) == (
        '{"a":true,"b":0.5,"c":[0,1],"d":"x\\u0020y"}'
    )
    with pytest.raises(TypeError, match="which JSON does not know"):
        compact({"a": object()})


# -- queues and states ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans())))
def test_each_session_gets_its_own_lines_in_their_order(moves: list[tuple[int, bool]]) -> None:
    run, put, taken = ClientRun("x"), [0] * 4, [0] * 4
    for session, takes in moves:
        if takes:
            line = run.take(session)
            assert (line is None) == (put[session] == taken[session])
        else:
            run.put(ParsedLine(MessageType.STATE, str(put[session]), session))
            put[session] += 1
            continue
        if line is not None:
            assert line == ParsedLine(MessageType.STATE, str(taken[session]), session)
            taken[session] += 1
    assert len(run) == sum(put) - sum(taken)
    while (line := run.take_any()) is not None:
        assert line.text == str(taken[line.session])
        taken[line.session] += 1
    assert put == taken
    assert not len(run)


@pytest.mark.parametrize("depth", [65, 900, 100_000])
def test_objects_that_are_nested_too_deeply_are_value_errors(depth: int) -> None:
    text = '{"a":' * depth + "1" + "}" * depth
    for read in (ObjectCollector(1 << 30).feed, partial(decode, Point), json_word):
        with pytest.raises(ValueError, match=r"64 levels|too many levels"):
            read(text)
