"""Every gRPC status means one of our errors, and every error of ours crosses the wire as itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")


import grpc

from lucky_transport import errors as core
from lucky_transport_grpc.errors import RAISED, code_for, from_rpc, is_local_timeout, refuse

#: A StatusError is another protocol's own: no engine's handler raises one.
OURS = [
    error for error in (core.TransportError, *core.TransportError.__subclasses__()) if error is not core.StatusError
]


class Refused(Exception):
    """What a context's abort() raises."""


class Context:
    """A server's context that remembers how the call ended, and reads as the client's error afterwards."""

    def __init__(self) -> None:
        self.metadata: Any = ()
        self.status: Any = None
        self.text = ""

    def set_trailing_metadata(self, metadata: Any) -> None:
        self.metadata = metadata

    def abort(self, status: Any, text: str) -> None:
        self.status, self.text = status, text
        raise Refused

    def code(self) -> Any:
        return self.status

    def details(self) -> str:
        return self.text

    def trailing_metadata(self) -> Any:
        return self.metadata


def _refused(error: core.TransportError) -> Context:
    context = Context()
    with pytest.raises(Refused):
        refuse(context, error)
    return context


def test_every_status_of_grpc_is_raised_as_an_error_of_ours() -> None:
    assert set(RAISED) == set(grpc.StatusCode)


def test_a_message_beyond_a_limit_of_grpcs_is_not_a_busy_engine() -> None:
    context = Context()
    context.status, context.text = (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "CLIENT: Received message larger than max (9 vs. 4)",
    )
    assert type(from_rpc(context, "here")) is core.RemoteProtocolError


@pytest.mark.parametrize("error", OURS)
def test_an_error_comes_back_as_the_same_class_with_the_same_text(error: type[core.TransportError]) -> None:
    raised = error("engine 'toy' has 3 of 4: 'ä' \n", hint="try again")
    back = from_rpc(_refused(raised), "here")
    assert type(back) is error
    assert str(back) == str(raised)


@given(text=st.text(max_size=20_000))
def test_metadata_stays_below_what_grpc_accepts_whatever_the_text(text: str) -> None:
    context = _refused(core.EngineFailed(text))
    encoded = -(-len(context.metadata[0][1]) // 3) * 4 + 3 * len(context.text.encode())
    assert encoded < 7500


def test_a_long_text_is_cut_at_its_end() -> None:
    back = from_rpc(_refused(core.EngineFailed("ä" * 5000)), "here")
    assert str(back).startswith("ä" * 1000)
    assert str(back).endswith(" ...")


def test_an_error_class_of_a_plugin_travels_as_its_parent() -> None:
    class Worse(core.Busy):
        """A plugin's own class."""

    assert type(from_rpc(_refused(Worse("x")), "here")) is core.Busy
    assert code_for(Worse("x")) is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("status", RAISED, ids=lambda status: status.name)
def test_a_foreign_status_names_the_peer_the_details_and_the_remedy(status: grpc.StatusCode) -> None:
    context = Context()
    context.status, context.text = status, "some details"
    back = from_rpc(context, "grpc://there:1")
    kind, hint = RAISED[status]
    assert type(back) is kind
    assert "grpc://there:1" in str(back)
    assert "some details" in str(back)
    assert str(back).endswith(hint)


def test_an_unreadable_code_of_a_newer_peer_gives_the_root_class() -> None:
    context = Context()
    context.status, context.metadata = grpc.StatusCode.INTERNAL, (("lucky-error-bin", b"x9:text"),)
    assert type(from_rpc(context, "here")) is core.TransportError
    assert str(from_rpc(context, "here")) == "text"


def test_our_own_deadline_is_told_from_a_timeout_the_engine_reports() -> None:
    local = Context()
    local.status = grpc.StatusCode.DEADLINE_EXCEEDED
    assert is_local_timeout(local)
    assert not is_local_timeout(_refused(core.PeerTimeout("the batch never became complete")))
