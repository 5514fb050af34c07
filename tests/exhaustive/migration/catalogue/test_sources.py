"""Services made known before a program has called them: from a .proto, a file of descriptors, or their server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from tests.support.command import invoke, output_of
from tests.support.weather import WeatherPrograms

pytest.importorskip("google.protobuf")

_READ = "/weather.v1.Weather/GetForecast"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lucky_transport.toml").write_text("[stages]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def target(weather: WeatherPrograms, request: pytest.FixtureRequest) -> Iterator[str]:
    """The port of a server that is started with the options of `request.param`."""
    with subprocess.Popen(weather.server(0, *request.param), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"grpc://127.0.0.1:{server.stdout.readline().split()[-1]}"
        finally:
            server.terminate()


stage = partial(invoke, "stage")


def assert_known(done: Result) -> None:
    assert done.exit_code == 0, done.output
    assert f"{_READ}: read, option idempotency_level = NO_SIDE_EFFECTS\n" in done.output
    assert len(done.output.splitlines()) == 6
    moved = stage("set", "Weather/Get*", "shadow")
    assert (moved.exit_code, moved.output) == (0, f"{_READ}: grpc -> shadow\n")


def test_a_proto_makes_its_services_known(weather: WeatherPrograms) -> None:
    refused = stage("set", "Weather/Get*", "shadow")
    assert "no method fits 'Weather/Get*'" in refused.output
    assert "lucky-transport stage register FILE.proto" in refused.output
    assert_known(stage("register", str(weather.proto)))


def test_a_descriptor_set_makes_its_services_known(weather: WeatherPrograms) -> None:
    assert_known(stage("register", str(weather.descriptor_set)))


@pytest.mark.parametrize("target", [["--reflection"]], indirect=True)
def test_a_server_with_reflection_makes_its_services_known(target: str) -> None:
    assert_known(stage("register", target))


@pytest.mark.parametrize("target", [[]], indirect=True)
def test_a_server_without_reflection_is_refused_with_the_other_ways(target: str) -> None:
    text = output_of(stage("register", target), 1)
    assert f"{target} has no reflection: UNIMPLEMENTED" in text
    assert "give its .proto" in text


#: What a hostile server answers, by name, a file at a time: its name, what it imports; None for bytes that are no file.
FILES: dict[str, list[tuple[str, list[str]] | None]] = {
    "bytes": [None],
    "a circle": [("a.proto", ["b.proto"]), ("b.proto", ["a.proto"])],
    "no end": [(f"{number}.proto", [f"{number + 1}.proto"]) for number in range(100_000)],
}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ("bytes", "describes its services wrongly: Error parsing message"),
        ("a circle", "describes its services wrongly: .*cycle"),
        ("no end", "has no reflection: DEADLINE_EXCEEDED"),
        ("no answer", r"describes no '\*': it gave no answer"),
        ("a text", r"describes no '\*': no\\x1b"),
    ],
)
def test_a_hostile_server_with_reflection_is_refused(monkeypatch: pytest.MonkeyPatch, files: str, why: str) -> None:
    grpc = pytest.importorskip("grpc")
    reflection = pytest.importorskip("grpc_reflection.v1alpha.reflection_pb2")
    stubs = pytest.importorskip("grpc_reflection.v1alpha.reflection_pb2_grpc")
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    monkeypatch.setattr("lucky_transport_migration.catalogue.sources._DESCRIBING_S", 0.5)
    left = iter(FILES.get(files, ()))

    def answer(requests: Iterator[Any], _: object) -> Iterator[Any]:
        response = reflection.ServerReflectionResponse()
        if files == "a text":
            response.error_response.error_message = "no\x1b[31m"
        elif next(requests).list_services:
            response.list_services_response.service.add(name="w.Hostile")
        else:
            file = next(left)
            content = FileDescriptorProto(name=file[0], dependency=file[1]).SerializeToString() if file else b"\xff"
            response.file_descriptor_response.file_descriptor_proto.append(content)
        if files != "no answer":
            yield response

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        stubs.add_ServerReflectionServicer_to_server(SimpleNamespace(ServerReflectionInfo=answer), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        done = stage("register", f"grpc://127.0.0.1:{port}")
        server.stop(0).wait()
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert re.search(why, done.output)


def test_what_was_registered_last_counts_and_each_content_is_kept_once(weather: WeatherPrograms, project: Path) -> None:
    changed = project / "weather.proto"
    changed.write_text(weather.proto.read_text().replace("IDEMPOTENT", "NO_SIDE_EFFECTS"))
    for path, effect in ((weather.proto, "idempotent"), (changed, "read"), (weather.proto, "idempotent")):
        assert f"/weather.v1.Weather/PutStation: {effect}" in stage("register", str(path)).output
    assert len(list((project / "lucky-evidence").glob("*.binpb"))) == 2


def test_what_the_file_of_stages_declares_is_said_in_its_place(weather: WeatherPrograms, project: Path) -> None:
    (project / "lucky_transport.toml").write_text('[stages.effects]\n"Weather/Watch*" = "read"\n')
    done = stage("register", str(weather.proto))
    assert '/weather.v1.Weather/WatchForecast: read, [stages.effects] "Weather/Watch*" = "read"\n' in done.output


def test_an_import_is_looked_for_where_the_option_says(weather: WeatherPrograms, project: Path) -> None:
    (project / "team").mkdir()
    service = "service Team { rpc Ask(weather.v1.Line) returns (weather.v1.Line); }"
    (project / "team" / "team.proto").write_text(f'syntax = "proto3";\nimport "weather.proto";\n{service}\n')
    refused = stage("register", "team/team.proto")
    assert refused.exit_code == 1
    assert "weather.proto" in refused.output
    assert "--proto-path FOLDER" in refused.output
    done = stage("register", "team/team.proto", "--proto-path", str(weather.folder))
    assert "/Team/Ask: world, nothing says what it changes\n" in done.output


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.proto", None, "no file 'gone.proto'"),
        ("broken.proto", "service {", "protoc refuses broken.proto"),
        ("none.proto", 'syntax = "proto3";', "none.proto has no service"),
        ("broken.binpb", "\x0f\x0f", "broken.binpb: no FileDescriptorSet"),
        ("shm://weather", None, "reflection is asked for over gRPC"),
    ],
)
def test_what_describes_nothing_is_refused(project: Path, name: str, content: str | None, message: str) -> None:
    pytest.importorskip("grpc_tools")
    if content is not None:
        (project / name).write_text(content)
    assert message in output_of(stage("register", name), 1)
    assert not (project / "lucky-evidence").exists()


@pytest.mark.parametrize(
    ("source", "module", "message"),
    [
        ("weather.proto", "grpc_tools", "pip install grpcio-tools, or give a descriptor set"),
        (
            "grpc://127.0.0.1:1",
            "grpc_reflection.v1alpha.reflection_pb2_grpc",
            "pip install grpcio-reflection, or give the service's .proto",
        ),
    ],
)
def test_a_package_that_is_missing_is_named_with_another_way(
    project: Path, monkeypatch: pytest.MonkeyPatch, source: str, module: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    (project / "weather.proto").write_text('syntax = "proto3";')
    assert message in output_of(stage("register", source), 1)
