"""Every method that a command can name, and its effect: LuckyEngine's, described ones, seen ones."""

import os
from pathlib import Path

import pytest

from lucky_transport.errors import ConfigError, UnknownName
from lucky_transport.messages.methods import BY_NAME, METHODS, Effect, Flow
from lucky_transport_migration.catalogue.catalogue import Catalogue
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.catalogue.effects import REASONS
from lucky_transport_migration.stages.effective_stages import STEPPING_PATH
from lucky_transport_migration.stages.stage_plan import StagePlan
from tests.support.weather import WeatherPrograms

_ENTITY = "/hazel.rpc.SceneService/GetEntity"
_READ = "/weather.v1.Weather/GetForecast"


def names(catalogue: Catalogue, text: str) -> list[str]:
    return [one.name for one in catalogue.find(text)]


@pytest.fixture
def kept(weather: WeatherPrograms, tmp_path: Path) -> Path:
    """A folder of evidence in which a program kept what describes its service."""
    (tmp_path / "services-0.binpb").write_bytes(weather.descriptor_set.read_bytes())
    return tmp_path


@pytest.mark.parametrize("text", ["SceneService/GetEntity", _ENTITY[1:], _ENTITY])
def test_a_name_is_found_however_it_is_spelt(text: str) -> None:
    assert names(Catalogue(), text) == [_ENTITY]


@pytest.mark.parametrize(
    "text", ["SceneService/GetEntitty", "/hazel.rpc.SceneService/GetEntitty", "GetEntity", "x", ""]
)
def test_a_misspelt_name_is_unknown(text: str) -> None:
    with pytest.raises(UnknownName, match="no method is called"):
        Catalogue().find(text)


def test_the_nearest_names_are_named() -> None:
    with pytest.raises(UnknownName, match=r"did you mean .*SceneService/GetEntity"):
        Catalogue().find("SceneService/GetEntitty")
    with pytest.raises(UnknownName, match=r"did you mean SceneService/GetEntity\?"):
        Catalogue().find("GetEntity")


def test_a_pattern_stands_for_methods_or_is_unknown() -> None:
    assert names(Catalogue(), "*Service/ListCam*") == ["/hazel.rpc.CameraService/ListCameras"]
    assert len(names(Catalogue(), "*")) > 70
    with pytest.raises(UnknownName, match=r"no method fits 'Nothing\*'"):
        Catalogue().find("Nothing*")


def test_a_row_covers_rows_about_no_other_methods() -> None:
    covers = Catalogue().covers
    assert covers("SceneService/*", "SceneService/GetEntity")
    assert covers("SceneService/*", "/hazel.rpc.SceneService/Get*")
    assert covers("SceneService/GetEntity", _ENTITY)
    assert not covers("SceneService/Get*", "SceneService/*")
    assert not covers("*/Get*", "SceneService/ListEntities")
    assert covers("/my.team.*", "/my.team.Robots/Grip")


def test_a_full_name_may_be_of_a_service_that_nothing_is_known_of() -> None:
    [found] = Catalogue().find("my.team.Robots/Grip")
    assert (found.name, found.effect, found.is_known) == ("/my.team.Robots/Grip", Effect.WORLD, False)


@pytest.mark.parametrize("text", ["Weather/GetForecast", "weather.v1.Weather/GetForecast", "Weather/GetF*", _READ])
def test_a_kept_description_makes_every_spelling_known(kept: Path, text: str) -> None:
    assert names(Catalogue(kept), text) == [_READ]


def test_a_kept_description_says_arities_effects_and_messages(kept: Path) -> None:
    found = {one.name.rpartition("/")[2]: one for one in Catalogue(kept).find("Weather/*")}
    assert {name: (one.requests_stream, one.stream) for name, one in found.items()} == {
        "Chat": (True, Flow.EVERY),
        "GetForecast": (False, None),
        "PutStation": (False, None),
        "Report": (True, None),
        "SetStation": (False, None),
        "WatchForecast": (False, Flow.EVERY),
    }
    effects = {name: one.effect for name, one in found.items() if one.effect is not Effect.WORLD}
    assert effects == {"GetForecast": Effect.READ, "PutStation": Effect.IDEMPOTENT}
    assert found["GetForecast"].reason == "option idempotency_level = NO_SIDE_EFFECTS"
    assert found["GetForecast"].response.FromString(b"").DESCRIPTOR.full_name == "weather.v1.Forecast"


def test_a_misspelt_method_of_a_known_service_is_unknown(kept: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean Weather/GetForecast"):
        Catalogue(kept).find("/weather.v1.Weather/GetForcast")


def test_what_is_declared_stands_over_what_the_description_says(kept: Path) -> None:
    catalogue = Catalogue(kept, {"Weather/*": Effect.WORLD, "Weather/Watch*": Effect.READ})
    watch, get = catalogue.method("/weather.v1.Weather/WatchForecast"), catalogue.method(_READ)
    assert (watch.effect, watch.reason) == (Effect.READ, '[stages.effects] "Weather/Watch*" = "read"')
    assert get.effect is Effect.WORLD


def test_what_was_only_seen_is_known_by_its_name() -> None:
    catalogue = Catalogue(seen=lambda: ["/my.team.Robots/Grip"])
    assert names(catalogue, "Robots/*") == names(catalogue, "Robots/Grip") == ["/my.team.Robots/Grip"]
    with pytest.raises(UnknownName, match="did you mean Robots/Grip"):
        catalogue.find("Robots/Gripp")


def test_a_damaged_description_hides_no_other(kept: Path) -> None:
    (kept / "services-1.binpb").write_bytes(b"\xff\xff no descriptor")
    assert names(Catalogue(kept), "Weather/GetForecast") == [_READ]


def test_a_description_that_others_may_write_is_refused(kept: Path) -> None:
    os.chmod(kept / "services-0.binpb", 0o666)
    with pytest.raises(ConfigError, match=r"services-0\.binpb"):
        Catalogue(kept).find("Weather/*")


def test_what_is_no_description_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no FileDescriptorSet"):
        methods_in(b"\xff\xff", "x")


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
