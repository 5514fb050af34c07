"""What every engine keeps: the contract names each broken rule, and malformed reset options are refused alike."""

import re
from pathlib import Path
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engine import Engine
from lucky_transport.errors import SpecError
from lucky_transport.messages import SetResetOptionsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport.testing.contract import EngineContract

GUIDE = (Path(__file__).parents[3] / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^#### (.*)$", GUIDE, re.MULTILINE)
(SOURCE,) = re.findall(
    r'^```python title="lucky_transport_loft/engine.py"\n(.*?)^```$', GUIDE, re.MULTILINE | re.DOTALL
)

START = "self._generators[env].uniform(0, 5)"
LIMIT = "self._height[touched] > 10"

#: The line's old and new text, the test, what its failure says.
CASES: list[tuple[str, str, str, str]] = [
    ("num_envs=num_envs,", "num_envs=num_envs + 1,", "the_spec_offers_the_number_of_envs_asked_for",
     r"make_engine\(4\) makes an engine of 4 envs; found: spec.num_envs = 5; .* section 'The factory'"),
    ("default_rng(seed + env)", "default_rng()", "equal_engines_give_equal_frames",
     r"two engines made alike give the same frames; found: observations of env \d.* section 'The factory'"),
    (LIMIT, "self._height[touched] > 1e9", "episodes_end_within_this_suite",
     r"episodes end within this suite.*found: no end in 120 steps of 4 envs; .* section 'Time limits'"),
    ("+= out.actions[steps, 0]", "+= out.actions[:, 0].mean()", "neighbours_have_no_influence",
     r"env 0 does the same whatever its neighbours do; found: .* of env 0 .* section 'Independent envs'"),
    ("(control & (RESET | HOLD)) == 0", "(control & RESET) == 0",
     "holding_an_env_does_not_change_what_it_does_later",
     r"HOLD leaves an env and its rows exactly as they are.*; found: observations .* section 'Resets'"),
    ("total_reward(out.signals, 2)[touched]", "out.signals[0, touched]", "the_rewards_are_the_sum_of_their_terms",
     r"rewards are the float32 sum of height, effort, bit for bit; found: rewards \[.* section 'Rewards'"),
    (LIMIT, "self._height[touched] * 0.5", "the_termination_terms_explain_the_flags",
     r"a termination term is 0 or 1; found: \[.* section 'Time limits'"),
    ("= out.signals[3, touched]", "= 0", "the_termination_terms_explain_the_flags",
     r"truncated is set exactly where one of \['time_out'\] is set; found: truncated False with \{'time_out': 1.0\}, "
     r"env \d in step \d+; .* section 'Time limits'"),
    (START, f"{START} + out.actions[env, 0]", "the_action_of_a_reset_env_is_ignored",
     r"the action of an env that is reset has no effect; found: observations .* section 'Resets'"),
    ('observation=ArraySpec("float32", (1,))', 'observation=ArraySpec("float32", (1,), 0.0, 1.0)',
     "observations_lie_in_their_space", r"observations lies in its space, Box.*; found: \[.* section 'Spaces'"),
    ("out.truncated[touched] =", "out.actions[:] = 0; out.truncated[touched] =",
     "another_driver_finds_the_envs_as_they_are",
     r"an engine only reads actions; found: \[.* section 'Independent envs'"),
    ("self._buffers = buffers", "self._buffers = buffers; self._height += 1",
     "another_driver_finds_the_envs_as_they_are",
     r"binding to other buffers between two steps changes nothing; found: observations .* section 'Independent envs'"),
    (START, "1.0", "envs_and_episodes_start_differently",
     r"two episodes of 4 envs have 8 different starts; found: 1: \[.* section 'Different starts'"),
    ("np.random.default_rng(seed)\n", "self._generators[env]\n",
     "the_same_seeds_give_the_same_episodes_and_others_do_not",
     r"the same seed gives the same start, whatever came before; found: \[.* section 'Seeds'"),
    ("np.random.default_rng(seed)\n", "np.random.default_rng(1)\n",
     "the_same_seeds_give_the_same_episodes_and_others_do_not",
     r"another seed gives another start; found: envs \[0, 1, 2, 3\] start alike; .* section 'Seeds'"),
    ("return SetSeedsResponse(True)", "return SetSeedsResponse(False, 'no')",
     "the_same_seeds_give_the_same_episodes_and_others_do_not",
     r"SetSeeds takes a seed per env; found: no; .* section 'Seeds'"),
]  # fmt: skip


def _contract(source: str) -> EngineContract:
    namespace: dict[str, Any] = {}
    exec(source, namespace)

    class Contract(EngineContract):
        def make_engine(self, num_envs: int) -> Engine:
            return namespace["make_engine"](num_envs=num_envs, episode_steps=1000 if "1e9" in source else 20)

    return Contract()


@pytest.mark.parametrize(("old", "new", "test", "text"), CASES, ids=[f"{case[2]}-{case[1]}" for case in CASES])
def test_a_broken_rule_is_named_with_the_value_and_the_section(old: str, new: str, test: str, text: str) -> None:
    assert SOURCE.count(old) == 1, old
    contract = _contract(SOURCE.replace(old, new))
    spec = contract.make_engine(contract.num_envs).spec
    with pytest.raises(pytest.fail.Exception) as failed:
        getattr(contract, f"test_{test}")(spec)
    said = str(failed.value)
    assert re.search(text, said, re.DOTALL), said
    (section,) = re.findall(r"see 'Write an engine or a transport' in the documentation, section '(.*)'$", said)
    assert section in HEADINGS


def test_every_section_that_the_contract_names_is_in_the_guide() -> None:
    contract = Path(__file__).parents[3] / "lucky_transport" / "testing" / "engine_contract.py"
    named = re.findall(r'"([A-Z][a-z]+(?: [a-z]+){0,2})"\)$', contract.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) > 15
    assert set(named) <= set(HEADINGS)


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
def test_an_option_that_is_no_number_is_refused_by_name_before_a_reset(engine: str, value: str, endpoint: str) -> None:
    name = "wind" if engine == "cartpole" else "noise"
    with api.serve(engine, endpoint) as serving, api.open_transport(serving.endpoints[0]) as client:
        with pytest.raises(SpecError, match=rf"option {name}=.*; .*expected numbers for .*{name}"):
            client.call(SET_RESET_OPTIONS, SetResetOptionsRequest(None, f'{{"{name}": {value}}}'))
        of_a_framework = SetResetOptionsRequest(None, f'{{"{name}": 0.5, "new_rollout": {value}}}')
        assert client.call(SET_RESET_OPTIONS, of_a_framework).success
        assert client.step(client.actions).seq == 1
