"""Channels and servers become drop-ins; what cannot be known is left, with the reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lucky_transport.process import unique_name
from lucky_transport_migration.scan.fix.changes import rewrite_python


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
        ("grpc.insecure_channel(t, options=o)", "shm://a", 'lucky_transport_stubs.channel("shm://a", options=o)'),
        ("grpc.insecure_channel(options=o, target=t)", "shm://a",
         'lucky_transport_stubs.channel(options=o, endpoint="shm://a")'),
        ("grpc.aio.insecure_channel(f'{h}:1')", "shm://a", 'lucky_transport_stubs.aio_channel("shm://a")'),
    ],
)  # fmt: skip
def test_a_channel_becomes_a_drop_in(call: str, endpoint: str | None, expected: str) -> None:
    assert rewritten(f"import grpc\n\nc = {call}\n", endpoint) == f"import lucky_transport_stubs\n\nc = {expected}\n"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import grpc\ngrpc.insecure_channel('robot.lab:443')\n", "say where with --endpoint"),
        ("import grpc\ngrpc.insecure_channel(target)\n", "say where with --endpoint"),
        ("import grpc\ngrpc.insecure_channel(*arguments)\n", "the target is not to be seen"),
        ("import grpc\ngrpc.secure_channel(t, c)\n", "has credentials"),
        ("import grpc\ngrpc.server(pool).start()\n", "say so with --endpoint shm://NAME"),
    ],
)
def test_what_cannot_be_known_is_left_with_the_reason(source: str, why: str) -> None:
    after, refused = rewrite_python(source.encode(), None)
    assert after.decode() == source
    assert [(line, why in text) for line, text in refused] == [(2, True)]


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
