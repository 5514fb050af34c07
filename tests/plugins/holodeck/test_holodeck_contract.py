"""A client of a Holodeck engine keeps the contract of transports, as far as the protocol has room for it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("posix_ipc", reason="pip install 'lucky-transport[holodeck]'")

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import RESET, Engine
from lucky_transport.process import unique_name
from lucky_transport.testing.contract import TransportContract
from lucky_transport.testing.suite import every, open_reference, outcome, zeros
from lucky_transport.transport import Capabilities, Frame, Transport

_OWN_SPEC = "the scenario says what is observed, acted and rewarded: a Task sensor is one reward term"
_ONE_WORLD = "the envs share a world, which a reset loads anew for all of them"
_NO_ERRORS = "the protocol carries no error: the agents of a failed engine are terminal until the next reset"
_NO_SEEDS = "the protocol has no seeds"
_NO_GOODBYE = "a client that comes takes the place of one before it, which may have gone without a word"
_NO_END = "an engine that stops says nothing: a client watches its process"
#: From this seed no episode ends within a test: where one does, all the others are truncated with it.
_LASTING = {"seed": 40}


@pytest.mark.exhaustive
class TestHolodeck(TransportContract):
    """A toy shows its observation as a range finder, and its rewards as a task; its agents are turtles."""

    declares = Capabilities(hold=False, commands=False)
    inapplicable: Mapping[str, str] = {
        "test_the_client_gets_the_engines_spec_unchanged": _OWN_SPEC,
        "test_a_frames_arrays_have_the_promised_dtypes_and_shapes": _OWN_SPEC,
        "test_the_total_reward_is_the_sum_of_its_terms": _OWN_SPEC,
        "test_values_out_of_bounds_are_passed_on_and_counted": _OWN_SPEC,
        "test_a_reset_env_has_no_outcome": _ONE_WORLD,
        "test_any_sequence_of_moves_gives_the_references_frames": _ONE_WORLD,
        "test_the_next_driver_finds_the_engine_where_the_last_one_left_it": _ONE_WORLD,
        "test_a_failing_engine_raises_what_the_reference_raises_and_can_be_stepped_again": _NO_ERRORS,
        "test_a_failing_engine_names_its_error": _NO_ERRORS,
        "test_a_vector_env_gives_the_references_trajectory": _NO_SEEDS,
        "test_a_second_driver_is_refused_until_the_first_closes": _NO_GOODBYE,
        "test_an_engine_that_has_stopped_is_stepped_no_more": _NO_END,
    }

    @contextmanager
    def serve(self, engine: str | Engine = "toy", num_envs: int = 4, **options: Any) -> Generator[Endpoint]:
        if isinstance(engine, str):
            engine = api.make_engine(engine, num_envs, **(_LASTING | options))
        spec, uuid = engine.spec, unique_name()
        if spec.observation.dtype != "float32" or spec.action.dtype != "float32" or spec.action.size != 2:
            pytest.skip("a range finder shows float32, and a turtle takes 2 of them")
        lasers = {"sensor_type": "RangeFinderSensor", "configuration": {"LaserCount": spec.observation.size}}
        agent = {"agent_type": "TurtleAgent", "sensors": [lasers, {"sensor_type": "DistanceTask"}]}
        scenario = {"world": "toy", "agents": [{"agent_name": f"{env}", **agent} for env in range(spec.num_envs)]}
        with tempfile.TemporaryDirectory() as folder, api.serve(engine, f"holodeck://{uuid}?for=client"):
            path = Path(folder) / "scenario.json"
            path.write_text(json.dumps(scenario))
            yield Endpoint.parse(f"holodeck://{uuid}?scenario={path}&pre_start_steps=0")

    def connect(self, endpoint: Endpoint) -> Transport:
        """Return a client after its first reset: before that there are no agents."""
        client = super().connect(endpoint)
        client.step(zeros(client), every(client, RESET))
        return client

    @contextmanager
    def open_reference(self, engine: str | Engine, num_envs: int = 4, **options: Any) -> Generator[Transport]:
        with open_reference(engine, num_envs, **(_LASTING | options)) as reference:
            reference.step(zeros(reference), every(reference, RESET))
            yield reference

    def check_refused(
        self, client: Transport, reference: Transport, call: Callable[[Transport], object], name: str = ""
    ) -> None:
        expected = outcome(reference, call)
        assert expected != "no error", name
        assert outcome(client, call).replace("holodeck:toy", "toy") == expected, name

    def check_same_step(self, client: Transport, reference: Transport, code: int = 0, name: str = "") -> None:
        found, expected = (_shown(each.step(zeros(each), every(each, code))) for each in (client, reference))
        assert found == expected, name


def _shown(frame: Frame) -> list[bytes]:
    """Return what both ends have of a frame: its terms are each end's own."""
    return [array.tobytes() for array in (frame.observations, frame.rewards, frame.terminated, frame.truncated)]
