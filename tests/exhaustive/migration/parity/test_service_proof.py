"""A server of a team's own is compared over TCP and in shared memory, and each planted difference is found."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from lucky_transport_migration.catalogue.catalogue import Catalogue
from lucky_transport_migration.catalogue.descriptors import methods_in
from lucky_transport_migration.evidence.record import GAP, ITSELF, read_folder
from lucky_transport_migration.recording.entries import Header, RecordedCall, Recording, line_of
from lucky_transport_migration.recording.replay_call import requests_of
from tests.exhaustive.planted.test_answers_by_tool import ROOT
from tests.exhaustive.planted.test_answers_by_tool import server as answering_server
from tests.support.command import invoke, json_of, output_of
from tests.support.waiting import PATIENCE_S, until, until_none_left
from tests.support.weather import SERVICE, WeatherPrograms

pytest.importorskip("grpc")
_FORECAST = f"/{SERVICE}/GetForecast"


def parity(weather: WeatherPrograms, *options: str, server: tuple[str, ...] = (), describe: bool = True) -> Result:
    command = shlex.join(weather.server("PORT", *server)).replace("PORT", "{port}")
    described = ("--proto", str(weather.proto)) if describe else ()
    return invoke("parity", "--server", command, *described, *options)


def test_a_server_that_answers_alike_is_equal_in_all_methods_and_makes_evidence(
    weather: WeatherPrograms, tmp_path: Path
) -> None:
    folder = tmp_path / "evidence"
    found = json_of(parity(weather, "--service", SERVICE, "--requests", "8", "--evidence", str(folder), "--json"))
    assert found["equal"] is True
    assert set(found["methods"]) == {one.name for one in Catalogue(folder) if one.name.startswith(f"/{SERVICE}/")}
    lines = [one for one in read_folder(folder) if one.stage != GAP]
    gaps = [one for one in read_folder(folder) if one.stage == GAP]
    assert len(gaps) >= len(found["methods"])
    assert all(one.method in one.why for one in gaps)
    left = {f"{row['what']} ({row['why']})" for row in found["not_compared"]}
    assert {one.why for one in gaps} <= left
    assert len(lines) == found["calls"] >= 8 * len(found["methods"])
    assert {(one.kind, one.verdict) for one in lines} == {("parity", "equal")}
    assert "trailing metadata" in found["aspects"]
    assert found["late"] == len(found["methods"])


PLAIN_PROTO = """
syntax = "proto3";
package plants.v1;
import "google/protobuf/empty.proto";
import "google/protobuf/struct.proto";
service Plants { rpc GetHeaders(google.protobuf.Empty) returns (google.protobuf.Struct); }
"""


def test_a_method_whose_request_carries_nothing_is_called_as_often_as_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "plain.proto").write_text(PLAIN_PROTO)
    options = ["--proto", str(tmp_path / "plain.proto"), "--requests", "40", "--evidence", str(tmp_path / "seen")]
    done = invoke("parity", "--server", answering_server("--alike"), *options, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["methods"]["/plants.v1.Plants/GetHeaders"]["calls"] == 40
    assert [one.verdict for one in read_folder(tmp_path / "seen")] == ["equal"] * 40


def test_a_planted_difference_is_found_with_the_smallest_request(weather: WeatherPrograms) -> None:
    options = ("--method", "Weather/GetForecast", "--requests", "8", "--json")
    first = json_of(parity(weather, *options, server=("--fault", "value")), 1)["first_difference"]
    assert "reading.temperature" in first["path"]
    assert first["request"].startswith("request {}")
    assert first["what"] == "the smallest found"


def test_a_difference_behind_a_certain_text_is_found_once_the_text_is_named(
    weather: WeatherPrograms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lucky_transport.toml").write_text(
        '[parity.values]\n"weather.v1.ForecastRequest.station" = ["nowhere"]\n"other.v1.Message.field" = [1]\n'
    )
    monkeypatch.chdir(tmp_path)
    options = ("--method", "Weather/GetForecast", "--requests", "8", "--json")
    first = json_of(parity(weather, *options, server=("--fault", "details")), 1)["first_difference"]
    assert first["aspect"] == "details"
    assert first["request"] == 'request {station: "nowhere"}'


def recording(path: Path, weather: WeatherPrograms, *calls: RecordedCall) -> Path:
    described = replace(calls[0], described=weather.descriptor_set.read_bytes())
    path.write_text("".join(map(line_of, (Header("grpc"), described, *calls[1:]))))
    return path


#: Requests that no other part of these tests draws: fields by their numbers, texts by their length.
_NOWHERE = RecordedCall(_FORECAST, "protobuf", requests=(b"\n\x07nowhere",), code="NOT_FOUND")
_OSLO = RecordedCall(
    _FORECAST, "protobuf", requests=(b"\n\x04Oslo\x10\x03",), items=(b"",), metadata=(("team", "a"), ("token", "***"))
)
_WATCH = RecordedCall(f"/{SERVICE}/WatchForecast", "protobuf", requests=(b"\x10\x03",), items=(b"",), left=True)
_LEFT = RecordedCall(f"/{SERVICE}/WatchForecast", "protobuf", requests=(b"\x10\x03",), left=True)


def test_recorded_calls_are_made_in_their_order_and_compared(weather: WeatherPrograms, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    file = recording(tmp_path / "run.jsonl", weather, _OSLO, _NOWHERE, _WATCH, _LEFT)
    found = json_of(parity(weather, "--from", str(file), "--evidence", str(evidence), "--json", describe=False))
    assert {name: row["calls"] for name, row in found["methods"].items()} == {_FORECAST: 2, _WATCH.call: 1}
    assert {"what": "1 recorded call", "why": "it was left before an item came"} in found["not_compared"]
    assert any(one["what"].startswith("request metadata token, in 1 of 2") for one in found["not_compared"])
    assert not any("fewer than two" in one["why"] for one in found["not_compared"])
    assert [one.primary.code for one in read_folder(evidence)] == ["OK", "NOT_FOUND", "CANCELLED"]


def test_a_difference_of_a_recorded_call_is_found_and_the_calls_behind_it_are_compared(
    weather: WeatherPrograms, tmp_path: Path
) -> None:
    file = recording(tmp_path / "run.jsonl", weather, _NOWHERE, _OSLO, _WATCH)
    found = json_of(parity(weather, "--from", str(file), "--json", server=("--fault", "details"), describe=False), 1)
    assert found["first_difference"]["aspect"] == "details"
    assert found["first_difference"]["what"] == "as recorded"
    assert found["first_difference"]["request"] == 'request {station: "nowhere"}'
    assert [(row["calls"], row["equal"]) for row in found["methods"].values()] == [(2, 1), (1, 1)]


def test_a_recorded_call_has_the_metadata_and_the_deadline_that_it_had(
    weather: WeatherPrograms, tmp_path: Path
) -> None:
    one = replace(_OSLO, described=weather.descriptor_set.read_bytes(), timeout_s=0.5)
    path = tmp_path / "run.jsonl"
    path.write_text(line_of(Header("grpc")) + line_of(one))
    recorded = requests_of(Recording(path))
    rows = {row.name: row for row in methods_in(weather.descriptor_set.read_bytes(), "weather.binpb")}
    ((row, call),) = recorded.calls(rows)
    assert (row.name, call.metadata, call.timeout_s) == (_FORECAST, (("team", "a"),), 0.5)
    assert call.text == "request {station: \"Oslo\" days: 3}, metadata {'team': 'a'}, a deadline of 0.5 s"


def test_a_server_that_is_slow_to_start_is_named_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_START_TIMEOUT_S", "0.5")
    server = f"{sys.executable} -c 'import time; time.sleep(600)' {{port}}"
    text = output_of(invoke("parity", "--server", server), 1)
    assert "was not ready within 0.5 s; it has to serve port" in text
    assert "a slow one needs a longer start_timeout_s" in text


def test_a_recording_without_a_call_of_the_server_is_refused(weather: WeatherPrograms, tmp_path: Path) -> None:
    file = recording(tmp_path / "run.jsonl", weather, _OSLO)
    text = output_of(parity(weather, "--from", str(file), "--method", "Weather/Report", describe=False), 1)
    assert f"has no call of a chosen method; it has {_FORECAST}" in text


def test_an_answer_that_is_late_in_shared_memory_alone_is_a_difference(weather: WeatherPrograms) -> None:
    options = ("--method", "Weather/GetForecast", "--requests", "2", "--deadline", "1", "--json")
    assert json_of(parity(weather, *options, server=("--fault", "late")), 1)["first_difference"]["aspect"] == "late"


def test_a_field_that_may_differ_is_left_out_and_said(
    weather: WeatherPrograms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lucky_transport.toml").write_text(
        '[parity.fields]\n"weather.v1.Forecast.issued_ns" = { skip = "a clock" }\n'
        '"metadata.weather-*" = { skip = "of the station" }\n'
        '"weather.v1.Forecast.*" = { abs = 1e-9 }\n'
    )
    monkeypatch.chdir(tmp_path)
    options = ("--method", "Weather/GetForecast", "--requests", "5")
    text = output_of(parity(weather, *options, server=("--fault", "int64")))
    assert "not compared: weather.v1.Forecast.issued_ns" in text
    assert "(a clock)" in text
    assert "not compared: metadata.weather-*" in text
    assert "\nrules of [parity.fields]: weather.v1.Forecast.issued_ns skip" in text
    assert "; weather.v1.Forecast.* abs 1e-09\n" in text


def of_changed(weather: WeatherPrograms, folder: Path, old: str, new: str, *options: str) -> Result:
    """Compare the team's server with a line of it changed."""
    text = (weather.folder / "server.py").read_text()
    assert old in text
    (folder / "server.py").write_text(
        f"import sys; sys.path.insert(0, {str(weather.folder)!r})\n{text.replace(old, new)}"
    )
    command = f"{shlex.join([sys.executable, str(folder / 'server.py'), '--port'])} {{port}}"
    return invoke("parity", "--server", command, "--proto", str(weather.proto), *options)


