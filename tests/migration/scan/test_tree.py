"""What a tree of files is, what no one can switch in it, and `lucky-transport scan` as a user types it."""

import ast
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lucky_transport_migration.scan import scanner
from lucky_transport_migration.scan.scanner import scan, scan_again
from lucky_transport_stubs.run.activation import BOOTSTRAP
from tests.support.command import invoke, output_of


def test_a_loop_of_links_ends_and_a_file_is_read_once(tree: Any) -> None:
    root = tree({"a/b/c.py": "import grpc\n"})
    (root / "a/b/loop").symlink_to(root)
    (root / "z.py").symlink_to(root / "a/b/c.py")
    (root / "broken.py").symlink_to(root / "nowhere")
    assert [one.path for one in scan(root).findings] == ["a/b/c.py"]


def test_pipes_are_not_waited_for(tree: Any) -> None:
    root = tree({"a.py": "import grpc\n"})
    os.mkfifo(root / "pipe.py")
    assert len(scan(root).findings) == 1
    assert scan(root / "pipe.py").files == 0


def test_what_others_wrote_is_passed_over(tree: Any) -> None:
    text = "import grpc\n"
    folders = (".git", "node_modules", ".venv/lib", "x/__pycache__", "lib/site-packages/p", "a.egg-info")
    root = tree({f"{folder}/a.py": text for folder in folders} | {".venv/pyvenv.cfg": "", ".ci/a.py": text})
    assert [one.path for one in scan(root).findings] == [".ci/a.py"]


def test_a_single_file_goes_by_its_name(tree: Any) -> None:
    root = tree({"a/b.py": "import grpc\n"})
    assert [one.path for one in scan(root / "a/b.py").findings] == ["b.py"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfimport grpc\r\nx = 1\r\n",
        "# -*- coding: latin-1 -*-\nimport grpc  # \xe4\n".encode("latin-1"),
        b"import grpc",
        b"\timport grpc\n".lstrip(),
        b"import grpc\x0c\n",
    ],
)
def test_source_of_every_encoding_and_line_end_is_read(tree: Any, content: bytes) -> None:
    result = scan(tree({"a.py": content}))
    assert [one.symbol for one in result.findings] == ["grpc"]
    assert result.unread == []


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"import grpc\nprint 'python 2'\n", 2, "is no Python 3"),
        (b"import grpc\nx = '\xff\xfe'\n", 2, "is no Python 3"),
        (b"import grpc\0", 1, "is no Python 3"),
        (b"# coding: klingon\nimport grpc\n", 1, "is no Python 3"),
        (b"import grpc\nx = " + b"(" * 5000 + b")" * 5000, 2, "is no Python 3: too many nested parentheses"),
        (b"import grpc\nx = " + b"1+" * 30000 + b"1", 1, "nests too deeply"),
        (b"import grpc\nx = " + b"-" * 50000 + b"1", 1, "nests too deeply"),
    ],
)
def test_a_file_that_is_no_python_is_reported_with_its_line_and_holds_up_the_gate(
    tree: Any, content: bytes, line: int, why: str
) -> None:
    result = scan(tree({"a.py": content, "b.py": "import grpc"}))
    assert [one.path for one in result.findings] == ["b.py"]
    (unread,) = result.unread
    assert (unread.path, why in unread.why) == ("a.py", True)
    assert unread.line == line
    assert not result.nothing_left


def test_a_broken_file_without_a_word_of_grpc_is_no_matter(tree: Any) -> None:
    assert scan(tree({"a.py": "print 'python 2'\n", "b.ipynb": "{", "pyproject.toml": "]"})).nothing_left


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.ipynb", "is a notebook, which may hold gRPC and is not read: export it as .py"),
        ("pyproject.toml", "is no TOML"),
    ],
)
def test_a_file_of_another_kind_that_is_not_understood_is_reported(tree: Any, name: str, why: str) -> None:
    (unread,) = scan(tree({name: "{ grpcio"})).unread
    assert why in unread.why


