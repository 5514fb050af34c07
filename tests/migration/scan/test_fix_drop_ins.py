"""Channels and servers become drop-ins; what cannot be known is left, with the reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport_migration.scan.changes import rewrite_python


def rewritten(source: str, endpoint: str | None = None) -> str:
    after, _ = rewrite_python(source.encode(), endpoint)
    assert rewrite_python(after, endpoint)[0] == after, "a second time changes nothing"
    return after.decode()


@pytest.mark.parametrize(
    ("call", "endpoint", "expected"),
    [
        ("grpc.insecure_channel('localhost:50051')", None, "lucky_transport_stubs.channel()"),
        ("grpc.insecure_channel( '[::]:50051', )", None, "lucky_transport_stubs.channel( )"),
        ("grpc.insecure_channel('127.0.0.1:50051', [])", None, "lucky_transport_stubs.channel(None, [])"),
        ("grpc.insecure_channel(target='127.0.0.1:50051')", None, "lucky_transport_stubs.channel()"),
        ("grpc.insecure_channel('localhost:50051', options=o)", "shm://a",
         'lucky_transport_stubs.channel("shm://a", options=o)'),
        ("grpc.insecure_channel(options=o, target='dns:///localhost:50051')", "shm://a",
         'lucky_transport_stubs.channel(options=o, endpoint="shm://a")'),
        ("grpc.aio.insecure_channel('localhost:' '50051')", "shm://a", 'lucky_transport_stubs.aio_channel("shm://a")'),
    ],
)  # fmt: skip
def test_a_channel_becomes_a_drop_in(call: str, endpoint: str | None, expected: str) -> None:
    assert rewritten(f"import grpc\n\nc = {call}\n", endpoint) == f"import lucky_transport_stubs\n\nc = {expected}\n"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import grpc\ngrpc.insecure_channel('robot.lab:443')\n", "say so with --target robot.lab:443"),
        ("import grpc\ngrpc.insecure_channel(target)\n", "not a constant"),
        ("import grpc\ngrpc.insecure_channel(*arguments)\n", "the target is not to be seen"),
        ("import grpc\ngrpc.secure_channel(t, c)\n", "has credentials"),
        ("import grpc\npool.map(grpc.insecure_channel, targets)\n", "passed on as a value"),
        ("import grpc\nmake = grpc.aio.insecure_channel\n", "passed on as a value"),
        ("import grpc\nstart(grpc.server)\n", "passed on as a value"),
        ("import grpc\npartial(grpc.insecure_channel, 'localhost:50051')\n", "passed on as a value"),
        (
            "import grpc\ns = grpc.server(pool); s.add_insecure_port('[::]:50051')\n",
            "say so with --endpoint shm://NAME",
        ),
    ],
)
def test_what_cannot_be_known_is_left_with_the_reason(source: str, why: str) -> None:
    after, refused = rewrite_python(source.encode(), None)
    assert after.decode() == source
    assert [(line, why in text) for line, text in refused] == [(2, True)]


#: Targets as programs spell them, and whether they are known to be the engine's.
TARGETS = [
    ("'localhost:50051'", True),
    ("'metrics.lab:9000'", False),
    ("'robot.lab:50051'", False),
    ("'localhost:9000'", False),
    ("'unix:/run/metrics.sock'", False),
    ("'unix:///run/metrics.sock'", False),
    ("'unix-abstract:metrics'", False),
    ("ENGINE", True),
    ("METRICS", False),
    ("f'{HOST}:50051'", False),
    ("HOST + ':50051'", False),
    ("'local' 'host:50051'", True),
    ("TWICE", False),
    ("GROWN", False),
    ("os.environ['TARGET']", False),
    ("os.environ.get('TARGET', 'localhost:50051')", False),
    ("parameter", False),
    ("LOOP", False),
    ("LOOP_OF_NAMES", False),
]

CONSTANTS = """
import os
import grpc
HOST = "localhost"
ENGINE = "localhost:50051"
METRICS = "metrics.lab:9000"
TWICE = "localhost:50051"
TWICE = os.environ.get("TARGET", TWICE)
GROWN = "localhost:5005"
GROWN += "1"
LOOP_OF_NAMES = LOOP_OF_NAMES
for LOOP in ("localhost:50051",):
    pass
