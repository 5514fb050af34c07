"""`lucky-transport ls`, `services`, `inspect` and `doctor`: what is installed and works, what runs here; tables."""

import json
import os
import struct
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest

import lucky_transport
from lucky_transport import api
from lucky_transport.cli.tables import echo, show
from lucky_transport.diagnosis import check, table
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.process import unique_name
from lucky_transport.registry import registry
from lucky_transport.shm.files.lockfile import CLIENT, holder
from lucky_transport.shm.segment import header, segment
from lucky_transport.shm.segment.layout import FIELDS
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec
from tests.cli.conftest import MakeSegment, Refusal, Run
from tests.support.command import invoke, stdout_of


def plain(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = invoke(*arguments, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.output)


@pytest.mark.parametrize("kind", ["transports", "engines", "commands"])
def test_everything_that_is_registered_is_listed_with_its_summary(kind: str) -> None:
    table, listed = getattr(registry(), kind), {item["name"]: item for item in plain("ls")[kind]}
    assert {name: item["summary"] for name, item in listed.items()} == {
        name: one.summary for name, one in table.items()
    }
    for name in {"inproc", "toy", "serve", "ls", "inspect", "doctor"} & set(listed):  # which need nothing
        assert (listed[name]["loadable"], listed[name]["problem"]) == (True, "")


@pytest.mark.exhaustive
def test_a_transport_whose_package_is_missing_says_what_to_install(run: Run, tmp_path: Any) -> None:
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError(\"No module named 'grpc'\", name='grpc')\n")
    printed = stdout_of(run("ls", "--json", PYTHONPATH=str(tmp_path)))
    grpc = next(item for item in json.loads(printed)["transports"] if item["name"] == "grpc")
    assert grpc["loadable"] is False
    assert "[grpc]'" in grpc["problem"]


def test_a_running_segment_is_listed_with_its_processes(make_segment: MakeSegment) -> None:
    made = make_segment(num_envs=5)
    listed = {one["name"]: one for one in plain("ls")["segments"]}
    assert listed[made.name] == {
        "name": made.name,
        "path": str(made.path),
        "size_bytes": made.layout.total_size,
        "num_envs": 5,
        "engine_pid": os.getpid(),
        "client_pid": 0,
        "engine": f"pid {os.getpid()}",
        "client": "",
        "frame_seq": 0,
        "stale": False,
        "stopped": False,
    }


@pytest.mark.exhaustive
def test_people_get_the_same_as_tables(run: Run, make_segment: MakeSegment) -> None:
    made = make_segment()
    for kind in ("transports", "engines", "commands"):
        lines = run("ls", kind).stdout.splitlines()
        assert lines[0] == kind.capitalize()
        assert {item["name"] for item in plain("ls")[kind]} <= {line.split()[0] for line in lines if line}
    lines = stdout_of(run("ls")).splitlines()
    assert lines[0] == "Segments on this host"
    assert "Servers on this host" in lines
    row = next(line for line in lines if line.split()[:1] == [made.name])
    assert str(os.getpid()) in row
    assert row.endswith("ok")


@pytest.fixture
def endpoint() -> Iterator[str]:
    name = f"shm://{unique_name()}"
    with api.serve("toy", name):
        yield name


def test_services_are_shown_and_switched(endpoint: str) -> None:
    assert plain("services", endpoint)["services"] == {
        "hazel.rpc.AgentService": True,
        "hazel.rpc.MujocoService": True,
        "hazel.rpc.SceneService": True,
        "hazel.rpc.TelemetryService": True,
        "lucky_transport.v1.BatchService": True,
    }
    after = plain("services", endpoint, "--off", "Scene*,MujocoService", "--fps", "TelemetryService=12.5")
    off = [name for name, is_on in after["services"].items() if not is_on]
    assert off == ["hazel.rpc.MujocoService", "hazel.rpc.SceneService"]
    assert plain("services", endpoint) == after
    shown = invoke("services", endpoint, "--on", "*").output
    assert "off" not in shown.split()
    assert "/hazel.rpc.TelemetryService/StreamTelemetry  12.5/s at most" in shown


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--off", "SceneServce"], "did you mean 'SceneService'?"),
        (["--off", "BatchService"], "carries the steps of envs"),
        (["--fps", "TelemetryService"], "write NAME=RATE, e.g. CameraService=10"),
        (["--fps", "TelemetryService=-1"], "write items a second, 0 for no limit"),
    ],
)
def test_what_is_wrong_is_refused_with_the_remedy(endpoint: str, arguments: list[str], text: str) -> None:
    done = invoke("services", endpoint, *arguments)
    assert done.exit_code == 1
    assert text in done.output


