"""Whatever a file holds, a scan ends with a verdict, and what it passes over without a look holds nothing."""

import ast
from collections import Counter
from itertools import chain

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st
from libcst.codemod import CodemodContext

from lucky_transport_migration.scan import requirements
from lucky_transport_migration.scan.changes import rewrite_python
from lucky_transport_migration.scan.codemod import EngineCodemod, parse_concrete
from lucky_transport_migration.scan.findings import ScanResult
from lucky_transport_migration.scan.known import may_mention
from lucky_transport_migration.scan.names import Unreadable, dotted_name, parse, uses_in
from lucky_transport_migration.scan.python import places_in
from lucky_transport_migration.scan.requirements import rewrite_requirements
from lucky_transport_migration.scan.scanner import scan_again

#: What can be found and is found by no other test alone or in this spelling, by the file it is found in.
FOUND = [
    ("a.py", "from protos import EchoStub\nEchoStub(self.channel)"),
    ("a.py", "from protos import EchoServicer\nclass Echo(EchoServicer): ..."),
    ("a.py", "from protos import add_EchoServicer_to_server as add\nadd(echo, server)"),
    ("a.py", "server.add_insecure_port(address)"),
    ("a.py", "server.add_secure_port(address, credentials)"),
    ("a.py", "PORT = 5_0_05_1"),
    ("a.py", "import lucky_transport_stubs"),
    ("a.py", "setup(install_requires=['Lucky__Transport [all]>=1'])"),
    ("a.py", "from pyarrow import (\n  flight)"),
    ("requirements.txt", "Connect_Python\n"),
    ("requirements.txt", "GRPCIO\n"),
    ("requirements.txt", "Lucky.-Transport [all]\n"),
    ("pyproject.toml", '[project]\ndependencies = ["\\u0067\\u0072\\u0070\\u0063io"]\n'),
    ("lucky_transport.toml", "transport = 'staged'\n"),
    (".env", "LUCKY_TRANSPORT=staged\n"),
    ("Dockerfile", "EXPOSE 50051\n"),
]


