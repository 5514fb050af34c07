"""What is found in Python source, of which kind, and which level fits."""

from typing import Any

import pytest

from lucky_transport_migration.scan.api_levels import judge
from lucky_transport_migration.scan.codemod import parse_concrete
from lucky_transport_migration.scan.known import may_mention
from lucky_transport_migration.scan.names import Unreadable
from lucky_transport_migration.scan.python import places_in


def find(source: str) -> list[Any]:
    assert may_mention(source.encode()) or not places_in(source), "what a scan would not even parse"
    return judge("a.py", places_in(source), steps=".Step(" in source)


def seen(source: str) -> list[tuple[int, str, str]]:
    return [(one.line, one.kind, one.symbol) for one in find(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import grpc", [(1, "import", "grpc")]),
        ("import grpc.aio as aio", [(1, "import", "grpc.aio")]),
        ("from grpc import StatusCode, aio", [(1, "import", "grpc.StatusCode"), (1, "import", "grpc.aio")]),
        ("from grpc import *", [(1, "import", "grpc")]),
        ("from grpc_health.v1 import health", [(1, "import", "grpc_health.v1.health")]),
        ("from protos import greeter_pb2_grpc", [(1, "import", "protos.greeter_pb2_grpc")]),
        ("from . import greeter_pb2_grpc", [(1, "import", ".greeter_pb2_grpc")]),
        ("import luckyrobots", [(1, "import", "luckyrobots")]),
        ("import importlib\nimportlib.import_module('grpc.aio')", [(2, "import", "grpc.aio")]),
        ("grpc = __import__('grpc')", [(1, "import", "grpc")]),
    ],
)
def test_imports_are_found_in_all_their_forms(source: str, expected: list[tuple[int, str, str]]) -> None:
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("call", "kind", "symbol"),
    [
        ("grpc.insecure_channel(x)", "channel", "grpc.insecure_channel"),
        ("rpc.secure_channel(x, c)", "channel", "grpc.secure_channel"),
        ("dial(x)", "channel", "grpc.insecure_channel"),
        ("grpc.aio.insecure_channel(x)", "channel", "grpc.aio.insecure_channel"),
        ("grpc.intercept_channel(c, i)", "channel", "grpc.intercept_channel"),
        ("grpc.server(pool)", "server", "grpc.server"),
        ("aio.server()", "server", "grpc.aio.server"),
        ("s.add_insecure_port('[::]:50051')", "server", "add_insecure_port"),
        ("self.server.add_secure_port(a, c)", "server", "add_secure_port"),
        ("pb.GreeterStub(c)", "stub", "protos.greeter_pb2_grpc.GreeterStub"),
        ("EchoStub(self.channel)", "stub", "protos.EchoStub"),
        ("pb.add_GreeterServicer_to_server(g, s)", "servicer", "protos.greeter_pb2_grpc.add_GreeterServicer_to_server"),
        ("protoc.main(['--grpc_python_out=.'])", "build", "grpc_tools.protoc.main"),
        ("drop_in.channel('shm://a')", "channel", "lucky_transport_stubs.channel"),
    ],
)
def test_calls_are_found_under_whatever_name(call: str, kind: str, symbol: str) -> None:
    head = (
        "import grpc\nimport grpc as rpc\nimport grpc.aio\nfrom grpc import aio, insecure_channel as dial\n"
        "from protos import greeter_pb2_grpc as pb, EchoStub\nfrom grpc_tools import protoc\n"
        "import lucky_transport_stubs as drop_in\n"
    )
    assert seen(f"{head}def f(x, c, s, self, g, i, pool, a):\n    return {call}\n")[-1] == (9, kind, symbol)


@pytest.mark.parametrize(
    "source",
    [
        "def insecure_channel(x): ...\ninsecure_channel('grpc')",
        "from .grpc import server\nserver()",
        "import grpc_utils_of_ours",
        "class MockStub: ...\nMockStub(1)  # grpc",
        "'''Connects to localhost:50051 by grpc://host.'''",
        "x = 500510, 150051, 5005",
        "log.info('grpc is slow; status of luckyrobots')",
        "headers = ('grpc-timeout', 'grpc-status')",
        "VERSIONS = {'grpcio': '1.60', 'grpcio>=1.60': 1}",
        "VERSIONS['grpcio']",
        "name == 'grpcio'",
        "importlib.metadata.version('grpcio')",
        "url.startswith('grpc://')",
        "url.removeprefix('grpc+unix://')",
        "SCHEMES = ('grpc://', 'shm://')",
        "f'\\x67rpc://{host}'",
        "from helloworld_pb2 import HelloRequest",
    ],
)
def test_what_only_looks_like_grpc_is_no_finding(source: str) -> None:
    assert seen(source) == []