def test_an_engine_that_is_not_there_is_refused_with_those_that_are(endpoint: str) -> None:
    done = invoke("services", "shm://nobody")
    assert done.exit_code == 1
    assert "no engine of yours is served at shm://nobody on this host; yours are at" in done.output
    assert endpoint in done.output


def test_what_is_off_is_seen_by_ls_and_inspect(endpoint: str) -> None:
    plain("services", endpoint, "--off", "SceneService", "--fps", "TelemetryService=5")
    assert "off: SceneService; TelemetryService/StreamTelemetry at most 5/s" in invoke("ls").output
    running = {one["endpoints"][0]: one for one in plain("ls")["running"]}
    assert running[endpoint]["services"]["hazel.rpc.SceneService"] is False
    inspected = plain("inspect", endpoint)
    assert inspected["services"] == running[endpoint]["services"]
    assert inspected["streams"]["/hazel.rpc.TelemetryService/StreamTelemetry"] == 5
    assert "hazel.rpc.SceneService           off" in invoke("inspect", endpoint).output


def test_what_is_off_is_seen_over_a_connection_too() -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")
    with api.serve("toy", "grpc://127.0.0.1:0", without_services="SceneService") as serving:
        inspected = plain("inspect", str(serving.endpoints[0]))
    assert inspected["methods"]["/hazel.rpc.SceneService/GetSceneInfo"] == "is switched off"
    assert inspected["methods"]["/hazel.rpc.MujocoSceneService/GetModelInfo"] == "not implemented"
    assert inspected["services"]["hazel.rpc.SceneService"] is False


LONG = "x" * 300


def test_a_pipe_gets_aligned_columns_that_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show("Things", ("name", "count", "note"), [("a", 1, LONG), ("longer", 22, "")])
    assert capsys.readouterr().out == f"Things\n  name    count  note\n  a       1      {LONG}\n  longer  22\n\n"


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show("Things", ("name",), [], empty="nothing here")
    assert capsys.readouterr().out == "Things\n  nothing here\n\n"


def test_a_terminal_gets_the_same_table_with_verdicts_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(click, "echo", lambda text="": written.append(text))
    show("Things", ("name", "verdict"), [("a [bold]value[/bold]", "fail"), ("b", "ok")])
    assert [click.unstyle(line) for line in written] == [
        "Things",
        "  name                  verdict",
        "  a [bold]value[/bold]  fail",
        "  b                     ok",
        "",
    ]
    assert click.style("fail", fg="red") in written[2]
    assert click.style("ok", fg="green") in written[3]


def test_on_a_terminal_the_last_column_wraps_and_in_a_pipe_it_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [("kettle", "one two three four five six seven eight nine ten")]
    show("Things", ("name", "seen"), rows, wraps=True)
    assert len(capsys.readouterr().out.splitlines()) == 4
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    show("Things", ("name", "seen"), rows, wraps=True)
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert [line.rstrip() for line in lines[2:4]] == [
        "  kettle  one two three four five six",
        "          seven eight nine ten",
    ]
    monkeypatch.setenv("COLUMNS", "12")
    show("Things", ("name", "seen"), rows, wraps=True)
    assert len(capsys.readouterr().out.splitlines()) == 4, "no room: the line stays whole"


HOSTILE = "a\n\x1b[31m\u202e\udc80b"
SHOWN = r"a\n\x1b[31m\u202e\udc80b"


def test_names_in_a_table_and_in_a_line_are_spelt_out(capsys: pytest.CaptureFixture[str]) -> None:
    show(f"Things {HOSTILE}", ("name", "state"), [(HOSTILE, "ok"), ("größer µ", "ok")])
    echo(f"removed {HOSTILE}")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["Things", SHOWN],
        ["name", "state"],
        [SHOWN, "ok"],
        ["größer", "µ", "ok"],
        [],
        ["removed", SHOWN],
    ]


# --- a segment ---


