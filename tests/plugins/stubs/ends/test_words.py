"""The limit of metadata, and the table of all options."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import grpc
import pytest

import lucky_transport_stubs
from lucky_transport.errors import StatusError
from lucky_transport_stubs.words import options
from lucky_transport_stubs.words.options import LOGGED
from lucky_transport_stubs.words.status import status_of

from ..differential.both import Driver
from .conftest import Client, OurEnds, failure


def test_the_limit_of_metadata_counts_keys_values_and_entries(stub: Client) -> None:
    echo = stub.unary_unary("Echo")
    assert echo(b"x", metadata=[("k", "v" * (16384 - 33))]) == b"x"
    refused = failure(lambda: echo(b"x", metadata=[("k", "v" * (16384 - 32))]))
    assert "exceeds hard limit (16385 vs. 16384)" in refused.details()


def test_a_number_that_grpc_does_not_know_is_unknown() -> None:
    status = status_of(StatusError(99, "why"))
    assert (status.code, status.details) == (grpc.StatusCode.UNKNOWN, 'Server sent unknown code 99 and details "why"')


#: What options, rather than arguments, the log names.
OPTIONS = {name: why for name, why in LOGGED.items() if name != "xds"}


@pytest.fixture(autouse=True)
def _nothing_was_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_logged", set[str]())


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "lucky_transport"]


@pytest.mark.parametrize("end", ["channel", "server"])
async def test_each_option_without_effect_is_logged_once(
    driver: Driver, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = [*((name, 1) for name in OPTIONS), ("grpc.keepalive_time_ms", 1000), (b"grpc.primary_user_agent", "x")]
    for _ in range(2):
        driver.server(options=given) if end == "server" else driver.connect(driver.address(), given)  # type: ignore[arg-type]
    assert said(caplog) == [
        f"the option {name} has no effect over shared memory: {why}" for name, why in OPTIONS.items()
    ]


async def test_what_a_service_config_says_of_other_things_is_logged_once(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    config = '{"loadBalancingConfig": [], "methodConfig": [{"hedgingPolicy": {}, "timeout": "1s"}], "unknown": 1}'
    for _ in range(2):
        driver.connect(driver.address(), [("grpc.service_config", config)])
    names = ("loadBalancingConfig", "hedgingPolicy")
    assert said(caplog) == [f"the option {name} has no effect over shared memory: {LOGGED[name]}" for name in names]


def test_xds_is_logged_where_a_server_asks_for_it(ends: Any, caplog: pytest.LogCaptureFixture) -> None:
    ends.server(xds=False)
    assert not caplog.records
    ends.server(xds=True)
    assert "the option xds has no effect over shared memory: there is no xDS" in caplog.text


def _table() -> list[tuple[str, list[str], str, str]]:
    """Return the rows of the README's table: kind, names, what happens to them, and why."""
    readme = Path(lucky_transport_stubs.__file__ or "").with_name("README.md").read_text()
    lines = readme.partition("<!-- options -->\n")[2].partition("\n\n##")[0].splitlines()
    cells = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.endswith("|"))
    return [(kind, re.findall(r"`(.+?)`", names), what, why) for kind, names, what, why in list(cells)[2:]]


TABLE = _table()


def _names(kind: str) -> set[str]:
    return {name for of, names, *_ in TABLE if of == kind for name in names}


def test_each_name_has_one_row_and_those_that_are_logged_say_so() -> None:
    names = [(kind, name) for kind, names, *_ in TABLE for name in names]
    assert len(names) == len(set(names)) > 150
    assert {name: why for _, names, what, why in TABLE if "the log names it" in what for name in names} == LOGGED


#: Names in grpcio's library that begin as an option does and are none: of its modules and messages, of metrics and
#: their labels, of what gRPC itself sets and of attributes of errors.
_NO_OPTION = re.compile(
    r"grpc\.(_cython|python|internal|channelz\.v\d|lookup\.v\d|lb\.(backend_service|locality|pick|rls|wrr)|client\."
    r"|client_ext_proc|server\.tls|subchannel|resource_quota\.|tls\.|xds\.|xds_client\.)[\w.]*"
    r"|grpc\.(target|disconnect_error|lame_filter_error|xds_resource_name_generator)"
)


def test_the_table_has_every_option_of_the_installed_grpc() -> None:
    library = Path(importlib.import_module("grpc._cython.cygrpc").__file__ or "").read_bytes()
    texts = {text.decode() for text in re.findall(rb"(?<=\x00)grpc\.[\w.-]+(?=\x00)", library)}
    found = {text for text in texts if not _NO_OPTION.fullmatch(text)}
    assert len(found) > 80, "the library holds its options as texts"
    assert found - _names("option") == set()
    experimental = vars(importlib.import_module("grpc.experimental").ChannelOptions)
    assert {value for name, value in experimental.items() if not name.startswith("_")} <= _names("option")


def test_the_table_has_every_kind_of_credentials_of_the_installed_grpc() -> None:
    modules = (grpc, importlib.import_module("grpc.experimental"))
    found = {name for module in modules for name in dir(module) if name.endswith("_credentials") and name[0] != "_"}
    assert found - _names("credentials") == set()


def test_the_table_has_every_argument_of_grpcs_channels_and_servers() -> None:
    factories = (
        *(grpc.insecure_channel, grpc.secure_channel, grpc.server),
        *(grpc.aio.insecure_channel, grpc.aio.secure_channel, grpc.aio.server),
    )
    found = {name for factory in factories for name in inspect.signature(factory).parameters}
    assert found == _names("argument")


@pytest.mark.parametrize("name", sorted({name for _, names, *_ in TABLE for name in names} - set(LOGGED)))
def test_what_has_no_effect_without_a_loss_is_not_logged(
    ends: OurEnds, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    ends.connect(ends.address(), [(name, 1)])
    assert not caplog.records
