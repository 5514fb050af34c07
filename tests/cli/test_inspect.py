"""`lucky-transport inspect`: everything about an engine, without driving it."""

import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import pytest

import lucky_transport
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.lockfile import CLIENT, holder
from lucky_transport.shm.segment import header, segment
from lucky_transport.shm.segment.layout import FIELDS
from tests.support.command import invoke

MakeSegment = Callable[..., segment.Segment]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def inspected(endpoint: str, code: int = 0) -> dict[str, Any]:
    shown = invoke("inspect", endpoint, "--json")
    assert shown.exit_code == code, shown.output
    return json.loads(shown.output)


# --- a segment ---


def test_every_header_field_is_shown_with_place_meaning_and_value(make_segment: MakeSegment) -> None:
    made = make_segment(num_envs=7)
    fields = {one["name"]: one for one in inspected(f"shm://{made.name}")["header"]}
    assert set(fields) == set(FIELDS)
    raw = made.path.read_bytes()
    for name, place in FIELDS.items():
        shown = fields[name]
        assert (shown["offset"], shown["meaning"]) == (place.offset, place.meaning)
        value = struct.unpack_from("<" + place.code, raw, place.offset)[0]
        assert shown["value"] == (value.hex() if isinstance(value, bytes) else value)
    assert fields["num_envs"]["value"] == 7
    offsets = [one["offset"] for one in inspected(f"shm://{made.name}")["header"]]
    assert offsets == sorted(offsets)


def test_regions_and_spec_are_those_of_the_engine(make_segment: MakeSegment) -> None:
    made = make_segment()
    report = inspected(f"shm://{made.name}")
    assert report["spec"] | {"lucky_transport": version("lucky-transport")} == json.loads(made.spec.to_json())
    regions = {one["name"]: (one["offset"], one["size_bytes"]) for one in report["regions"]}
    assert regions["observations"] == made.layout["observations"][1:]
    assert report["problem"] == ""


def test_looking_attaches_nothing_and_changes_no_byte(make_segment: MakeSegment) -> None:
    made = make_segment()
    before = made.path.read_bytes()
    report = inspected(f"shm://{made.name}")
    assert report["client_pid"] == 0
    assert made.path.read_bytes() == before
    assert holder(made.lock_path, CLIENT) is None


def test_a_segment_that_is_not_ready_is_shown_with_the_reason(make_segment: MakeSegment) -> None:
    made = make_segment(ready=False)
    report = inspected(f"shm://{made.name}", code=1)
    assert "version is 0" in report["problem"]
    assert report["spec"] is None
    assert len(report["header"]) == len(FIELDS)


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", 99), ("total_size", 1 << 60), ("obs_offset", 3), ("spec_offset", 1), ("num_envs", 0)],
)
def test_a_damaged_header_is_shown_with_what_is_wrong_in_it(make_segment: MakeSegment, field: str, value: int) -> None:
    made = make_segment()
    header.put(made.mapping, field, value)
    report = inspected(f"shm://{made.name}", code=1)
    assert field in report["problem"]
    assert next(one for one in report["header"] if one["name"] == field)["value"] == value


def test_people_read_names_instead_of_codes(run: Run, make_segment: MakeSegment) -> None:
    made = make_segment()
    done = run("inspect", f"shm://{made.name}", "--header")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[1]: line for line in done.stdout.splitlines() if len(line.split()) > 1}
    assert "0x4c524243" in lines["magic"]
    assert "1 (ready)" in lines["engine_state"]
    assert "(float32)" in lines["obs_dtype"]
    assert "WAKE" in lines["engine_features"]
    assert "64 zero bytes" in lines["gpu_obs_handle"]
    for title in ("Header", "Regions", "Batch spec"):
        assert title in done.stdout.splitlines()


def test_the_header_is_shown_when_it_is_asked_for_or_says_what_is_wrong(run: Run, make_segment: MakeSegment) -> None:
    made = make_segment()
    shown = run("inspect", f"shm://{made.name}").stdout.splitlines()
    assert "Batch spec" in shown
    assert "Header" not in shown
    header.put(made.mapping, "version", 99)
    assert "Header" in run("inspect", f"shm://{made.name}").stdout.splitlines()


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        ("shm://lucky_nobody_here", "no engine at"),
        ("shm://not/a/name", "shared-memory name 'not/a/name'"),
        ("shm:", "shared-memory name ''"),
        ("grpc", "is not a URL"),
        ("pigeon://loft", "no endpoint scheme 'pigeon'"),
        ("inproc://nobody", "no engine at inproc://nobody"),
    ],
)
def test_where_nothing_is_there_is_an_error_that_says_so(
    refusal: Callable[..., tuple[int, str]], endpoint: str, text: str
) -> None:
    status, printed = refusal("inspect", endpoint)
    assert status == 1
    assert text in printed


def test_a_file_that_is_no_segment_is_called_foreign() -> None:
    path = lockfile.DIRECTORY / "lucky_foreign_file"
    path.touch(0o600)
    path.write_bytes(b"somebody else's bytes " * 1000)
    try:
        shown = invoke("inspect", f"shm://{path.name}")
    finally:
        path.unlink()
    assert shown.exit_code == 1
    assert "magic" in shown.output


# --- any other transport ---


@pytest.fixture
def endpoint() -> Iterator[str]:
    with lucky_transport.serve("toy", "inproc://inspected", num_envs=3) as serving:
        yield str(serving.endpoints[0])


def test_an_engine_behind_a_transport_is_shown_with_spec_capabilities_and_methods(endpoint: str) -> None:
    report = inspected(endpoint)
    assert report["transport"] == "inproc"
    assert report["spec"]["num_envs"] == 3
    assert report["capabilities"]["lockstep"] is True
    assert report["capabilities"]["images"] is False
    assert report["methods"]["/hazel.rpc.AgentService/GetAgentSchema"] == "answers"
    assert report["methods"]["/hazel.rpc.MujocoService/GetMujocoInfo"] == "not implemented"


def test_a_method_that_changes_the_world_is_never_tried(endpoint: str) -> None:
    with lucky_transport.connect(endpoint) as client:
        before = inspected(endpoint)["methods"]
        assert before["/hazel.rpc.AgentService/ResetAgent"].startswith("not tried")
        assert before["/lucky_transport.v1.BatchService/SetSeeds"].startswith("not tried")
        assert client.transport.step(client.transport.actions).seq == 1


def test_looking_takes_no_lease_so_a_driver_is_not_disturbed(endpoint: str) -> None:
    with lucky_transport.connect(endpoint) as client:
        client.transport.step(client.transport.actions)
        inspected(endpoint)
        assert client.transport.step(client.transport.actions).seq == 2


def test_people_get_an_engine_as_tables(endpoint: str) -> None:
    shown = invoke("inspect", endpoint)
    assert shown.exit_code == 0
    for title in ("What the transport can carry", "Methods", "Batch spec"):
        assert title in shown.output.splitlines()


def test_parts_are_listed_with_their_places_in_a_row() -> None:
    with lucky_transport.serve("toy:composite", "shm://", num_envs=2) as serving:
        endpoint = str(serving.endpoints[0])
        shown = invoke("inspect", endpoint).output
        parts = inspected(endpoint)["spec"]["observation_parts"]
    assert '  observation["camera"]["left"]   64' in shown
    assert '  info["clock"]["ticks"]' in shown
    assert '  action["gears"]' in shown
    assert "MultiDiscrete([2 3])" in shown
    assert [part["path"] for part in parts][1] == ["camera", "left"]