def test_a_server_that_differs_from_itself_is_told_apart(weather: WeatherPrograms, tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    options = ("--method", "Weather/GetForecast", "--evidence", str(folder))
    text = output_of(of_changed(weather, tmp_path, "issued_ns=2**62 + day", "issued_ns=time.time_ns()", *options), 1)
    last = text.splitlines()[-1]
    assert last.startswith("NOT COMPARED: the server differs from itself in Weather/GetForecast")
    assert [one.kind for one in read_folder(folder) if one.verdict == "different"] == ["aa"]
    assert [one.why for one in read_folder(folder) if one.verdict == "not_compared"] == [ITSELF]
    invoke("signoff", str(folder), "--report", str(tmp_path / "page"))
    page = (tmp_path / "page" / "signoff.md").read_text()
    assert "- Weather/GetForecast: the server differs from itself in it, asked the same twice over gRPC." in page


#: The end of a server's process in a call over shared memory.
_ENDS = """        if type(context).__init__.__module__.startswith('lucky_transport'):
            import os
            print('going down', flush=True)
            os._exit(7)
"""


def test_a_server_that_ends_in_a_call_ends_the_proof_with_its_last_lines(
    weather: WeatherPrograms, tmp_path: Path
) -> None:
    begun = '        fault = self.began(context, "GetForecast")\n'
    text = output_of(of_changed(weather, tmp_path, begun, begun + _ENDS, "--method", "*Forecast", "--requests", "3"), 1)
    *_, status, _, last = text.splitlines()
    assert status == f"a server ended in calls of {_FORECAST}: exit status 7"
    assert last.strip() == "going down"
    assert "not compared: /weather.v1.Weather/WatchForecast (no call of it could be compared)" in text


def test_a_proof_that_is_terminated_ends_its_servers(weather: WeatherPrograms, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    server = f"sh -c 'echo $$ >> {pids}; exec {shlex.join(weather.server('PORT'))}'".replace("PORT", "{port}")
    command = [sys.executable, "-m", "lucky_transport", "parity", "--server", server, "--proto", str(weather.proto)]
    with subprocess.Popen([*command, "--requests", "100000"], stdout=subprocess.PIPE, text=True) as proof:
        until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        proof.terminate()
        proof.communicate(timeout=PATIENCE_S)
    assert proof.returncode == 130
    until_none_left(lambda: [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()])


def test_without_a_description_reflection_is_asked_and_else_both_options_named(weather: WeatherPrograms) -> None:
    done = parity(
        weather, "--method", "Weather/PutStation", "--requests", "2", server=("--reflection",), describe=False
    )
    assert done.exit_code == 0, done.output
    done = parity(weather, describe=False)
    assert done.exit_code != 0
    assert "nothing describes the messages of the server" in done.output
    assert "--proto FILE" in done.output
    assert "--descriptor-set FILE" in done.output


_ENDED = f"{sys.executable} -c 'raise SystemExit(\"no such option\")' {{port}}"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--server", "python server.py"), "has no {port}"),
        (("--server", "python 'server.py {port}"), "close the quotation mark"),
        (("--server", "no-such-program {port}"), "cannot be started"),
        (("--server", _ENDED), f"ended before it was ready: exit status 1\n  no such option; try it: {_ENDED}"),
        (("--server", "x {port}", "--steps", "3"), "--steps: not with --server"),
        (("toy", "--server", "x {port}"), "ENGINE: not with --server"),
        (("--service", "a.B"), "--service: only with --server"),
        (("--from", __file__), "--from: only with --server"),
        (("--value", "a.B.c=1"), "--value: only with --server"),
        (("--server", "x {port}", "--from", __file__, "--seed", "3"), "--seed: nothing is drawn with --from"),
        (("--server", "x {port}", "--from", __file__, "--requests", "3"), "--requests: nothing is drawn with --from"),
    ],
)
def test_wrong_use_is_refused_with_what_to_do(options: tuple[str, ...], text: str) -> None:
    done = invoke("parity", *options)
    assert done.exit_code == (2 if " with --" in text else 1), done.output
    assert isinstance(done.exception, SystemExit)
    assert text in done.output


def test_a_wrong_service_or_method_is_refused_with_those_that_are_there(weather: WeatherPrograms) -> None:
    done = parity(weather, "--service", "weather.v1.Wether")
    assert "weather.v1.Weather" in done.output
    done = parity(weather, "--proto", "missing.proto")
    assert "no file 'missing.proto'" in done.output
    done = parity(weather, "--method", "Weather/Nothing")
    assert _FORECAST in done.output