def test_every_header_field_is_shown_with_place_meaning_and_value(make_segment: MakeSegment) -> None:
    made = make_segment(num_envs=7)
    fields = {one["name"]: one for one in plain("inspect", f"shm://{made.name}")["header"]}
    assert set(fields) == set(FIELDS)
    raw = made.path.read_bytes()
    for name, place in FIELDS.items():
        shown = fields[name]
        assert (shown["offset"], shown["meaning"]) == (place.offset, place.meaning)
        value = struct.unpack_from("<" + place.code, raw, place.offset)[0]
        assert shown["value"] == (value.hex() if isinstance(value, bytes) else value)
    assert fields["num_envs"]["value"] == 7
    offsets = [one["offset"] for one in plain("inspect", f"shm://{made.name}")["header"]]
    assert offsets == sorted(offsets)


def test_regions_and_spec_are_those_of_the_engine(make_segment: MakeSegment) -> None:
    made = make_segment()
    report = plain("inspect", f"shm://{made.name}")
    assert report["spec"] | {"lucky_transport": version("lucky-transport")} == json.loads(made.spec.to_json())
    regions = {one["name"]: (one["offset"], one["size_bytes"]) for one in report["regions"]}
    assert regions["observations"] == made.layout["observations"][1:]
    assert report["problem"] == ""


def test_looking_attaches_nothing_and_changes_no_byte(make_segment: MakeSegment) -> None:
    made = make_segment()
    before = made.path.read_bytes()
    report = plain("inspect", f"shm://{made.name}")
    assert report["client_pid"] == 0
    assert made.path.read_bytes() == before
    assert holder(made.lock_path, CLIENT) is None


def test_a_segment_that_is_not_ready_is_shown_with_the_reason(make_segment: MakeSegment) -> None:
    made = make_segment(ready=False)
    report = plain("inspect", f"shm://{made.name}", code=1)
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
    report = plain("inspect", f"shm://{made.name}", code=1)
    assert field in report["problem"]
    assert next(one for one in report["header"] if one["name"] == field)["value"] == value


def test_people_read_names_instead_of_codes(run: Run, make_segment: MakeSegment) -> None:
    made = make_segment()
    printed = stdout_of(run("inspect", f"shm://{made.name}", "--header"))
    lines = {line.split()[1]: line for line in printed.splitlines() if len(line.split()) > 1}
    assert "0x4c524243" in lines["magic"]
    assert "1 (ready)" in lines["engine_state"]
    assert "(float32)" in lines["obs_dtype"]
    assert "WAKE" in lines["engine_features"]
    assert "64 zero bytes" in lines["gpu_obs_handle"]
    for title in ("Header", "Regions", "Batch spec"):
        assert title in printed.splitlines()


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
def test_where_nothing_is_there_it_says_so(refusal: Refusal, endpoint: str, text: str) -> None:
    status, printed = refusal("inspect", endpoint)
    assert status == 1
    assert text in printed


def test_a_file_that_is_no_segment_is_called_foreign(make_segment: MakeSegment) -> None:
    made = make_segment()
    header.put(made.mapping, "magic", 7)
    shown = invoke("inspect", f"shm://{made.name}")
    assert shown.exit_code == 1
    assert "magic" in shown.output


# --- any other transport ---


@pytest.fixture
def engine() -> Iterator[str]:
    with lucky_transport.serve("toy", "inproc://inspected", num_envs=3) as serving:
        yield str(serving.endpoints[0])


def test_an_engine_behind_a_transport_is_shown_with_spec_capabilities_and_methods(engine: str) -> None:
    report = plain("inspect", engine)
    assert report["transport"] == "inproc"
    assert report["spec"]["num_envs"] == 3
    assert report["capabilities"]["lockstep"] is True
    assert report["capabilities"]["images"] is False
    assert report["methods"]["/hazel.rpc.AgentService/GetAgentSchema"] == "answers"
    assert report["methods"]["/hazel.rpc.MujocoService/GetMujocoInfo"] == "not implemented"


def test_a_method_that_changes_the_world_is_never_tried(engine: str) -> None:
    with lucky_transport.connect(engine) as client:
        before = plain("inspect", engine)["methods"]
        assert before["/hazel.rpc.AgentService/ResetAgent"].startswith("not tried")
        assert before["/lucky_transport.v1.BatchService/SetSeeds"].startswith("not tried")
        assert client.transport.step(client.transport.actions).seq == 1


def test_looking_takes_no_lease_so_a_driver_is_not_disturbed(engine: str) -> None:
    with lucky_transport.connect(engine) as client:
        client.transport.step(client.transport.actions)
        plain("inspect", engine)
        assert client.transport.step(client.transport.actions).seq == 2