"""


@pytest.mark.parametrize("endpoint", [None, "shm://demo"])
@pytest.mark.parametrize(("target", "is_engine"), TARGETS)
def test_only_what_is_known_to_be_the_engines_is_rewritten(target: str, is_engine: bool, endpoint: str | None) -> None:
    source = f"{CONSTANTS}def f(parameter='localhost:50051'):\n    return grpc.insecure_channel({target})\n"
    after, refused = rewrite_python(source.encode(), endpoint)
    assert (b"lucky_transport_stubs.channel" in after) is is_engine
    assert bool(refused) is not is_engine, "what is left is listed"
    if not is_engine:
        assert after.decode() == source
        assert any("is not known to be the engine" in why or "not a constant" in why for _, why in refused)


@pytest.mark.parametrize("target", ["robot.lab:9000", "unix:/run/engine.sock"])
def test_a_target_that_the_user_names_is_the_engines(target: str) -> None:
    source = f"import grpc\na = grpc.insecure_channel('{target}')\nb = grpc.insecure_channel('other:1')\n"
    after, refused = rewrite_python(source.encode(), "shm://demo", (target,))
    assert b'a = lucky_transport_stubs.channel("shm://demo")' in after
    assert b"b = grpc.insecure_channel('other:1')" in after
    assert [line for line, _ in refused] == [3]


def test_a_target_that_is_no_constant_is_named_as_the_program_spells_it() -> None:
    source = b"import grpc\na = grpc.insecure_channel(options.address)\nb = grpc.insecure_channel(other)\n"
    after, refused = rewrite_python(source, "shm://demo", ("options.address",))
    assert b'a = lucky_transport_stubs.channel("shm://demo")' in after
    assert [(line, "--target other" in why) for line, why in refused] == [(3, True)]


def test_a_port_that_is_no_constant_is_named_as_the_program_spells_it() -> None:
    source = b"from luckyrobots import LuckyEnv\ne = LuckyEnv(robot='a', port=port)\n"
    assert rewrite_python(source, "shm://demo")[0] == source
    assert b"endpoint='shm://demo'" in rewrite_python(source, "shm://demo", ("localhost:port",))[0].replace(b'"', b"'")


@pytest.mark.parametrize("address", ["'0.0.0.0:9000'", "'unix:/run/metrics.sock'", "address"])
def test_a_server_at_another_port_stays_on_grpc(address: str) -> None:
    source = f"import grpc\ns = grpc.server(pool)\ns.add_insecure_port({address})\n"
    after, refused = rewrite_python(source.encode(), "shm://demo")
    assert after.decode() == source
    assert len(refused) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from luckyrobots import LuckyEnv\ne = LuckyEnv(robot='a', host='robot.lab')\n",
        "from luckyrobots import LuckyEnv\ne = LuckyEnv(robot='a', port=port)\n",
        "from luckyrobots import LuckyEngineClient\nc = LuckyEngineClient('robot.lab', 50051)\nc.get_agent_schema()\n",
        "from luckyrobots import LuckyEngineClient\nc = LuckyEngineClient(port=9000)\nc.get_agent_schema()\n",
    ],
)
def test_luckyrobots_at_another_place_is_left_too(source: str) -> None:
    after, refused = rewrite_python(source.encode(), "shm://demo")
    assert after.decode() == source
    assert refused
    if "'robot.lab'" in source:
        assert b"shm://demo" in rewrite_python(source.encode(), "shm://demo", ("robot.lab:50051",))[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import grpc  # rpc\nimport os\n", "import lucky_transport_stubs  # rpc\nimport os\n"),
        ("import os, grpc\n", "import os\nimport lucky_transport_stubs\n"),
        ("'''doc'''\nfrom __future__ import annotations\nimport grpc\n",
         "'''doc'''\nfrom __future__ import annotations\nimport lucky_transport_stubs\n"),
        ("import grpc\nimport lucky_transport_stubs\n", "import lucky_transport_stubs\n"),
        ("import grpc\nE = grpc.RpcError\n", "import grpc\nimport lucky_transport_stubs\nE = grpc.RpcError\n"),
    ],
)  # fmt: skip
def test_an_import_goes_when_its_last_use_does_and_what_is_around_it_stays(before: str, after: str) -> None:
    use, new = "c = grpc.insecure_channel('localhost:50051')\n", "c = lucky_transport_stubs.channel()\n"
    assert rewritten(before + use) == after + new


def test_imports_in_functions_stay_in_their_functions() -> None:
    source = "def f():\n    import grpc\n    return grpc.insecure_channel('localhost:50051')\n"
    expected = "def f():\n    import lucky_transport_stubs\n    return lucky_transport_stubs.channel()\n"
    assert rewritten(source + source) == expected + expected


def test_an_import_that_may_fail_keeps_its_fallback() -> None:
    source = (
        "try:\n    import grpc\nexcept ImportError:\n    grpc = None\n"
        "def f():\n    return grpc and grpc.insecure_channel('localhost:50051')\n"
    )
    compile(rewritten(source), "a.py", "exec")


def test_lines_that_no_rule_touches_keep_their_bytes() -> None:
    source = (
        b"# -*- coding: latin-1 -*-\r\nimport grpc\r\nx = {  'a':1 ,}  # \xe4\r\n"
        b"c = grpc.insecure_channel('localhost:50051')\r\n\r\n\r\n"
    )
    after, _ = rewrite_python(source, None)
    kept = [line for line in source.splitlines(keepends=True) if b"grpc" not in line]
    assert [line for line in after.splitlines(keepends=True) if b"lucky" not in line] == kept


PROGRAM = """
import grpc

