"""What a SimulationContract may hold, and how a wrong one is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from lucky_transport.errors import SpecError
from lucky_transport.messages import SetResetOptionsRequest, SimulationContract

pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")

from lucky_transport_mujoco.contract_fields import DEFAULTS, QUANTITIES, findings


def test_every_field_of_a_contract_is_known_and_checked() -> None:
    assert {quantity.name for quantity in QUANTITIES} | {"terrain_type"} == {
        item.name for item in fields(SimulationContract)
    }


def test_the_defaults_and_an_empty_contract_are_fine() -> None:
    assert findings(DEFAULTS) == []
    assert findings(SimulationContract()) == []


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.name)
def test_limits_belong_to_the_legal_values_and_what_lies_beyond_does_not(quantity: Any) -> None:
    def contract(value: float) -> SimulationContract:
        values: dict[str, Any] = {quantity.name: [value] * quantity.count if quantity.count else value}
        if quantity.name.startswith("push"):
            values = {"push_interval_range": [1, 2], "push_velocity_range": [0, 1]} | values
        return SimulationContract(**values)

    for legal in (quantity.least, quantity.most):
        assert findings(contract(legal)) == []
    for wrong in (quantity.least - 0.01, 1.01 * quantity.most, float("nan"), float("inf")):
        (finding,) = findings(contract(wrong))
        assert quantity.name in finding
        assert f"{quantity.most:g}" in finding


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"friction_range": [0.5]}, "friction_range [0.5]: expected [low, high]"),
        ({"friction_range": [0.1, 0.2, 0.3]}, "expected [low, high]"),
        ({"friction_range": [1.5, 0.5]}, "friction_range [1.5, 0.5]: low exceeds high"),
        ({"pose_position_noise": [0.1]}, "pose_position_noise [0.1]: expected 3 numbers"),
        ({"push_velocity_range": [0, 1]}, "a push needs both"),
        ({"push_interval_range": [1, 2]}, "a push needs both"),
        ({"terrain_type": "moon"}, "terrain_type 'moon': this engine has flat, rough, slope"),
    ],
)
def test_a_wrong_contract_is_refused_with_value_and_remedy(
    robots: Callable[..., Any], wrong: dict[str, Any], text: str
) -> None:
    answer = robots(1).randomize(**wrong)
    assert not answer.success
    assert text in answer.message


def test_all_findings_come_at_once() -> None:
    assert len(findings(SimulationContract(friction_range=[2, 1], terrain_type="moon", joint_position_noise=-1))) == 3


def test_a_refused_contract_changes_nothing(robots: Callable[..., Any]) -> None:
    batch = robots(2)
    batch.randomize(mass_scale_range=[2, 2])
    batch.randomize(mass_scale_range=[3, 3], terrain_type="moon")
    batch.reset()
    assert (batch.engine.parameters.mass_scale == 2).all()


@pytest.mark.parametrize(("text", "finding"), [("{", "is no JSON"), ("[1]", "is no JSON object")])
def test_options_that_are_no_object_are_refused(robots: Callable[..., Any], text: str, finding: str) -> None:
    with pytest.raises(SpecError, match=finding):
        robots(1).call("BatchService/SetResetOptions", SetResetOptionsRequest(None, text))


def test_options_of_other_engines_are_ignored_and_leave_the_contract_in_force(robots: Callable[..., Any]) -> None:
    batch = robots(1)
    batch.randomize(mass_scale_range=[2, 2])
    assert batch.call("BatchService/SetResetOptions", SetResetOptionsRequest(None, '{"level": 3}')).success
    batch.reset()
    assert (batch.engine.parameters.mass_scale == 2).all()
