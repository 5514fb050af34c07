"""Methods as people name them: in full, in short, by patterns."""

from __future__ import annotations

import pytest

from lucky_transport.errors import UnknownName
from lucky_transport_migration.stages.names import covers, full_name, known_methods, matches, most_exact, short_name

_ENTITY = "/hazel.rpc.SceneService/GetEntity"


@pytest.mark.parametrize(
    "pattern",
    [
        _ENTITY,
        _ENTITY[1:],
        "SceneService/GetEntity",
        "SceneService/*",
        "*Entity",
        "/hazel.rpc.*",
        "*",
        "Scene*/Get[A-F]*",
    ],
)
def test_a_method_fits_its_names_and_patterns_of_them(pattern: str) -> None:
    assert matches(_ENTITY, pattern)


@pytest.mark.parametrize("pattern", ["GetEntity", "MujocoSceneService/*", "sceneservice/getentity", ""])
def test_a_method_fits_nothing_else(pattern: str) -> None:
    assert not matches(_ENTITY, pattern)


def test_the_most_exact_row_counts_wherever_it_stands() -> None:
    rows = ["*", "SceneService/GetEntity", "SceneService/*", "*/Get*"]
    assert most_exact(_ENTITY, rows) == most_exact(_ENTITY, reversed(rows)) == "SceneService/GetEntity"
    assert most_exact("/hazel.rpc.SceneService/ListEntities", rows) == "SceneService/*"
    assert most_exact("/hazel.rpc.CameraService/GetCameraConfig", rows) == "*/Get*"
    assert most_exact("/hazel.rpc.CameraService/ListCameras", rows) == "*"
    assert most_exact(_ENTITY, ["CameraService/*"]) is None


def test_names_are_found_in_full() -> None:
    assert full_name("SceneService/GetEntity") == full_name(_ENTITY[1:]) == full_name(_ENTITY) == _ENTITY
    assert full_name("my.team.Robots/Grip") == "/my.team.Robots/Grip"
    assert short_name("/my.team.Robots/Grip") == "Robots/Grip"


@pytest.mark.parametrize(
    "text", ["SceneService/GetEntitty", "/hazel.rpc.SceneService/GetEntitty", "GetEntity", "x", ""]
)
def test_a_misspelt_name_is_unknown(text: str) -> None:
    with pytest.raises(UnknownName):
        full_name(text)


def test_a_pattern_stands_for_methods_or_is_unknown() -> None:
    assert known_methods("*Service/ListCam*") == ["/hazel.rpc.CameraService/ListCameras"]
    assert len(known_methods("*")) > 70
    with pytest.raises(UnknownName, match="no method fits 'Nothing"):
        known_methods("Nothing*")


def test_a_row_covers_rows_about_no_other_methods() -> None:
    assert covers("SceneService/*", "SceneService/GetEntity")
    assert covers("SceneService/*", "/hazel.rpc.SceneService/Get*")
    assert covers("SceneService/GetEntity", _ENTITY)
    assert not covers("SceneService/Get*", "SceneService/*")
    assert not covers("*/Get*", "SceneService/ListEntities")
    assert covers("/my.team.*", "/my.team.Robots/Grip")
