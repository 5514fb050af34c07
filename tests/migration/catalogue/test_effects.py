"""The table of reasons has the methods of the table of methods, each with a class that fits what it does."""

from __future__ import annotations

from pathlib import Path

from lucky_transport.messages.methods import BY_NAME, METHODS
from lucky_transport_migration.catalogue.effects import REASONS
from lucky_transport_migration.stages.effective_stages import STEPPING_PATH
from lucky_transport_migration.stages.stage_plan import StagePlan

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "migrate.md"


def test_each_method_has_a_reason_for_its_effect_in_the_tables_order() -> None:
    assert list(REASONS) == [row.name for row in METHODS]
    assert all(len(why.split()) >= 3 and not why.endswith(".") for why in REASONS.values())


def test_the_readme_counts_the_methods_that_there_are() -> None:
    assert f"each of the {len(METHODS)} methods has a side-effect class" in PAGE.read_text()


def test_what_asks_changes_nothing_and_what_sets_changes_something() -> None:
    for row in METHODS:
        if row.short_name.startswith(("Get", "List", "Stream", "Validate")):
            assert row.effect.name == "READ", row.name
        if row.short_name.startswith(("Set", "Reset", "Step", "Enter", "Exit", "Fire", "Clear", "Bake", "Draw")):
            assert row.effect.name != "READ", row.name


def test_an_unknown_method_may_change_the_world() -> None:
    catalogue = StagePlan.load().catalogue
    assert catalogue.method("/my.team.Robots/Grip").effect.name == "WORLD"
    assert catalogue.method("/my.team.Robots/Grip").reason == "nothing says what it changes"
    assert catalogue.method("/hazel.rpc.AgentService/Step").reason == "one call is one tick of the simulation"


def test_the_stepping_path_is_made_of_known_methods() -> None:
    connection = {f"/lucky_transport.v1.BatchService/{name}" for name in ("Attach", "Exchange", "GetSpec")}
    assert {BY_NAME[name].effect.name for name in STEPPING_PATH - connection} == {"WORLD"}
