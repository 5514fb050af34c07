"""The drop-in class: what programs for Unity scenes pass to it, and the order in which they get the lines."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.errors import ConfigError, LocalProtocolError, PeerDied, PeerTimeout
from lucky_transport_pipe.unity_instance import UnityInstance


@pytest.fixture
def unity(playing: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a `UnityInstance` and the scripted engine at its other end, as a context."""
    return lambda **keywords: playing(lambda name: UnityInstance(rf"\\.\pipe\{name}", **keywords))


def asked(u_instance: UnityInstance, engine: Any) -> None:
    """Have the scripted engine accept an experiment."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(u_instance.run_experiment, experiment_name="cart_pole")
        assert engine.read() == "run cart_pole"
        engine.send("SUCCESS", end="\r\n")
        running.result()


def running(u_instance: UnityInstance, engine: Any, sessions: int) -> None:
    """Have the scripted engine run an experiment of so many sessions."""
    asked(u_instance, engine)
    u_instance.send_session_initialization_data(["{}"] * sessions)
    u_instance.end_send_session_initialization_data()
    assert engine.read_until("END") == ["{}"] * sessions + ["END"]


def test_lines_are_read_in_the_order_of_the_wire(unity: Callable[..., Any]) -> None:
    lines = ["0", "1", '0 {"n":1}', '1 {"n":1}', "1 2.5", "2", '0 {"n":2}', '2 {"n":1}', "0 3", "2 4"]
    with unity() as (u_instance, engine):
        running(u_instance, engine, 3)
        engine.send(*lines, "END", end="\r\n")
        assert [u_instance.read_line() for _ in lines] == lines
        assert u_instance.read_line() is None


@pytest.mark.parametrize("timeout", [{"no_timeout": True}, {"no_timeout": True, "timeout_s": 0.05}])
def test_without_a_timeout_a_line_is_waited_for_until_it_comes_or_the_engine_goes(
    unity: Callable[..., Any], timeout: dict[str, Any]
) -> None:
    with unity(**timeout) as (u_instance, engine), ThreadPoolExecutor(1) as pool:
        running(u_instance, engine, 1)
        waiting = pool.submit(u_instance.read_line)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        engine.send("0")
        assert waiting.result() == "0"
        with pytest.raises(PeerTimeout):  # a timeout of the call's own counts
            u_instance.read_line(timeout_s=0.01)
        waiting = pool.submit(u_instance.read_line)
        engine.close()
        with pytest.raises(PeerDied):
            waiting.result()


def test_a_keyword_that_means_nothing_is_taken_as_in_the_original_and_named_in_the_log(
    unity: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with unity(wait_step=0.5, no_timeuot=True):
        assert "wait_step" in caplog.text
        assert "did you mean no_timeout" in caplog.text


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ('{"WindSeed": 1, "Note": "a b"}', ['{"WindSeed":1,"Note":"a\\u0020b"}']),
        ('{"WindSeed":1}{"WindSeed":2}, {"WindSeed":3}', ['{"WindSeed":1}', '{"WindSeed":2}', '{"WindSeed":3}']),
        ('{"WindSeed":1}\n{"WindSeed":2}\n', ['{"WindSeed":1}', '{"WindSeed":2}']),
        ('{\n  "WindSeed": 1\n}', ['{"WindSeed":1}']),
        (["{", '"WindSeed":1', "}"], ['{"WindSeed":1}']),
        ({"WindSeed": 1}, ['{"WindSeed":1}']),
        ([{"WindSeed": 1}, '{"WindSeed":2}'], ['{"WindSeed":1}', '{"WindSeed":2}']),
        ("", []),
        ([], []),
    ],
    ids=["one", "several", "lines", "one over lines", "in pieces", "a dict", "mixed", "empty text", "none"],
)
def test_init_data_is_one_text_or_many_each_with_any_number_of_sessions(
    unity: Callable[..., Any], data: Any, lines: list[str]
) -> None:
    with unity() as (u_instance, engine):
        asked(u_instance, engine)
        u_instance.send_session_initialization_data(session_init_data=data)
        u_instance.end_send_session_initialization_data()
        assert engine.read_until("END") == [*lines, "END"]
        last = len(lines) - 1
        if last >= 0:
            engine.send(str(last))
            assert u_instance.read_line() == str(last)  # each object counts as a session


@pytest.mark.parametrize("data", ["{", '{"a":}', "[1]", '{"a":1} what', ["{}", "{"], ["{}", 5], 5, '{"a":NaN}'])
def test_broken_init_data_is_refused_before_anything_is_sent(unity: Callable[..., Any], data: Any) -> None:
    with unity() as (u_instance, engine):
        asked(u_instance, engine)
        with pytest.raises((ValueError, TypeError)):
            u_instance.send_session_initialization_data(data)
        u_instance.end_send_session_initialization_data()
        assert engine.read() == "END"


def test_the_originals_keywords_and_names_are_taken(unity: Callable[..., Any]) -> None:
    with unity() as (u_instance, engine):
        u_instance.set_property(property_name="slots", value=4)
        assert engine.read() == "set slots 4"
        running(u_instance, engine, 1)
        with pytest.raises(LocalProtocolError, match="set_property"):
            u_instance.set_property("slots", 5)
        engine.send("0", "0 {}")
        assert [u_instance.read_line() for _ in range(2)] == ["0", "0 {}"]
        with pytest.raises(ConfigError, match="a line holds no line break"):
            u_instance.write_line("0 {}\n1 {}")
        u_instance.write_line(to_write='0 {"MoveRight": true}')
        u_instance.flush_pipe()
        assert engine.read() == '0 {"MoveRight": true}'
