"""An engine of a kit that forgets to write, fails or contradicts itself harms its client in no later step."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET
from lucky_transport.env.autoreset import NeedsReset
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import EngineFailed, UnknownSession
from lucky_transport.messages import GetJointStateRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from tests.support.command import execute
from tests.support.kit_engine import KitEngine, compile_c, compile_cpp, compile_csharp
from tests.support.waiting import PATIENCE_S

ENGINES = Path(__file__).parents[3] / "schema" / "kits" / "engines"
JOINTS, STREAM_JOINTS = method("MujocoService/GetJointState"), method("MujocoService/StreamJointState")


@pytest.fixture(scope="module", params=["csharp", "c", "cpp"])
def language(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def careless(language: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of `engines/careless` in each language."""
    program = tmp_path_factory.mktemp("careless") / "careless.exe"
    if language == "csharp":
        return compile_csharp(program, [f"{ENGINES}/Careless.cs"])
    compiled = compile_c if language == "c" else compile_cpp
    return compiled(program, f"{ENGINES}/careless.{language}", level="-O1")


@pytest.fixture
def engine(careless: list[str]) -> Iterator[KitEngine]:
    with KitEngine(careless, unique_name()) as one:
        yield one


def both(action: float, other: float = 0) -> NDArray[np.float32]:
    return np.array([[action], [other]], np.float32)


