"""Channels, servers and luckyrobots' classes become ours where that is mechanical; what cannot be known is left."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from lucky_transport_migration.scan.changes import rewrite_python


def rewritten(source: str, endpoint: str | None = None) -> str:
    after, refused = rewrite_python(source.encode(), endpoint)
    assert refused == []
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


#: What stands behind the import, and why it stays.
LEFT = {
    "import grpc": [
        ("grpc.insecure_channel('robot.lab:443')", "say so with --target robot.lab:443"),
        ("grpc.insecure_channel(target)", "not a constant"),
        ("grpc.insecure_channel(*arguments)", "the target is not to be seen"),
        ("grpc.secure_channel(t, c)", "has credentials"),
        ("pool.map(grpc.insecure_channel, targets)", "passed on as a value"),
        ("make = grpc.aio.insecure_channel", "passed on as a value"),
        ("start(grpc.server)", "passed on as a value"),
        ("partial(grpc.insecure_channel, 'localhost:50051')", "passed on as a value"),
        ("s = grpc.server(pool); s.add_insecure_port('[::]:50051')", "say so with --endpoint shm://NAME"),
    ],
    "from luckyrobots import LuckyEnv": [
        ("LuckyEnv(**options)", "pass them by name"),
        ("LuckyEnv('a', 'b', None, None, None, None, 'host')", "pass them by name"),
        ("class Mine(LuckyEnv): ...", "derives from LuckyEnv"),
        ("make = partial(LuckyEnv, robot='a')", "passed on as a value"),
        ("envs = list(map(LuckyEnv, robots))", "passed on as a value"),
        ("LuckyEnv()._client.get_mujoco_info()", "connect() has its calls"),
    ],
}


@pytest.mark.parametrize(("head", "use", "why"), [(head, *row) for head, rows in LEFT.items() for row in rows])
def test_what_cannot_be_known_or_is_not_mechanical_is_left_with_the_reason(head: str, use: str, why: str) -> None:
    source = f"{head}\n{use}\n"
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


BIND = '    server.add_insecure_port("[::]:50051")'


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (BIND, f"{BIND}\n    server.add_insecure_port('[::]:1')", "a rule knows one of each"),
        (BIND, f"{BIND}\n    server.add_secure_port('[::]:1', c)", "a rule knows one of each"),
        (BIND, f"{BIND}\n    other = grpc.server(pool)", "a rule knows one of each"),
        (BIND, f"    port = {BIND.strip()}", ""),
        (BIND, f"    print({BIND.strip()})", "used afterwards"),
        (BIND, f"    port = {BIND.strip()}; print(port)", "used afterwards"),
        (BIND, f"    for _ in range(1): {BIND.strip()}", "in a loop"),
        (BIND, "    server.add_secure_port('[::]:50051', c)", "has credentials"),
        ("grpc.server(pool)", "grpc.server(pool, options=[('grpc.so_reuseport', 1)])", "several processes may share"),
        ("", "serve(pool, handler)", ""),
        ("", "threading.Thread(target=serve).start()", ""),
        ("", "multiprocessing.Process(target=serve).start()", ""),
        ("", "def main(): serve(pool, handler)\nmain()", ""),
        ("", "for _ in range(4): serve(pool, handler)", "in a loop"),
        ("", "servers = [serve(pool, handler) for _ in range(4)]", "in a loop"),
        ("", "def main(): serve(pool, handler)\nwhile again(): main()", "in a loop"),
        ("", "for _ in range(4): multiprocessing.Process(target=serve).start()", "in a loop"),
        (
            "",
            "a, b = multiprocessing.Process(target=serve), multiprocessing.Process(target=serve)",
            "several processes",
        ),
        ("", "ProcessPoolExecutor().map(serve, pools)", "several processes"),
        ("", "def main(): serve(pool, handler)\nstart(main)", "several processes"),
        ("", "class Host:\n    def start(self):\n        for pool in self.pools: self.serve(pool)", "in a loop"),
    ],
)
def test_a_server_with_one_port_that_is_made_once_is_rewritten(before: str, after: str, why: str) -> None:
    head = "import multiprocessing, threading\nfrom concurrent.futures import ProcessPoolExecutor\n"
    program = PROGRAM.replace(before, after) if before else f"{PROGRAM}\n{after}\n"
    new, refused = rewrite_python(f"{head}{program}".encode(), "shm://a")
    assert (b"grpc.server(" in new) == bool(why)
    assert not why or any(why in text for _, text in refused)


@pytest.mark.parametrize(("port", "stays"), [("'[::]:50051'", True), ("address", True), ("'[::]:9000'", False)])
def test_a_channel_stays_where_the_files_own_server_may_be_what_it_leads_to(port: str, stays: bool) -> None:
    source = PROGRAM.replace('"[::]:50051"', port).replace("    server.start()", "    other = grpc.server(pool)")
    after, refused = rewrite_python(source.encode(), "shm://a")
    assert (b"grpc.insecure_channel" in after) is stays
    assert stays == any("a server of this file stays on gRPC" in why for _, why in refused)


#: What the user names: patterns, addresses, expressions as the program spells them; some with an endpoint of their own.
NAMED = ["robot.lab:*=shm://robot", "unix:/run/engine.sock=shm://socket", "options.address=shm://spelt"]
NAMED += ["localhost:port", "h:1", "f(x=1)", "g(x=1)=shm://g"]


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("c = grpc.insecure_channel('robot.lab:9000')", 'c = lucky_transport_stubs.channel("shm://robot")'),
        ("c = grpc.insecure_channel('dns:///robot.lab:1')", 'c = lucky_transport_stubs.channel("shm://robot")'),
        ("c = grpc.insecure_channel('unix:///run/engine.sock')", 'c = lucky_transport_stubs.channel("shm://socket")'),
        ("c = grpc.insecure_channel(options.address)", 'c = lucky_transport_stubs.channel("shm://spelt")'),
        ("c = grpc.insecure_channel(f(x=1))", 'c = lucky_transport_stubs.channel("shm://default")'),
        ("c = grpc.insecure_channel(g(x=1))", 'c = lucky_transport_stubs.channel("shm://g")'),
        ("c = grpc.insecure_channel('h:1')", 'c = lucky_transport_stubs.channel("shm://default")'),
        ("c = grpc.insecure_channel('localhost:50051')", 'c = lucky_transport_stubs.channel("shm://default")'),
        ("c = grpc.insecure_channel(':50051')", 'c = lucky_transport_stubs.channel("shm://default")'),
        ("c = grpc.insecure_channel('mapped:1')", 'c = lucky_transport_stubs.channel("shm://mapped")'),
        ("c = grpc.insecure_channel('served:1')", ""),
        ("c = grpc.insecure_channel('unix:/run/other.sock')", ""),
        ("c = grpc.insecure_channel('other.lab:9000')", ""),
        ("c = grpc.insecure_channel(other)", ""),
        ("s = grpc.server(pool); s.add_insecure_port('served:1')", 's.add_insecure_port("shm://served")'),
        ("s = grpc.server(pool); s.add_insecure_port('mapped:1')", 's.add_insecure_port("shm://mapped")'),
        ("s = grpc.server(pool); s.add_insecure_port('robot.lab:1')", 's.add_insecure_port("shm://robot")'),
        ("s = grpc.server(pool); s.add_insecure_port('0.0.0.0:9000')", ""),
        ("s = grpc.server(pool); s.add_insecure_port('unix:/run/metrics.sock')", ""),
        ("s = grpc.server(pool); s.add_insecure_port(address)", ""),
        ("e = LuckyEnv(host='robot.lab', port=1)", 'e = LuckyEnv(endpoint="shm://robot")'),
        ("e = LuckyEnv(robot='a', port=port)", "e = LuckyEnv(robot='a', endpoint=\"shm://default\")"),
        ("e = LuckyEnv(robot='a', host='other.lab')", ""),
        ("e = LuckyEnv(robot='a', port=other)", ""),
        ("c = LuckyEngineClient('other.lab', 50051)\nc.get_agent_schema()", ""),
        ("c = LuckyEngineClient(port=9000)\nc.get_agent_schema()", ""),
    ],
)
def test_a_target_is_found_where_the_user_or_the_configuration_says_and_nowhere_else(source: str, after: str) -> None:
    program = f"import grpc\nfrom luckyrobots import LuckyEngineClient, LuckyEnv\n{source}\n"
    new, refused = rewrite_python(
        program.encode(), "shm://default", NAMED, ["mapped:*=shm://mapped"], ["served:1=shm://served"]
    )
    assert (source in new.decode(), bool(refused)) == (not after, not after)
    assert after in new.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from luckyrobots import LuckyEnv\nLuckyEnv(robot='a', host='127.0.0.1', port=50051)\n",
         "from lucky_transport import LuckyEnv\nLuckyEnv(robot='a')\n"),
        ("from luckyrobots.lucky_env import LuckyEnv as Env  # env\nEnv('a', port=50051, timeout=1)\n",
         "from lucky_transport import LuckyEnv as Env  # env\nEnv('a', timeout=1)\n"),
        ("import luckyrobots\ndef f() -> luckyrobots.LuckyEnv:\n    return luckyrobots.LuckyEnv()\n",
         "from lucky_transport import LuckyEnv\ndef f() -> LuckyEnv:\n    return LuckyEnv()\n"),
        ("from luckyrobots import (\n    FPS,\n    LuckyEnv,\n)\nLuckyEnv()\n",
         "from luckyrobots import (\n    FPS,\n)\nfrom lucky_transport import LuckyEnv\nLuckyEnv()\n"),
        ("def f():\n    from luckyrobots import LuckyEnv\n    LuckyEnv(\n        robot='a', port=50051,\n    )\n",
         "def f():\n    from lucky_transport import LuckyEnv\n    LuckyEnv(\n        robot='a',\n    )\n"),
    ],
)  # fmt: skip
def test_an_env_is_taken_from_lucky_transport_without_grpcs_address(before: str, after: str) -> None:
    assert rewritten(before) == after


def test_an_env_gets_the_endpoint_that_was_given_in_a_line_of_its_own_where_the_others_have_one() -> None:
    use = "LuckyEnv(\n    robot='a',\n    port=50051,\n    timeout=2.0,\n)\nLuckyEnv()\n"
    assert rewritten(f"from luckyrobots import LuckyEnv\n{use}", "shm://a") == (
        "from lucky_transport import LuckyEnv\n"
        'LuckyEnv(\n    robot=\'a\',\n    timeout=2.0,\n    endpoint="shm://a",\n)\nLuckyEnv(endpoint="shm://a")\n'
    )


CLIENT = """
from luckyrobots import LuckyEngineClient