@pytest.mark.parametrize(
    ("source", "symbol"),
    [
        ("TARGET = 'localhost:50051'", "localhost:50051"),
        ("f'{host}:50051'", "{}:50051"),
        ("connect('grpc://10.0.0.7:9000')", "grpc://10.0.0.7:9000"),
        ("f'grpc://{host}:{port}'", "grpc://{}"),
        ("url = 'grpc://' + host", "grpc://"),
        ("PORT = 50_051  # 50051", "port 50051"),
        ("def f(port=50051): ...", "port 50051"),
    ],
)
def test_targets_and_ports_are_found_where_no_call_holds_them(source: str, symbol: str) -> None:
    assert seen(source) == [(1, "channel", symbol)]


@pytest.mark.parametrize(
    ("use", "kind", "symbol"),
    [
        ("partial(grpc.insecure_channel, options=o)", "channel", "grpc.insecure_channel"),
        ("pool.map(dial, targets)", "channel", "grpc.insecure_channel"),
        ("dict(make=grpc.aio.secure_channel)", "channel", "grpc.aio.secure_channel"),
        ("[grpc.server]", "server", "grpc.server"),
        ("x if y else grpc.aio.server", "server", "grpc.aio.server"),
        ("Client(pb.EchoStub)", "stub", "protos.echo_pb2_grpc.EchoStub"),
        ("run(pb.add_EchoServicer_to_server)", "servicer", "protos.echo_pb2_grpc.add_EchoServicer_to_server"),
        ("partial(luckyrobots.LuckyEnv, robot='a')", "channel", "luckyrobots.LuckyEnv"),
        ("getattr(grpc, 'insecure_channel')", "channel", "grpc.insecure_channel"),
        ("getattr(grpc.aio, 'server')()", "server", "grpc.aio.server"),
        ("getattr(pb, 'EchoStub')(c)", "stub", "protos.echo_pb2_grpc.EchoStub"),
        ("patch.object(grpc, 'secure_channel', fake)", "channel", "grpc.secure_channel"),
    ],
)
def test_functions_and_classes_are_found_where_they_are_values(use: str, kind: str, symbol: str) -> None:
    head = (
        "import grpc, luckyrobots\nfrom grpc import insecure_channel as dial\nfrom protos import echo_pb2_grpc as pb\n"
    )
    assert seen(f"{head}x = {use}\n")[4:] == [(4, kind, symbol)]


@pytest.mark.parametrize(
    "use",
    ["x: luckyrobots.LuckyEnv | None = None", "def f(x: list[luckyrobots.LuckyEnv]) -> luckyrobots.LuckyEnv: ...",
     "isinstance(x, luckyrobots.LuckyEnv)", "issubclass(x, (luckyrobots.Session, int))", "y = grpc.StatusCode.OK",
     "getattr(grpc, name)", "getattr(grpc, 'StatusCode')"],
)  # fmt: skip
def test_what_only_names_a_type_is_no_finding_of_its_own(use: str) -> None:
    assert [kind for _, kind, _ in seen(f"import grpc, luckyrobots\n{use}\n")] == ["import", "import"]


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        ("pb.EchoStub", "stub"),
        ("grpc.Channel", "channel"),
        ("grpc.aio.Channel", "channel"),
        ("grpc.UnaryUnaryMultiCallable", "channel"),
        ("grpc.AuthMetadataPlugin", "channel"),
        ("luckyrobots.AsyncSession", "channel"),
        ("Base, grpc.aio.Server", "server"),
        ("grpc.ServicerContext", "server"),
        ("grpc.ServiceRpcHandler", "servicer"),
    ],
)
def test_a_class_is_what_it_derives_from(base: str, kind: str) -> None:
    source = f"import grpc, luckyrobots\nfrom protos import echo_pb2_grpc as pb\nclass Mine({base}): ...\n"
    assert seen(source)[3:] == [(3, kind, f"{base.replace('pb.', 'protos.echo_pb2_grpc.').removeprefix('Base, ')}")]


