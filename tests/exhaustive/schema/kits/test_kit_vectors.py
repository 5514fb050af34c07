"""Each kit writes, reads and refuses what the conformance vectors say; the C# kit any other message too."""

import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucky_transport.codec.envelope import decode_envelope
from lucky_transport.codec.flatbuffers import decode, encode
from lucky_transport.errors import RemoteProtocolError
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from tests.support.kit_engine import KITS, KitEngine, compile_c, compile_csharp
from tests.support.message_strategies import any_message
from tests.support.waiting import PATIENCE_S

Ask = Callable[..., list[str]]


@contextmanager
def conformance(command: list[str]) -> Iterator[Ask]:
    """Ask a kit's conformance program: words in, words out."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        stdin, stdout = program.stdin, program.stdout

        def ask_program(*words: object) -> list[str]:
            stdin.write(" ".join(map(str, words)) + "\n")
            stdin.flush()
            answer = stdout.readline()
            assert answer, "the program broke"
            return answer.split()

        yield ask_program
        stdin.close()
        assert program.wait(PATIENCE_S) == 0


@pytest.fixture(scope="module")
def ask_csharp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    command = compile_csharp(tmp_path_factory.mktemp("csharp") / "conformance.exe", ["tests/*.cs"])
    with conformance(command) as ask:
        yield ask


@pytest.fixture(scope="module")
def ask_c(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    with conformance(compile_c(tmp_path_factory.mktemp("c") / "conformance", "tests/conformance.c")) as ask:
        yield ask


@pytest.fixture(scope="module", params=["csharp", "c"])
def ask(request: pytest.FixtureRequest) -> Ask:
    found: Ask = request.getfixturevalue(f"ask_{request.param}")
    return found


def read(record: bytes) -> Any:
    """Read an envelope but for its metadata, which the C kit checks and leaves out."""
    return dataclasses.replace(decode_envelope(record), metadata=())


def vectors(name: str) -> Any:
    return json.loads((KITS / "vectors" / f"{name}.json").read_text())


def cases(name: str, key: str = "") -> list[Any]:
    return [pytest.param(one, id=one.get("name")) for one in vectors(name) if not key or key in one]


def shown(data: str) -> str:
    return data or "-"


@pytest.mark.parametrize("case", cases("segments"))
def test_a_segment_has_the_same_bytes(ask: Ask, case: Any) -> None:
    observation, action, spec = case["observation"], case["action"], case["spec"].encode()
    sizes = (case["num_envs"], observation["dtype"], observation["size"], action["dtype"], action["size"])
    rest = (case["num_terms"], int(case["hold"]), case["ring_bytes"], case["pid"], case["started"])
    assert ask("segment", spec.hex(), *sizes, *rest) == [str(case["total_size"]), case["header"], spec.hex()]


@pytest.mark.parametrize("case", cases("rings", "steps"))
def test_a_ring_is_written_and_read_the_same_way(ask: Ask, case: Any) -> None:
    steps = [f"w:{shown(step['write'])}" if "write" in step else "r" for step in case["steps"]]
    expected = [step["result"] if "write" in step else step["read"] or "none" for step in case["steps"]]
    assert ask("ring", case["size"], case["position"], *steps) == [*expected, case["memory"]]


@pytest.mark.parametrize("case", cases("rings", "hostile"))
def test_a_ring_of_a_broken_writer_is_refused(ask: Ask, case: Any) -> None:
    assert ask("hostile-ring", case["size"], case["hostile"]) == [*case["reads"], "RemoteProtocolError"]


@pytest.mark.parametrize("case", cases("envelopes", "fields"))
def test_an_envelope_is_read_and_written_again(ask: Ask, case: Any) -> None:
    (again,) = ask("envelope", case["record"])
    assert read(bytes.fromhex(again)) == read(bytes.fromhex(case["record"]))


@pytest.mark.parametrize("case", cases("envelopes", "fields"))
def test_the_csharp_kit_keeps_metadata(ask_csharp: Ask, case: Any) -> None:
    (again,) = ask_csharp("envelope", case["record"])
    assert decode_envelope(bytes.fromhex(again)) == decode_envelope(bytes.fromhex(case["record"]))


@pytest.mark.parametrize("case", cases("envelopes", "hostile"))
def test_what_is_no_envelope_is_refused(ask: Ask, case: Any) -> None:
    assert ask("envelope", shown(case["hostile"])) == ["RemoteProtocolError"]


@pytest.mark.parametrize("case", cases("exchanges"))
def test_an_exchange_goes_the_same_way(ask: Ask, case: Any) -> None:
    words: list[str] = []
    expected: list[str] = []
    for step in case["steps"]:
        match step["do"]:
            case "store":
                words.append(f"store:{step['word']}:{step['value']}")
            case "control":
                words.append(f"control:{step['bytes']}")
            case "next":
                words.append("next")
                found = [one.title().replace(" ", "").replace("Outof", "OutOf") for one in step["found"]]
                expected.append("+".join(found) or "Nothing")
            case "expect":
                words.append(f"expect:{step['word']}")
                expected.append(str(step["value"]))
            case do:
                words.append(":".join([do, *(str(step[key]) for key in step if key != "do")]))
    assert ask("exchange", case["num_envs"], case["ring_bytes"], *words) == expected


def test_the_errors_have_the_same_codes(ask: Ask) -> None:
    for case in vectors("errors"):
        assert ask("error", case["error"]) == [str(case["wire_code"])]


def test_the_example_makes_the_frames_of_the_vectors(pendulum: list[str]) -> None:
    case = vectors("pendulum")
    arguments = (case["num_envs"], case["max_ticks"])
    with KitEngine(pendulum, unique_name(), *arguments) as engine, engine.connect() as client:
        assert client.call(method("BatchService/SetSeeds"), SetSeedsRequest(case["seeds"])).success
        for expected in case["frames"]:
            actions = np.frombuffer(bytes.fromhex(expected["actions"]), np.float32).reshape(-1, 1)
            frame = client.step(actions, np.frombuffer(bytes.fromhex(expected["control"]), np.uint8))
            for array in ("observations", "rewards", "truncated", "signals"):
                assert getattr(frame, array).tobytes().hex() == expected[array]


# messages at random


@settings(max_examples=200)
@given(message=any_message())
def test_any_message_is_read_and_written_again(ask_csharp: Ask, message: Any) -> None:
    (again,) = ask_csharp("message", type(message).__name__, encode(message).hex())
    assert repr(decode(type(message), bytes.fromhex(again))) == repr(message)


@settings(max_examples=300)
@given(message=any_message(), data=st.data())
def test_a_damaged_message_is_refused_as_in_python(ask_csharp: Ask, message: Any, data: st.DataObject) -> None:
    buffer = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(buffer) - 1))
        buffer[at] = data.draw(st.sampled_from([0, 1, 4, 8, 0x7F, 0x80, 0xFF]))
    (answer,) = ask_csharp("message", type(message).__name__, buffer.hex())
    try:
        expected = decode(type(message), bytes(buffer))
    except RemoteProtocolError:
        assert answer == "RemoteProtocolError"
    else:
        in_order = decode(type(message), encode(expected))  # as the answer, whose maps were sorted when it was written
        assert repr(decode(type(message), bytes.fromhex(answer))) == repr(in_order)


@settings(max_examples=100)
@given(record=st.binary(max_size=200))
def test_any_bytes_are_an_envelope_or_refused(ask: Ask, record: bytes) -> None:
    (answer,) = ask("envelope", shown(record.hex()))
    try:
        expected: Any = read(record)
    except RemoteProtocolError:
        expected = None
    assert (None if answer == "RemoteProtocolError" else read(bytes.fromhex(answer))) == expected