def main():
    client = LuckyEngineClient(host="localhost", port=50051, timeout=5.0)
    client.connect()
    client.wait_for_server(timeout=3)
    found = [
        client.get_agent_schema("agent_0", 2.0).schema.action_size,
        client.reset_agent(agent_name="agent_0", timeout=2.0).success,
        client.set_simulation_mode().success,
        len(client.get_joint_state("agent_0").state.positions),
    ]
    for frame in client.stream_telemetry():
        found.append(len(frame.observation_qpos))
        break
    client.close()
    return found
"""


def test_a_client_becomes_a_typed_one() -> None:
    assert rewritten(CLIENT, "shm://a") == (
        "\nimport lucky_transport\n\ndef main():\n"
        '    client = lucky_transport.connect("shm://a", command_timeout_s=5.0)\n'
        "    found = [\n"
        '        client.agent.get_schema("agent_0", timeout_s=2.0).schema.action_size,\n'
        '        client.agent.reset(agent_name="agent_0", timeout_s=2.0).success,\n'
        '        client.scene.set_simulation_mode(mode="fast").success,\n'
        '        len(client.mujoco.get_joint_state("agent_0").state.positions),\n'
        "    ]\n"
        "    for frame in client.telemetry.stream(target_fps=30):\n"
        "        found.append(len(frame.observation_qpos))\n        break\n    client.close()\n    return found\n"
    )


def test_every_rewritten_call_is_one_that_the_typed_client_has() -> None:
    pytest.importorskip("mujoco")
    program: dict[str, Any] = {}
    name = unique_name()
    source = CLIENT.replace("    client.close()", "    client.get_mujoco_info('agent_0')\n    client.get_model_info()\n"
                            "    client.reset_scene(True)\n    client.enter_play_mode()\n    client.exit_play_mode()\n"
                            "    client.close()")  # fmt: skip
    exec(compile(rewritten(source, f"inproc://{name}"), "program.py", "exec"), program)
    with lucky_transport.serve("mujoco:quadruped", f"inproc://{name}"):
        action_size, reset, mode, *_ = program["main"]()
    assert (action_size, reset, mode) == (12, True, True)


@pytest.mark.parametrize(
    "line",
    [
        *("class Mine(LuckyEngineClient): ...", "C = LuckyEngineClient", "f(LuckyEngineClient)"),
        *("self.client = LuckyEngineClient()", "use(LuckyEngineClient())", "c = LuckyEngineClient(robot_name='a')"),
        "client.step(actions=[0.0])",
        "keep(client)",
        "ok = client.wait_for_server()",
        "client.reset_agent(randomization_cfg=c)",
        "client.get_agent_schema(*a)",
        "client = None",
    ],
)
def test_a_client_that_cannot_be_followed_or_has_a_use_that_answers_otherwise_is_left_as_a_whole(line: str) -> None:
    made = "" if "LuckyEngineClient" in line else "client = LuckyEngineClient()\nclient.connect()\n"
    source = f"from luckyrobots import LuckyEngineClient\n{made}{line}\n"
    after, refused = rewrite_python(source.encode(), None)
    assert after.decode() == source
    assert len(refused) == 1
    assert made or refused[0][0] == 2


def test_an_env_that_only_types_name_is_rewritten() -> None:
    use = "def f(env: LuckyEnv | None, all: list[LuckyEnv]): return isinstance(env, LuckyEnv)\n"
    assert rewritten(f"from luckyrobots import LuckyEnv\n{use}") == f"from lucky_transport import LuckyEnv\n{use}"


def test_an_import_in_the_line_of_its_block_is_left_with_the_reason() -> None:
    source = b"if 1: import grpc; from luckyrobots import LuckyEnv as E\nE()\n"
    after, refused = rewrite_python(source, "shm://demo")
    assert after == source
    assert [(line, "line of its own" in why) for line, why in refused] == [(1, True)]