def test_people_get_an_engine_as_tables(engine: str) -> None:
    shown = invoke("inspect", engine)
    assert shown.exit_code == 0
    for title in ("What the transport can carry", "Methods", "Batch spec"):
        assert title in shown.output.splitlines()


def test_parts_are_listed_with_their_places_in_a_row() -> None:
    with lucky_transport.serve("toy:composite", "shm://", num_envs=2) as serving:
        endpoint = str(serving.endpoints[0])
        shown = invoke("inspect", endpoint).output
        parts = plain("inspect", endpoint)["spec"]["observation_parts"]
    assert '  observation["camera"]["left"]   64' in shown
    assert '  info["clock"]["ticks"]' in shown
    assert '  action["gears"]' in shown
    assert "MultiDiscrete([2 3])" in shown
    assert [part["path"] for part in parts][1] == ["camera", "left"]


# --- doctor ---


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces what the checks find."""

    def replace(*found: Check) -> None:
        monkeypatch.setattr(table, "examine", lambda roots: list(found))

    return replace


FINE = Check("kettle", CheckStatus.OK, "full")
LOSS = Check("teapot", CheckStatus.WARN, "lukewarm", "put the cosy on")
FAULT = Check("cup", CheckStatus.FAIL, "has a hole", "take another")


@pytest.mark.parametrize(("found", "code"), [([FINE], 0), ([FINE, LOSS], 0), ([FINE, LOSS, FAULT], 1), ([FAULT], 1)])
def test_only_a_failed_check_fails_the_command(rows: Callable[..., None], found: list[Check], code: int) -> None:
    rows(*found)
    for arguments in (["doctor"], ["doctor", "--json"]):
        assert invoke(*arguments).exit_code == code


def test_people_get_what_to_do_first_and_the_worst_verdict_on_top(rows: Callable[..., None]) -> None:
    rows(FINE, LOSS, FAULT)
    remedies, _, verdicts = invoke("doctor").output.partition("Checks")
    assert remedies.startswith("What to do")
    assert [line.split()[:2] for line in verdicts.splitlines()[2:5]] == [
        ["cup", "fail"],
        ["teapot", "warn"],
        ["kettle", "ok"],
    ]
    assert "put the cosy on" in remedies
    assert "take another" in remedies
    assert "kettle" not in remedies


def test_scripts_get_every_row_as_json(rows: Callable[..., None]) -> None:
    rows(FINE, FAULT)
    assert json.loads(invoke("doctor", "--json").output) == {
        "ok": False,
        "removed": [],
        "checks": [
            {"name": "kettle", "verdict": "ok", "seen": "full", "remedy": ""},
            {"name": "cup", "verdict": "fail", "seen": "has a hole", "remedy": "take another"},
        ],
    }


@pytest.mark.exhaustive
def test_the_real_checks_run_here_and_each_says_what_it_saw(run: Run) -> None:
    done = run("doctor", "--json")
    report: dict[str, Any] = json.loads(done.stdout)
    assert len(report["checks"]) == len(table.CHECKS)
    assert all(row["seen"] for row in report["checks"])
    assert done.returncode == (0 if report["ok"] else 1)
    assert report["ok"] == all(row["verdict"] != "fail" for row in report["checks"])


def test_fix_removes_what_the_dead_left_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = ArraySpec(shape=(1,))
    dead, living = (
        segment.create(name, BatchSpec("toy", 1, array, array), directory=tmp_path) for name in ("dead", "living")
    )
    for made in (dead, living):
        made.publish_ready()
    content = dead.path.read_bytes()
    dead.unlink()
    dead.path.touch(0o600)
    dead.path.write_bytes(content)
    (tmp_path / "a_file_of_somebody_else").write_bytes(b"kept")
    monkeypatch.setattr(check, "Roots", partial(Roots, shm=tmp_path))
    before = _row("stale segments")
    assert (before["verdict"], before["seen"][:6], "--fix" in before["remedy"]) == ("warn", "dead (", True)
    removed = json.loads(invoke("doctor", "--fix", "--json").output)["removed"]
    assert removed == [str(dead.path)]
    assert {path.name for path in tmp_path.iterdir()} == {"a_file_of_somebody_else", "living", "living.lock"}
    assert _row("stale segments")["seen"] == "none among 1 on this host"
    living.unlink()


def _row(name: str) -> dict[str, Any]:
    report = json.loads(invoke("doctor", "--json").output)
    return next(row for row in report["checks"] if row["name"] == name)
