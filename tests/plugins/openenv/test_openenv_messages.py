"""Messages and actions as JSON, their schemas, and the column of statuses; these need no OpenEnv."""

import json
from typing import Any

import numpy as np
import pytest

from lucky_transport.errors import Busy, Status
from lucky_transport.messages import CameraConfig, SetSeedsRequest, StepRequest
from lucky_transport.messages.methods import METHODS
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from lucky_transport_openenv.errors import EpisodeError, refused
from lucky_transport_openenv.messages import message_of, plain_of, schema_of, write_action


@pytest.mark.parametrize("row", METHODS, ids=lambda row: row.name)
def test_every_message_goes_to_json_and_back(row: object) -> None:
    for cls in (row.request, row.response):  # pyright: ignore[reportAttributeAccessIssue]
        message = cls()
        plain = json.loads(json.dumps(plain_of(message)))
        assert message_of(cls, plain) == message
        assert set(schema_of(cls)["properties"]) == set(plain)


def test_bytes_are_base64_and_what_is_none_is_refused_by_its_place() -> None:
    plain = plain_of(SetSeedsRequest([1, 2], b"\x01\x00"))
    assert plain == {"seeds": [1, 2], "mask": "AQA="}
    assert message_of(SetSeedsRequest, plain).mask == b"\x01\x00"
    with pytest.raises(ValueError, match=r"SetSeedsRequest\.mask: no base64"):
        message_of(SetSeedsRequest, {"mask": "?"})


def test_a_schema_validates_what_is_sent() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    for cls in (StepRequest, CameraConfig):
        jsonschema.validate(
            {name: value for name, value in plain_of(cls()).items() if value is not None}, schema_of(cls)
        )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"no_such_field": 1}, schema_of(StepRequest))


def test_whatever_is_raised_comes_out_with_its_status() -> None:
    for raised, status in [
        (Busy("full"), Status.RESOURCE_EXHAUSTED),
        (ValueError("no"), Status.INVALID_ARGUMENT),
        (ZeroDivisionError("1/0"), Status.INTERNAL),
    ]:
        with pytest.raises(EpisodeError) as told, refused("toy", "step"):
            raise raised
        assert told.value.status is status
        assert str(told.value).startswith(f"{status.name}: ")


# actions: each becomes the value that it is, or is refused by its place


def _written(dtype: str, action: Any) -> Any:
    spec = BatchSpec("e", 1, ArraySpec(), ArraySpec(dtype, (2,)))
    row = np.zeros((1, 2), dtype)
    write_action(spec, row, action)
    return row[0].tolist()


@pytest.mark.parametrize(
    ("dtype", "action", "error", "text"),
    [
        ("uint8", [0, 1.5], TypeError, r"action: 1.5 \(float64\) at \[1\], expected uint8"),
        ("uint8", [0, 300], TypeError, r"action: 300 \(int64\) at \[1\], expected uint8"),
        ("uint8", [0, -3], TypeError, r"action: -3 \(int64\) at \[1\], expected uint8"),
        ("bool", [True, 5], TypeError, r"action: 5 \(int64\) at \[1\], expected bool"),
        ("bool", [0.5, 0.0], TypeError, r"action: 0.5 \(float64\) at \[0\], expected bool"),
        ("float32", ["a", "b"], TypeError, r"action: a \(<U1\) at \[0\], expected float32"),
        ("float32", [[1], [1, 2]], TypeError, "action: .*inhomogeneous.*, expected float32"),
        ("float32", [1.0], ValueError, r"action has shape \(1,\), expected \(2,\)"),
        ("float32", [0.0, 1e300], TypeError, r"action: 1e\+300 \(float64\) at \[1\], expected float32"),
        ("float32", [0.0, float("inf")], ValueError, "action is not finite"),
        ("float32", [0.0, float("nan")], ValueError, "action is not finite"),
    ],
)
def test_what_would_become_another_value_is_refused(dtype: str, action: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        _written(dtype, action)


@pytest.mark.parametrize(("dtype", "action"), [("uint8", [0, 255]), ("float32", [1, 0.5]), ("bool", [True, False])])
def test_what_fits_is_written(dtype: str, action: Any) -> None:
    assert _written(dtype, action) == action
