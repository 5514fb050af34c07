"""`lucky-transport scan` as a user types it."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.support.command import invoke

TRAIN = "from luckyrobots import LuckyEnv\nenv = LuckyEnv(robot='a', port=50051)\n"


def run(*arguments: str, answer: str = "") -> Result:
    done = invoke("scan", *arguments, input=answer)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_a_finding_is_one_line_in_a_pipe(tree: Any) -> None:
    done = run(str(tree({"a.py": "import grpc\n"})))
    assert done.exit_code == 0
    first, last = done.output.splitlines()
    assert first == "a.py:1: import grpc (level 1: it runs as it is under `lucky-transport run`)"
    assert last == (
        "Left of gRPC: 1 place in 1 file, 0 on its wire and 1 that need its package (1 import); 1 at level 1."
    )


def test_what_is_on_the_wire_is_marked_in_its_line(tree: Any) -> None:
    source = "import grpc\nclass I(grpc.ServerInterceptor): ...\ns = grpc.server(None)\ns.add_insecure_port('h:1')\n"
    *lines, last = run(str(tree({"a.py": source}))).output.splitlines()
    assert ["on the wire" in line for line in lines] == [False, False, True, True]
    assert "2 on its wire and 2 that need its package" in last
    assert "1 interceptor" in last


def test_json_is_one_object(tree: Any) -> None:
    found = json.loads(run(str(tree({"a.py": "import grpc\n"})), "--json").output)
    assert [(one["path"], one["line"], one["kind"], one["symbol"], one["level"]) for one in found["findings"]] == [
        ("a.py", 1, "import", "grpc", 1)
    ]


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"a.py": "import grpc\n"}, 1),
        ({"a_pb2_grpc.py": ""}, 1),
        ({"a.py": "import grpc\n("}, 1),
        ({"requirements.txt": "grpcio"}, 1),
        ({"a.py": "import lucky_transport\n"}, 0),
        ({}, 0),
    ],
)
def test_the_gate_opens_only_when_nothing_is_left(tree: Any, files: dict[str, str], code: int) -> None:
    root = str(tree(files))
    assert run(root, "--gate", "package").exit_code == code
    assert run(root, "--gate", "package", "--json").exit_code == code
    assert run(root).exit_code == 0


#: A service of one's own as `scan --fix` leaves it.
OWN = """import lucky_transport_stubs
import weather_pb2_grpc

server = lucky_transport_stubs.server(None)
weather_pb2_grpc.add_WeatherServicer_to_server(object(), server)
server.add_insecure_port("shm://weather")
stub = weather_pb2_grpc.WeatherStub(lucky_transport_stubs.channel("shm://weather"))
"""


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"a.py": OWN, "w_pb2_grpc.py": "import grpc\n", "Makefile": "a:\n\tprotoc --grpc_python_out=. a.proto\n"}, 0),
        ({"a.py": OWN + "import grpc\nclass I(grpc.ServerInterceptor): ...\n", "requirements.txt": "grpcio"}, 0),
        ({"Makefile": "a:\n\tLUCKY_TRANSPORT=grpc python train.py\n"}, 1),
        ({"lucky_transport.toml": 'endpoint = "grpc://10.0.0.7:1"\n'}, 1),
        ({"a.py": OWN + "import grpc\ngrpc.insecure_channel('localhost:1')\n"}, 1),
        ({"a.py": "import grpc\ns = grpc.server(None)\ns.add_insecure_port('[::]:1')\n"}, 1),
        ({"a.py": "def bind(s):\n    s.add_insecure_port('[::]:1')\n"}, 1),
        ({"a.py": "from luckyrobots import LuckyEnv\nLuckyEnv()\n"}, 1),
        ({"a.py": "import grpclib.client\ngrpclib.client.Channel()\n"}, 1),
        ({"a.py": "import grpc\n("}, 1),
    ],
)
def test_the_gate_of_the_wire_opens_for_a_service_of_ones_own(tree: Any, files: dict[str, str], code: int) -> None:
    root = str(tree(files))
    done = run(root, "--gate", "wire")
    assert done.exit_code == code, done.output
    assert json.loads(run(root, "--json").output)["nothing_on_wire"] == (not code)
    assert run(root, "--gate", "package").exit_code == 1


def test_a_fix_takes_places_off_the_wire_and_adds_none(tree: Any) -> None:
    before = """import grpc