def test_signals_are_the_programs_own_once_its_engine_has_ended(tmp_path: Path) -> None:
    command = compile_c(tmp_path / "careless", f"{ENGINES}/careless.c", level="-O1")
    with subprocess.Popen([*command, unique_name(), "stays"], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        for line in ("here\n", "ended\n"):
            assert program.stdout.readline() == line
            program.terminate()
        assert program.wait(PATIENCE_S) == -signal.SIGTERM


# what is not written


def test_what_a_step_does_not_write_is_not_what_the_last_one_wrote(engine: KitEngine) -> None:
    with engine.connect() as client:
        for control in (None, np.array([0, RESET], np.uint8)):
            first = client.step(both(1))
            assert (first.rewards.tolist(), first.signals[:, 0].tolist()) == ([10, 0], [10, 0, 0, 1])
            assert (first.terminated.tolist(), first.truncated.tolist()) == ([1, 0], [1, 0])
            second = client.step(both(0), control)
            assert not second.rewards.any()
            assert not second.signals.any()
            assert not second.terminated.any()
            assert not second.truncated.any()


def test_what_was_written_of_a_held_env_stays(engine: KitEngine) -> None:
    with engine.connect() as client:
        client.step(both(1, 1))
        frame = client.step(both(0, 0), np.array([HOLD, 0], np.uint8))
        assert (frame.rewards.tolist(), frame.signals[:, 0].tolist()) == ([10, 0], [10, 0, 0, 1])
        assert (frame.terminated.tolist(), frame.truncated.tolist()) == ([1, 0], [1, 0])


# what fails


def test_a_step_that_fails_is_followed_by_a_reset(engine: KitEngine) -> None:
    with VectorEnv(engine.connect()) as env:
        env.reset()
        with pytest.raises(EngineFailed, match="too slow"):
            env.step(both(-1))
        with pytest.raises(NeedsReset):
            env.step(both(0))
        env.reset()
        env.step(both(0))


def test_what_fails_is_told_to_the_client_and_at_standard_error(engine: KitEngine, language: str) -> None:
    kind = {"csharp": "InvalidOperationException: ", "cpp": "std::runtime_error: "}.get(language, "")
    in_step = f"engine 'careless' failed in step: {kind}" if kind else ""
    in_call = f"engine 'careless' failed in /hazel.rpc.MujocoService/GetJointState: {kind}" if kind else ""
    with engine.connect() as client:
        for _ in range(2):
            with pytest.raises(EngineFailed, match=f"^{in_step}too slow$"):
                client.step(both(-1))
            client.step(both(0))
        with pytest.raises(EngineFailed, match=f"^{in_call}out of joint$"):
            client.call(JOINTS, GetJointStateRequest())
        with pytest.raises(UnknownSession, match="no such session"):
            client.call(JOINTS, GetJointStateRequest("typed"))
        if language != "c":
            with client.stream(STREAM_JOINTS, GetJointStateRequest()) as stream:
                assert next(stream).success
                with pytest.raises(EngineFailed, match="out of items"):
                    next(stream)
        client.step(both(0))
    engine.process.terminate()
    _, errors = engine.process.communicate(timeout=PATIENCE_S)
    assert errors.count("too slow") == 2
    assert "out of joint" in errors
    assert "no such session" not in errors
    if language == "csharp":
        assert "at Careless.Step" in errors
        assert "at Careless.OutOfJoint" in errors


@pytest.mark.parametrize("language", ["csharp", "cpp"], indirect=True)
def test_an_index_outside_is_named(engine: KitEngine, language: str) -> None:
    expected = {
        "csharp": {
            -2: "Signals[4, 0]: there are 4 terms and 2 envs, counted from 0",
            -3: "Observations[0, -1]: there are 2 envs and 1 elements, counted from 0",
            -4: "Truncated[2]: there are 2 envs, counted from 0",
            -5: "env 7: there are 2 envs, counted from 0",
        },
        "cpp": {
            -2: "signals()(4, 0): there are 4 rows of 2, counted from 0",
            -3: "observations()(0, 1): there are 2 rows of 1, counted from 0",
            -4: "truncated()(0, 2): there are 1 rows of 2, counted from 0",
            -5: "env 7: there are 2, counted from 0",
        },
    }
    with engine.connect() as client:
        for action, text in expected[language].items():
            with pytest.raises(EngineFailed) as failed:
                client.step(both(action))
            assert str(failed.value).endswith(text)


# what contradicts itself

REFUSED = [
    "SpecError: timeout term 'nope' is no termination term; add it to",
    "SpecError: reward_terms has 'goal' twice; give each term a name of its own",
    "SpecError: termination_terms has 'late' twice; give each term a name of its own",
    "SpecError: step_s nan: expected seconds >= 0",
    "SpecError: action: a bound of element 1 is NaN; expected a number, infinite for no bound",
    "SpecError: action: low 2 is above high 1.5 at element 2; swap them",
    "SpecError: action: discrete 3 of float32; a Discrete space is one integer, without a shape",
    "ConfigError: /hazel.rpc.MujocoService/GetJointState has a handler already; register one for each method",
]
REFUSED_BY_CSHARP = [
    "SpecError: timeout term 'nope' is no termination term; add it to TerminationTerms, which has: hit, late",
    "SpecError: RewardTerms has 'goal' twice; give each term a name of its own",
    "SpecError: TerminationTerms has 'late' twice; give each term a name of its own",
    "SpecError: StepSeconds NaN: expected seconds >= 0",
    "SpecError: Action.Low[1] is NaN; expected a number, infinite for no bound",
    "SpecError: Action: Low 2 is above High 1.5 at element 2; swap them",
    "SpecError: Action: Discrete 3 of Float32 with 0 axes; a Discrete space is one integer, without a shape",
    "ConfigError: /hazel.rpc.MujocoService/GetJointState has a handler already; register one for each method",
    'SpecError: Attributes["limits"] is a System.Int32[]; expected a text, a number or a boolean',
    'SpecError: Attributes["gain"] is Infinity; expected a finite number',
    'SpecError: Attributes["owner"] is null; expected a text, a number or a boolean',
]


def test_an_engine_that_contradicts_itself_is_refused_with_the_remedy(careless: list[str], language: str) -> None:
    done = execute(*careless, "refused", check=True)
    expected = REFUSED_BY_CSHARP if language == "csharp" else REFUSED
    for line, start in zip(done.stdout.splitlines(), expected, strict=True):
        assert line.startswith(start)
