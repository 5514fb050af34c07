"""A file that is passed over without a look at its syntax holds nothing that a look would find."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport_migration.scan.findings import ScanResult
from lucky_transport_migration.scan.scanner import scan_again
from lucky_transport_migration.scan.traces import may_mention

#: One of each that can be found, by the file it is found in.
FOUND = [
    ("a.py", "import grpc"),
    ("a.py", "from protos import EchoStub\nEchoStub(self.channel)"),
    ("a.py", "from protos import EchoServicer\nclass Echo(EchoServicer): ..."),
    ("a.py", "from protos import add_EchoServicer_to_server as add\nadd(echo, server)"),
    ("a.py", "server.add_insecure_port(address)"),
    ("a.py", "server.add_secure_port(address, credentials)"),
    ("a.py", "PORT = 5_0_05_1"),
    ("a.py", "TARGET = 'localhost:50051'"),
    ("a.py", "import luckyrobots"),
    ("a.py", "import lucky_transport_stubs"),
    ("a.py", "setup(install_requires=['Lucky__Transport [all]>=1'])"),
    ("a.py", "from pyarrow import (\n  flight)"),
    *(
        ("a.py", f"import {name}")
        for name in ("betterproto", "betterproto2", "connecpy", "connectrpc", "purerpc", "sonora")
    ),
    ("requirements.txt", "Connect_Python\n"),
    ("requirements.txt", "GRPCIO\n"),
    ("requirements.txt", "Lucky.-Transport [all]\n"),
    ("pyproject.toml", '[project]\ndependencies = ["\\u0067\\u0072\\u0070\\u0063io"]\n'),
    ("lucky_transport.toml", "transport = 'staged'\n"),
    (".env", "LUCKY_TRANSPORT=staged\n"),
    ("Dockerfile", "EXPOSE 50051\n"),
    ("Makefile", "p:\n\tprotoc --grpc_python_out=.\n"),
    ("a.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": "x = (\n50051)"}]})),
    ("a.ipynb", '{"cells": [{"cell_type": "code", "source": "import \\u0067\\u0072\\u0070\\u0063"}]}'),
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
NAMES = st.sampled_from(["a.py", "a.ipynb", "requirements.txt", "pyproject.toml", "setup.cfg", "Makefile", "run"])


@given(NAMES, st.lists(PIECES, max_size=12).map("".join))
def test_what_is_passed_over_holds_nothing(name: str, text: str) -> None:
    content = text.encode()
    if name == "a.ipynb":
        cells = [{"cell_type": "code", "source": text}]
        content = json.dumps({"cells": cells}, ensure_ascii=len(text) % 2 > 0).encode()
    if not may_mention(content):
        assert look_at(name, content).findings == []