def test_a_file_without_a_trace_is_never_parsed(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr(scanner, "places_in", lambda source: parsed.append(source) or [])
    names: list[str] = []
    scan(tree({"a.py": "import os\n", "b.py": "import grpc\n"}), names.append)
    assert parsed == [b"import grpc\n"]
    assert names == ["a.py", "b.py"]


def test_a_huge_file_is_reported_when_it_may_hold_grpc(tree: Any) -> None:
    big = b"x = 1\n" * 800_000
    result = scan(tree({"a.py": b"import grpc\n" + big, "b.py": big}))
    assert [(one.path, one.why) for one in result.unread] == [("a.py", "is longer than 4 MiB")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_reported(tree: Any) -> None:
    root = tree({"a.py": "import grpc", "secret/b.py": "import grpc"})
    (root / "a.py").chmod(0)
    (root / "secret").chmod(0)
    try:
        assert sorted(one.path for one in scan(root).unread) == ["a.py", "secret"]
    finally:
        (root / "secret").chmod(0o700)


def test_a_folder_that_cannot_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> Any:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    (unread,) = scan(tmp_path).unread
    assert "cannot be listed: Permission denied" in unread.why


EVERYTHING = {
    "app/client.py": "import grpc\nfrom g_pb2_grpc import GreeterStub\nGreeterStub(grpc.insecure_channel('h:1'))\n",
    "app/server.py": "import grpc\nimport g_pb2_grpc as g\nclass G(g.GreeterServicer): ...\ngrpc.server(pool)\n"
    "class I(grpc.ServerInterceptor): ...\n",
    "app/train.py": "from luckyrobots import LuckyEnv\nLuckyEnv()\n",
    "requirements.txt": "grpcio\n",
    "Makefile": "x:\n\tpython -m grpc_tools.protoc\n",
    "g_pb2_grpc.py": "import grpc",
}


KINDS = {"import", "channel", "stub", "server", "servicer", "interceptor", "dependency", "build"}


def test_json_has_the_fixed_names(tree: Any) -> None:
    plain = json.loads(json.dumps(scan(tree(EVERYTHING)).plain()))
    for finding in plain["findings"]:
        assert {"path", "line", "kind", "symbol", "level"} <= set(finding)
        assert finding["level"] in (1, 2, 3)
    assert {finding["kind"] for finding in plain["findings"]} == KINDS
    assert plain["generated"] == {"files": 1, "stubs": 1, "paths": ["g_pb2_grpc.py"]}


def test_findings_are_in_the_order_of_files_and_lines(tree: Any) -> None:
    places = [(one.path, one.line) for one in scan(tree(EVERYTHING)).findings]
    assert places == sorted(places)


@pytest.mark.parametrize("left", [{name: text} for name, text in EVERYTHING.items()])
def test_each_kind_of_thing_left_is_enough_for_something_to_be_left(tree: Any, left: dict[str, str]) -> None:
    result = scan(tree(left | {"clean.py": "import lucky_transport\n"}))
    assert not result.nothing_left
    assert result.sentence.startswith("Left of gRPC: ")


def test_a_drop_in_still_needs_grpc_installed(tree: Any) -> None:
    result = scan(tree({"a.py": "import lucky_transport_stubs\nlucky_transport_stubs.channel('shm://demo')\n"}))
    assert [(one.kind, one.wire) for one in result.findings] == [("channel", False)]
    assert result.nothing_on_wire
    assert not result.nothing_left


def test_the_sentence_counts_kinds_and_levels(tree: Any) -> None:
    sentence = scan(tree(EVERYTHING)).sentence
    assert sentence == (
        "Left of gRPC: 13 places in 5 files, 3 on its wire and 10 that need its package "
        "(5 imports, 2 channels and targets, 1 stub, 1 server, 1 servicer, 1 interceptor, "
        "1 dependency, 1 build step); 9 at level 1, 2 at level 2, 2 at level 3; "
        "1 generated file (1 with stubs)."
    )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import ray\n", [(1, "ray")]),
        ("import os\nfrom ray import serve\n", [(2, "ray")]),
        ("import reverb.client as c\nimport launchpad as lp\n", [(1, "reverb"), (2, "launchpad")]),
        ("import jax\njax.distributed.initialize('host:1', 2, 0)\n", [(2, "jax.distributed.initialize")]),
        ("from jax import distributed as d\nd.initialize()\n", [(2, "jax.distributed.initialize")]),
        ("import tensorflow as tf\ntf.distribute.Server({})\n", [(2, "tensorflow.distribute.Server")]),
        (
            "import tensorflow as tf\ntf.data.experimental.service.DispatchServer()\n",
            [(2, "tensorflow.data.experimental.service")],
        ),
        ("from pinecone.grpc import PineconeGRPC\nPineconeGRPC()\n", [(2, "pinecone.grpc")]),
        ("from pinecone import Pinecone\nPinecone()\n", []),
        ("import jax\njax.jit(len)\nimport tensorflow as tf\ntf.constant(1)\n", []),
        ('"""\nimport ray\n"""\nfrom .ray import beam\nimport arrays\n', []),
        ("import ray(\n", []),
    ],
)
def test_what_no_one_can_switch_is_found(tree: Any, source: str, found: list[tuple[int, str]]) -> None:
    result = scan(tree({"a.py": source}))
    assert [(one.line, one.symbol) for one in result.unmoved] == found
    assert result.nothing_left or result.unread
    assert result.plain()["unmoved"] == [one.plain() for one in result.unmoved]


