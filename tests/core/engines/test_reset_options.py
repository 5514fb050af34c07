"""Malformed reset options get one answer, whatever engine and transport they go to."""

from __future__ import annotations

import pytest

from lucky_transport import api
from lucky_transport.errors import SpecError
from lucky_transport.messages import SetResetOptionsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.registry import registry

SET_RESET_OPTIONS = method("BatchService/SetResetOptions")
ENGINES = ["toy", "toy:composite", "cartpole", "mujoco:quadruped", "gymnasium:CartPole-v1"]
MALFORMED = {
    "half": "{",
    "list": "[1]",
    "number": "7",
    "null": "null",
    "NaN": '{"noise": NaN}',
    "infinity": '{"noise": -Infinity}',
    "too large": '{"noise": 1e999}',
    "deep": '{"noise": ' + "[" * 100 + "]" * 100 + "}",
    "deeper": "[" * 100_000,
    "words": "noise",
}


@pytest.fixture(params=["inproc", "shm", "grpc"])
def endpoint(request: pytest.FixtureRequest) -> str:
    """An endpoint to serve at."""
    pytest.importorskip(f"lucky_transport_{request.param}.server") if request.param != "inproc" else None
    return f"{request.param}://{'127.0.0.1:0' if request.param == 'grpc' else unique_name()}"


@pytest.mark.parametrize("engine", ENGINES)
def test_malformed_reset_options_are_refused_with_field_and_remedy(engine: str, endpoint: str) -> None:
    if engine.partition(":")[0] not in registry().engines:
        pytest.skip(f"no engine {engine}")
    with api.serve(engine, endpoint) as serving, api.open_transport(serving.endpoints[0]) as client:
        for name, text in MALFORMED.items():
            with pytest.raises(SpecError) as refused:
                client.call(SET_RESET_OPTIONS, SetResetOptionsRequest(None, text))
            said = str(refused.value)
            assert said.startswith(f"options_json {text[:20]!r}"[:20]), name
            assert said.endswith('; send an object such as {"name": 1}, or nothing'), name
            assert len(said) < 1000
        assert client.call(SET_RESET_OPTIONS, SetResetOptionsRequest(None, "{}")).success
        assert client.call(SET_RESET_OPTIONS, SetResetOptionsRequest()).success


@pytest.mark.parametrize("engine", ["toy", "toy:composite", "cartpole"])
@pytest.mark.parametrize("value", ['"loud"', "true", "null", "[1]", "{}", "1" + "0" * 400])
def test_an_option_that_is_no_number_is_refused_with_its_name_before_anything_is_reset(
    engine: str, value: str, endpoint: str
) -> None:
    name = "wind" if engine == "cartpole" else "noise"
    with api.serve(engine, endpoint) as serving, api.open_transport(serving.endpoints[0]) as client:
        with pytest.raises(SpecError, match=rf"option {name}=.*; .*expected numbers for .*{name}"):
            client.call(SET_RESET_OPTIONS, SetResetOptionsRequest(None, f'{{"{name}": {value}}}'))
        of_a_framework = SetResetOptionsRequest(None, f'{{"{name}": 0.5, "new_rollout": {value}}}')
        assert client.call(SET_RESET_OPTIONS, of_a_framework).success
        assert client.step(client.actions).seq == 1