import weather_pb2_grpc

stub = weather_pb2_grpc.WeatherStub(grpc.insecure_channel("localhost:50051"))
other = weather_pb2_grpc.WeatherStub(grpc.insecure_channel("localhost:50051"))
try:
    stub.GetForecast(None)
except grpc.RpcError:
    raise
"""
    done = run(str(tree({"a.py": before})), "--diff")
    lines = [re.findall(r"\d+", line)[:4] for line in done.output.splitlines() if "Left of gRPC" in line]
    (places, _, wire, _), (first, _, first_wire, _) = ([int(number) for number in line] for line in lines)
    assert places <= first
    assert (first_wire > 0, wire) == (True, 0)


@pytest.mark.parametrize(("answer", "changed"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_fix_shows_the_diff_and_asks(tree: Any, answer: str, changed: bool) -> None:
    root: Path = tree({"a.py": TRAIN})
    done = run(str(root), "--fix", answer=answer)
    assert "-from luckyrobots import LuckyEnv\n" in done.output
    assert "After this: Nothing of gRPC is left in 1 file." in done.output
    assert ((root / "a.py").read_text() != TRAIN) == changed


def test_a_fix_with_yes_does_not_ask_and_opens_the_gate(tree: Any) -> None:
    root: Path = tree({"a.py": TRAIN, "requirements.txt": "luckyrobots\n"})
    assert run(str(root), "--fix", "--yes", "--endpoint", "shm://demo", "--gate", "package").exit_code == 0
    assert (root / "a.py").read_text() == (
        "from lucky_transport import LuckyEnv\nenv = LuckyEnv(robot='a', endpoint=\"shm://demo\")\n"
    )
    assert (root / "requirements.txt").read_text() == "lucky-transport\n"
    again = run(str(root), "--fix")
    assert "No rule rewrites anything here." in again.output


def test_a_fix_follows_the_configured_map(tree: Any) -> None:
    program = "import grpc\nc = grpc.insecure_channel('robot.lab:9000')\n"
    files = {"app/a.py": program, "lucky_transport.toml": "grpc_map = 'robot.lab:9000=shm://robot'\n"}
    done = run(str(tree(files) / "app"), "--diff")
    assert '+c = lucky_transport_stubs.channel("shm://robot")' in done.output
    assert "shm://other" in run(str(tree(files)), "--diff", "--target", "*.lab:*=shm://other").output


def test_a_diff_writes_nothing(tree: Any) -> None:
    root: Path = tree({"a.py": TRAIN})
    assert "+from lucky_transport import LuckyEnv\n" in run(str(root), "--diff").output
    plain = json.loads(run(str(root), "--fix", "--diff", "--json").output)
    assert [one["path"] for one in plain["changed"]] == ["a.py"]
    assert plain["findings"]
    assert (root / "a.py").read_text() == TRAIN


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fix", "--json"], "cannot ask; add --yes"),
        (["--fix", "--endpoint", "nowhere"], "nowhere"),
        (["--fix", "--target", "h:1=grpc://h:1"], "is not an endpoint shm://NAME"),
        (["/no/such/folder"], "does not exist"),
    ],
)
def test_wrong_arguments_are_named(tree: Any, arguments: list[str], complaint: str) -> None:
    root = [] if arguments[0].startswith("/") else [str(tree({}))]
    done = run(*root, *arguments)
    assert done.exit_code != 0
    assert complaint in done.output


@pytest.mark.parametrize(("module", "arguments"), [("tomlkit", []), ("libcst", ["--diff"])])
def test_without_the_extra_the_error_names_the_remedy(
    tree: Any, monkeypatch: pytest.MonkeyPatch, module: str, arguments: list[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("lucky_transport_migration.scan")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    done = run(str(tree({"a.py": "import grpc\n"})), *arguments)
    assert done.exit_code == 1
    assert "[scan]'" in done.output


def test_names_of_files_are_spelt_out(tree: Any) -> None:
    name = "a\n\x1b[31m[bold].py"
    root = tree({name: "import grpc\n", f"b{name}": "import grpc\n(", "d\n/c_pb2_grpc.py": ""})
    shown = r"a\n\x1b[31m[bold].py"
    lines = run(str(root)).output.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == [shown, f"b{shown}", r"d\n/c_pb2_grpc.py"]
    assert len(lines) == 4
