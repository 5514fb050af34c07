"""Messages as JSON and their schemas, and the column of statuses; these need no OpenEnv."""

from __future__ import annotations

import json

import pytest

from lucky_transport.errors import Busy, Status
from lucky_transport.messages import CameraConfig, SetSeedsRequest, StepRequest
from lucky_transport.messages.methods import METHODS
from lucky_transport_openenv.errors import HTTP_STATUSES, EpisodeError, refused
from lucky_transport_openenv.messages import message_of, plain_of, schema_of


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


def test_every_status_has_one_of_http() -> None:
    assert set(HTTP_STATUSES) == set(Status)
    assert all(400 <= code < 600 for status, code in HTTP_STATUSES.items() if status is not Status.OK)


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