def serve(pool, handler):
    server = grpc.server(pool)
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port("[::]:50051")
    server.start()
    return server

def call(request):
    with grpc.insecure_channel("localhost:50051") as channel:
        return channel.unary_unary("/a.B/Echo")(request, timeout=10)
"""


def test_a_rewritten_server_and_client_talk_over_shared_memory() -> None:
    grpc: Any = pytest.importorskip("grpc")
    handler = grpc.method_handlers_generic_handler(
        "a.B", {"Echo": grpc.unary_unary_rpc_method_handler(lambda request, _: request * 2)}
    )
    program: dict[str, Any] = {}
    source = rewritten(PROGRAM, f"shm://{unique_name()}")
    assert "grpc" not in source
    exec(compile(source, "program.py", "exec"), program)
    with ThreadPoolExecutor(2) as pool:
        server = program["serve"](pool, handler)
        try:
            assert program["call"](b"ab") == b"abab"
        finally:
            server.stop(0).wait(10)


@pytest.mark.parametrize(
    "line",
    [
        "    server.add_insecure_port('[::]:1')",
        "    server.add_secure_port('[::]:1', c)",
        "    other = grpc.server(pool)",
    ],
)
def test_a_file_with_more_than_one_port_is_left(line: str) -> None:
    source = PROGRAM.replace("    server.start()", f"{line}\n    server.start()")
    after, refused = rewrite_python(source.encode(), "shm://a")
    assert b"grpc.server(pool)" in after
    assert any("a rule knows one of each" in why for _, why in refused)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("    server.add_insecure_port(", "    port = server.add_insecure_port(", ""),
        ("    server.add_insecure_port('[::]:50051')", "    print(server.add_insecure_port('[::]:50051'))",
         "used afterwards"),
        ("    server.start()", "    server.start(); print(port)", "used afterwards"),
        ("    server.add_insecure", "    for _ in range(1): server.add_insecure", "in a loop"),
        ("grpc.server(pool)", "grpc.server(pool, options=[('grpc.so_reuseport', 1)])", "several processes may share"),
        ("    server.add_insecure_port('[::]:50051')", "    server.add_secure_port('[::]:50051', c)",
         "has credentials"),
    ],
)  # fmt: skip
def test_a_port_that_a_name_cannot_stand_for_is_left(before: str, after: str, why: str) -> None:
    source = PROGRAM.replace('"', "'").replace(before, after)
    if "print(port)" in after:
        source = source.replace("    server.add_insecure_port(", "    port = server.add_insecure_port(")
    new, refused = rewrite_python(source.encode(), "shm://a")
    assert any(why in text for _, text in refused) or not why
    assert (new.decode() == source) == bool(why)


IMPORTS = "import multiprocessing, threading\nfrom concurrent.futures import ProcessPoolExecutor\n"


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("serve(pool, handler)", ""),
        ("threading.Thread(target=serve).start()", ""),
        ("multiprocessing.Process(target=serve).start()", ""),
        ("def main(): serve(pool, handler)\nmain()", ""),
        ("for _ in range(4): serve(pool, handler)", "in a loop"),
        ("servers = [serve(pool, handler) for _ in range(4)]", "in a loop"),
        ("def main(): serve(pool, handler)\nwhile again(): main()", "in a loop"),
        ("for _ in range(4): multiprocessing.Process(target=serve).start()", "in a loop"),
        ("a, b = multiprocessing.Process(target=serve), multiprocessing.Process(target=serve)", "several processes"),
        ("ProcessPoolExecutor().map(serve, pools)", "several processes"),
        ("def main(): serve(pool, handler)\nstart(main)", "several processes"),
    ],
)
def test_a_server_is_rewritten_when_its_function_runs_once(use: str, why: str) -> None:
    source = f"{IMPORTS}{PROGRAM}\n{use}\n"
    after, refused = rewrite_python(source.encode(), "shm://a")
    assert (after.decode() == source) == bool(why)
    assert not why or any(why in text for _, text in refused)


def test_a_method_that_serves_is_found_by_its_name() -> None:
    source = (
        "import grpc\nclass Host:\n    def serve(self, pool):\n        s = grpc.server(pool)\n"
        "        s.add_insecure_port('[::]:50051')\n"
        "    def start(self):\n        for pool in self.pools: self.serve(pool)\n"
    )
    after, refused = rewrite_python(source.encode(), "shm://a")
    assert after.decode() == source
    assert [(line, "in a loop" in why) for line, why in refused] == [(7, True)]


@pytest.mark.parametrize(("port", "stays"), [("'[::]:50051'", True), ("address", True), ("'[::]:9000'", False)])
def test_a_channel_stays_where_the_files_own_server_may_be_what_it_leads_to(port: str, stays: bool) -> None:
    source = PROGRAM.replace('"[::]:50051"', port).replace("    server.start()", "    other = grpc.server(pool)")
    after, refused = rewrite_python(source.encode(), "shm://a")
    assert (b"grpc.insecure_channel" in after) is stays
    assert stays == any("a server of this file stays on gRPC" in why for _, why in refused)


PAIRS = [
    "robot.lab:*=shm://robot",
    "unix:/run/engine.sock=shm://socket",
    "options.address=shm://spelt",
    "h:1",
    "f(x=1)",
    "g(x=1)=shm://g",
]


@pytest.mark.parametrize(
    ("target", "endpoint"),
    [
        ("'robot.lab:9000'", "shm://robot"),
        ("'dns:///robot.lab:1'", "shm://robot"),
        ("'unix:///run/engine.sock'", "shm://socket"),
        ("options.address", "shm://spelt"),
        ("f(x=1)", "shm://default"),
        ("g(x=1)", "shm://g"),
        ("'h:1'", "shm://default"),
        ("'localhost:50051'", "shm://default"),
        ("'mapped:1'", "shm://mapped"),
        ("':50051'", "shm://default"),
        ("'served:1'", None),
        ("'unix:/run/other.sock'", None),
        ("'other.lab:9000'", None),
    ],
)
def test_a_target_is_found_where_the_user_or_the_configuration_says(target: str, endpoint: str | None) -> None:
    source = f"import grpc\nc = grpc.insecure_channel({target})\n".encode()
    after, refused = rewrite_python(
        source, "shm://default", PAIRS, ["mapped:*=shm://mapped"], ["served:1=shm://served"]
    )
    if endpoint is None:
        assert after == source
        assert [line for line, _ in refused] == [2]
    else:
        assert f'c = lucky_transport_stubs.channel("{endpoint}")' in after.decode()


@pytest.mark.parametrize("address", ["served:1", "mapped:1", "robot.lab:1"])
def test_a_port_is_found_where_the_maps_say(address: str) -> None:
    source = f"import grpc\ns = grpc.server(pool)\ns.add_insecure_port('{address}')\n".encode()
    after, refused = rewrite_python(source, None, PAIRS, ["mapped:*=shm://mapped"], ["served:1=shm://served"])
    assert refused == []
    assert f's.add_insecure_port("shm://{address.partition(".")[0].partition(":")[0]}")' in after.decode()


def test_luckyrobots_at_a_mapped_place_is_found_there() -> None:
    source = b"from luckyrobots import LuckyEnv\na = LuckyEnv(host='robot.lab', port=1)\nb = LuckyEnv()\n"
    after, _ = rewrite_python(source, None, PAIRS)
    assert after.endswith(b'a = LuckyEnv(endpoint="shm://robot")\nb = LuckyEnv()\n')