def test_it_is_shown_with_the_reason(tree: Any) -> None:
    shown = invoke("scan", str(tree({"a.py": "import ray\n"}))).output
    assert "a.py:1: ray has a gRPC of its own in its wheel, between its nodes and workers, in C++;" in shown
    assert "Nothing of gRPC is left in 1 file." in shown


def test_a_changed_file_is_looked_at_again(tree: Any) -> None:
    result = scan(tree({"a.py": "import ray\n", "b.py": "import reverb\n"}))
    after = scan_again(result, {"b.py": b"import courier\n"})
    assert [(one.path, one.symbol) for one in after.unmoved] == [("a.py", "ray"), ("b.py", "courier")]


LIMITS = Path(__file__).parents[3] / "docs" / "reference" / "limits.md"
#: What the page of limits says of each package whose gRPC stays: name -> whether `run` names its processes.
UNMOVED = {
    name: row.endswith("| yes |")
    for row in LIMITS.read_text(encoding="utf-8").partition("| package |")[2].partition("\n\n")[0].splitlines()[2:]
    for name in re.findall(r"`([\w.]+)`", row.split("|")[1])
}


@pytest.mark.parametrize("name", UNMOVED)
def test_scan_finds_what_the_page_of_limits_names(tree: Any, name: str) -> None:
    result = scan(tree({"a.py": f"import {name}\n{name}.Client()\n"}))
    assert {one.symbol for one in (*result.unmoved, *result.findings)} == {name}


def test_run_names_the_modules_of_the_page() -> None:
    bootstrap = ast.parse(Path(BOOTSTRAP, "sitecustomize.py").read_text(encoding="utf-8"))
    (named,) = (
        node.value
        for node in bootstrap.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_OTHERS"
    )
    names = [element.value for element in ast.walk(named) if isinstance(element, ast.Constant)]
    assert sorted(map(str, names)) == sorted(name for name, is_named in UNMOVED.items() if is_named)


TRAIN = "from luckyrobots import LuckyEnv\nenv = LuckyEnv(robot='a', port=50051)\n"


def run(*arguments: str, answer: str = "") -> Result:
    done = invoke("scan", *arguments, input=answer)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_a_finding_is_one_line_in_a_pipe(tree: Any) -> None:
    first, last = output_of(run(str(tree({"a.py": "import grpc\n"})))).splitlines()
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


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"a.py": "import grpc\n"}, 1),
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
    assert "[scan]'" in output_of(run(str(tree({"a.py": "import grpc\n"})), *arguments), 1)


def test_names_of_files_are_spelt_out(tree: Any) -> None:
    name = "a\n\x1b[31m[bold].py"
    root = tree({name: "import grpc\n", f"b{name}": "import grpc\n(", "d\n/c_pb2_grpc.py": ""})
    shown = r"a\n\x1b[31m[bold].py"
    lines = run(str(root)).output.splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == [shown, f"b{shown}", r"d\n/c_pb2_grpc.py"]
    assert len(lines) == 4