def test_a_target_inside_a_call_that_is_found_is_no_finding_of_its_own() -> None:
    assert seen("import grpc\ngrpc.insecure_channel('localhost:50051')")[1:] == [
        (2, "channel", "grpc.insecure_channel")
    ]


def test_classes_that_serve_or_intercept_are_found_at_their_name() -> None:
    source = (
        "import grpc\nfrom x_pb2_grpc import EchoServicer\n@deco\nclass Echo(EchoServicer): ...\n"
        "class C(grpc.UnaryUnaryClientInterceptor): ...\nclass S(grpc.aio.ServerInterceptor): ...\n"
    )
    assert seen(source)[2:] == [
        (4, "servicer", "x_pb2_grpc.EchoServicer"),
        (5, "interceptor", "grpc.UnaryUnaryClientInterceptor"),
        (6, "interceptor", "grpc.aio.ServerInterceptor"),
    ]


@pytest.mark.parametrize(
    ("source", "levels"),
    [
        ("import grpc\nfrom g_pb2_grpc import GreeterStub\nGreeterStub(grpc.insecure_channel(t))", {1}),
        ("import grpc\nfrom s_pb2_grpc import SceneServiceStub\nSceneServiceStub(grpc.insecure_channel(t))", {2}),
        ("from a_pb2_grpc import AgentServiceStub\ns = AgentServiceStub(c)\ns.GetAgentSchema(r)", {2}),
        ("from luckyrobots import LuckyEngineClient\nLuckyEngineClient()", {2}),
        ("from luckyrobots import LuckyEnv\nLuckyEnv()", {3}),
    ],
)
def test_a_file_goes_where_its_stubs_go(source: str, levels: set[int]) -> None:
    assert {one.level for one in find(source)} == levels


def test_a_stub_that_steps_is_for_the_env() -> None:
    source = "from a_pb2_grpc import AgentServiceStub\ns = AgentServiceStub(c)\nwhile 1: s.Step(r)"
    assert [one.level for one in find(source) if one.kind == "stub"] == [3]


@pytest.mark.parametrize(
    ("source", "kind", "level", "why"),
    [
        ("from grpc_health.v1 import health_pb2_grpc as h\nh.HealthStub(c)", "stub", 1, "a service of gRPC itself"),
        ("from g_pb2_grpc import GreeterStub\nGreeterStub(c)", "stub", 1, "without typed calls"),
        ("x = 'grpc://localhost:50051'", "channel", 2, "an endpoint of gRPC"),
        ("x = 'localhost:50051'", "channel", 1, "gRPC's port"),
    ],
)
def test_advice_fits_what_stands_there(source: str, kind: str, level: int, why: str) -> None:
    (found,) = [one for one in find(source) if one.kind == kind]
    assert (found.level, why in found.why) == (level, True)


@pytest.mark.parametrize(
    "beside",
    ["grpc.server(pool)", "from grpc_health.v1.health_pb2_grpc import HealthStub\nHealthStub(c)"],
)
def test_an_import_that_something_else_in_the_file_needs_stays_with_it(beside: str) -> None:
    source = f"import grpc\nfrom s_pb2_grpc import SceneServiceStub\nSceneServiceStub(c)\n{beside}\n"
    assert [one.level for one in find(source) if one.symbol == "grpc"] == [1]


def test_an_import_without_a_typed_twin_stays_at_level_1() -> None:
    stubs = "from g_pb2_grpc import GreeterStub\nfrom s_pb2_grpc import SceneServiceStub\nSceneServiceStub(c)"
    source = f"import grpc_status\n{stubs}\n"
    assert [one.level for one in find(source)] == [1, 1, 2, 2]


def test_every_finding_says_why() -> None:
    source = (
        "import grpc, luckyrobots\nfrom a_pb2_grpc import AStub, AServicer\nAStub(grpc.server(grpc.insecure_channel()))"
    )
    assert all(len(one.why) > 20 for one in find(source))


def test_a_first_line_that_is_no_text_is_unreadable_not_a_crash() -> None:
    with pytest.raises(Unreadable, match="LibCST cannot read"):
        parse_concrete(b"#\x80")
