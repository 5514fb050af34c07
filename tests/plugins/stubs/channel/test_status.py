"""What errors are to a program that knows gRPC only."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

from lucky_transport import errors
from lucky_transport_grpc.runtime import grpc
from lucky_transport_stubs.words.metadata import USER_AGENT
from lucky_transport_stubs.words.options import max_receive_bytes, max_send_bytes, user_agent
from lucky_transport_stubs.words.status import CallStatus, code_of, status_of

Code = grpc.StatusCode


def test_a_number_that_grpc_does_not_know_is_unknown() -> None:
    assert code_of(99) is None
    status = status_of(errors.StatusError(99, "why"))
    assert status == CallStatus(Code.UNKNOWN, 'Server sent unknown code 99 and details "why"')


@pytest.mark.parametrize("error", [*errors.TransportError.__subclasses__(), errors.TransportError])
def test_every_error_has_a_code_and_keeps_its_text(error: type[errors.TransportError]) -> None:
    if error is errors.StatusError:
        return  # it is a status already
    status = status_of(error("the reason"))
    assert status.code.name == error.grpc_status.name
    assert "the reason" in status.details or status.details == "Deadline Exceeded"


def test_options_have_grpcs_names_and_defaults() -> None:
    assert (max_receive_bytes(None), max_send_bytes(()), user_agent([])) == (4 << 20, None, "")
    options = [("grpc.max_receive_message_length", 5), ("grpc.max_send_message_length", 0), ("other", object())]
    assert (max_receive_bytes(options), max_send_bytes(options)) == (5, 0)
    assert max_receive_bytes([*options, ("grpc.max_receive_message_length", 7)]) == 5, "the first of two counts"
    assert max_send_bytes([("grpc.max_send_message_length", -1)]) is None
    agents = [("grpc.primary_user_agent", "first"), ("grpc.secondary_user_agent", "last")]
    assert user_agent(agents) == f"first {USER_AGENT} last"
    assert user_agent(agents[1:]) == f"{USER_AGENT} last"
    assert user_agent(agents[1:], "grpc.aio") == "grpc.aio last"
    assert max_receive_bytes([("grpc.max_receive_message_length", -1)]) > 1 << 30
    assert max_receive_bytes([("grpc.max_receive_message_length", "text")]) == 4 << 20


@pytest.mark.parametrize(("options", "expected"), [([(5, 5)], TypeError), ([("a",)], ValueError), (5, TypeError)])
def test_what_are_no_options_is_refused(options: object, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        max_receive_bytes(options)  # type: ignore[arg-type]
