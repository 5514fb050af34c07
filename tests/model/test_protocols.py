"""The protocols hold under every order, and each of their orders is there for a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.__main__ import main
from tests.model.explorer import Scenario, explore
from tests.model.memory_models import MODELS
from tests.model.mutations import Mutation, find, mutations_of
from tests.model.protocols import PROTOCOLS

_SCENARIOS = [(name, scenario) for name, make in PROTOCOLS.items() for scenario in make(1)]
_ALL = [scenario for _, scenario in _SCENARIOS]


@pytest.mark.parametrize("order", MODELS)
@pytest.mark.parametrize("scenario", [pytest.param(found, id=f"{name}: {found.name}") for name, found in _SCENARIOS])
def test_a_protocol_holds_under_every_order(scenario: Scenario, order: str) -> None:
    result = explore(scenario, order)
    trace = "\n".join(result.trace)
    assert not result.violation, f"{result.violation}\n{trace}"


@pytest.mark.parametrize("mutation", [pytest.param(found, id=str(found)) for found in mutations_of(_ALL)])
def test_an_order_that_is_taken_out_is_missed_or_kept_for_a_reason(mutation: Mutation) -> None:
    findings, _ = find(mutation, _ALL, first=True)
    if mutation.kept:
        assert not findings, f"it is needed, so no longer kept without need: {findings[0].result.violation}"
    else:
        assert findings, "no run needs it: simplify the source, or say in the table why it is kept"


@pytest.mark.parametrize("mutation", [pytest.param(found, id=str(found)) for found in mutations_of(_ALL)])
def test_the_table_in_the_readme_has_every_mutation(mutation: Mutation) -> None:
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    assert f"  {mutation}\n" in readme, "run python -m tests.model --mutations, and put its table there"


def test_the_command_prints_states_and_mutations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--protocol", "park-words", "--order", "tso", "--mutations"]) == 0
    printed = capsys.readouterr().out
    assert "2 exchanges, both sides park" in printed
    assert "tso (12)                                  wake: __atomic_thread_fence(...): no fence" in printed


def test_the_command_fails_where_an_invariant_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        scenario = PROTOCOLS["lock-step"](1)[0]
        broken = mutations_of([scenario])[0].of(scenario)
        patch.setitem(PROTOCOLS, "lock-step", lambda bound: [broken])
        assert main(["--protocol", "lock-step"]) == 1
    assert "VIOLATED" in capsys.readouterr().out