def look_at(name: str, content: bytes) -> ScanResult:
    """Return what a look at the syntax of a file finds, whether a scan would pass it over or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lucky_transport_migration.scan.scanner.may_mention", lambda _: True)
        return scan_again(ScanResult("."), {name: content})


@pytest.mark.parametrize(("name", "text"), FOUND)
def test_whatever_can_be_found_leaves_a_trace(name: str, text: str) -> None:
    assert look_at(name, text.encode()).findings
    assert may_mention(text.encode())


@pytest.mark.parametrize(
    "source",
    [
        "import \uff47\uff52\uff50\uff43".encode(),  # full-width letters are grpc to Python
        b"# coding: utf-7\nimport gr+AHA-c",
        b"#!/usr/bin/python\n# -*- coding: cp037 -*-\n" + "import grpc\n".encode("cp037"),
    ],
)
def test_what_only_another_encoding_or_form_spells_is_looked_at(source: bytes) -> None:
    assert may_mention(source)


@pytest.mark.parametrize(
    "source", ["import os\n", "# coding: latin-1\nx = 'ä'\n", "x = 'größer, ﬁne'\n", "import a_pb2\nport = 150052\n"]
)
def test_a_file_of_something_else_is_passed_over(source: str) -> None:
    assert not may_mention(source.encode("latin-1" if "latin-1" in source else "utf-8"))


PIECES = st.sampled_from(
    ["gr", "pc", "grpc", "\uff47\uff52\uff50\uff43", "import ", "from ", ".", "x", "Stub", "Servicer", "(channel)", ")",
     "class K(", "): ...", "\n", "'", '"', "\\x67", "\\u0067", "500", "51", "_", "0xc383", ":", "dns:", "://", "=",
     "__import__(", " as ", "io", ">=1", "lucky", "robots", "-transport", "[all]", "add_insecure_port", "s.", "#",
     "# coding: utf-7\n", "f'{x}"]
)  # fmt: skip


NAMES = st.sampled_from(["a.py", "requirements.txt", "pyproject.toml", "setup.cfg", "Makefile", "run"])


@given(NAMES, st.lists(PIECES, max_size=12).map("".join))
def test_what_is_passed_over_holds_nothing(name: str, text: str) -> None:
    content = text.encode()
    if not may_mention(content):
        assert look_at(name, content).findings == []


IMPORTS = st.sampled_from(
    [
        "import grpc",
        "import grpc, os  # both",
        "import grpc.aio",
        "import grpc.aio as aio; import grpc as g",
        "from grpc import insecure_channel, server as make, StatusCode",
        "from grpc import (\n    aio,\n    insecure_channel as dial,\n)",
        "from luckyrobots import LuckyEnv, LuckyEngineClient",
        "from luckyrobots import *",
        "import luckyrobots",
        "import lucky_transport_stubs",
        "try:\n    import grpc\nexcept ImportError: grpc = None",
        "if 1: import grpc; from luckyrobots import LuckyEnv as E",
    ]
)


TARGETS = st.sampled_from(["'localhost:50051'", "t", "f'{h}:50051'", "*a", "target='[::]:50051'", "''", "x:=1"])


CALLS = st.builds(
    "{}({})".format,
    st.sampled_from(
        [
            "grpc.insecure_channel",
            "grpc.aio.insecure_channel",
            "dial",
            "g.server",
            "insecure_channel",
            "LuckyEnv",
            "luckyrobots.LuckyEnv",
            "LuckyEngineClient",
            "s.add_insecure_port",
            "client.connect",
            "client.get_agent_schema",
            "client.set_simulation_mode",
            "E",
        ]
    ),
    st.lists(TARGETS | st.sampled_from(["o", "port=1", "host=h,", "**k", "timeout=2"]), max_size=3).map(", ".join),
)


STATEMENTS = st.one_of(
    IMPORTS,
    CALLS,
    CALLS.map("client = {}".format),
    CALLS.map("with {} as c, d: pass".format),
    CALLS.map("for r in {}.joints: r.name, keep(r)".format),
    CALLS.map("r = {}.state\nr.positions[0], len(r.positions), r.HasField('x')".format),
    CALLS.map("x: 'grpc.Channel' = [{} for t in y if t]".format),
    CALLS.map("@deco\nclass K(LuckyEnv, grpc.ClientInterceptor):\n    y = {}".format),
    CALLS.map("async def f(c=1):\n    import grpc\n    return await {}".format),
    CALLS.map("lambda: {}  # why".format),
    CALLS.map("del grpc; f'{{{}!r:>{{w}}}}'".format),
    st.text(max_size=30),
)


SOURCES = st.lists(STATEMENTS, max_size=8).map("\n".join)
ENDPOINTS = st.none() | st.sampled_from(["shm://demo", 'grpc://"h\\:1'])


def compiles(source: bytes) -> bool:
    try:
        parse(source)
    except Unreadable:
        return False
    return True


@given(SOURCES, ENDPOINTS)
def test_a_rewrite_compiles_and_has_nothing_left_to_rewrite(text: str, endpoint: str | None) -> None:
    source = text.encode("utf-8", "replace")
    after, _ = rewrite_python(source, endpoint)
    assert compiles(after) == compiles(source)
    assert rewrite_python(after, endpoint)[0] == after


@given(SOURCES | st.binary(max_size=60))
def test_a_scan_finds_or_says_why_not(source: str | bytes) -> None:
    try:
        found = [(place.line, place.symbol) for place in places_in(source)]
    except Unreadable as error:
        found = [(error.line, str(error))]
    assert all(line >= 1 and text for line, text in found)


@given(SOURCES)
def test_names_mean_to_a_scan_what_they_mean_to_a_rewrite(source: str) -> None:
    try:
        tree, module = parse(source), parse_concrete(source)
    except Unreadable:
        return
    calls = [use for use in uses_in(tree) if isinstance(use.node, ast.Call)]
    scanned = [use.scope.meanings(dotted_name(use.node.func)) for use in calls if isinstance(use.node, ast.Call)]
    rewritten: list[list[str]] = []

    def ask(codemod: EngineCodemod) -> None:
        rewritten.extend(codemod.names(call.func) for call in codemod.nodes(cst.Call))

    EngineCodemod(CodemodContext(), [ask]).transform_module(module)
    # LibCST leaves out what is imported further down; at run time that may be before the call.
    assert Counter(chain(*rewritten)) <= Counter(chain(*scanned))


REQUIREMENT_LINES = st.sampled_from(
    ["grpcio", "'luckyrobots'", "- grpcio=1", "lucky-transport[all]", "[project]", 'dependencies = ["grpcio", "x",]',
     'grpcio = {version = "1", extras = ["a"]}', "[tool.poetry.dependencies]", "# grpcio", "x = [[{}, 'grpcio']]"]
)  # fmt: skip


@given(st.lists(REQUIREMENT_LINES | st.text(max_size=20), max_size=6).map("\n".join), st.booleans())
def test_requirements_are_rewritten_once_and_stay_what_they_were(text: str, toml: bool) -> None:
    name = "pyproject.toml" if toml else "requirements.txt"
    after = rewrite_requirements(name, text.encode("utf-8", "replace"), lambda _: True)
    assert rewrite_requirements(name, after, lambda _: True) == after
    if not toml:
        assert requirements.places_in_list(name, after.decode()) == []
        return
    try:
        requirements.places_in_toml(text)
    except Unreadable:
        return
    requirements.places_in_toml(after.decode())
