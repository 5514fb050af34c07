"""Methods as people name them: in full, in short, by patterns."""

from __future__ import annotations

import pytest

from lucky_transport.messages.names import matches, most_exact, short_name

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


def test_a_short_name_has_no_package() -> None:
    assert short_name("/my.team.Robots/Grip") == "Robots/Grip"
