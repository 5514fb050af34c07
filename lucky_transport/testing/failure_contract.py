"""Tests of `TransportContract`: invalid calls, commands, failing engines, and closing.

The same invalid call raises the same class with the same text as over `inproc`, and the transport works afterwards.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.errors import Busy, EngineFailed, PeerTimeout
from lucky_transport.messages import GetAgentSchemaRequest, SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.testing.invalid_use import AFTER_CLOSE, INVALID_CALLS
from lucky_transport.testing.suite import PATIENCE_S, TransportSuite, every, open_reference, outcome, zeros

__all__ = ["FailureContract"]

_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_GET_SCHEMA = method("/hazel.rpc.AgentService/GetAgentSchema")


class FailureContract(TransportSuite):
    """Invalid calls, commands and failures; inherited by `TransportContract`."""

    # invalid calls

    def test_a_wrong_call_raises_what_the_reference_raises_and_does_no_harm(self) -> None:
        with self.open_both() as (client, reference):
            client.step(zeros(client))
            reference.step(zeros(reference))
            for wrong, call in INVALID_CALLS.items():
                self.check_refused(client, reference, call, wrong)
                frame = client.step(zeros(client))
                expected = reference.step(zeros(reference))
                assert frame.observations.tobytes() == expected.observations.tobytes(), wrong

    def test_sending_twice_raises_what_the_reference_raises_and_keeps_the_frame(self) -> None:
        with self.open_both() as (client, reference):
            client.send(zeros(client))
            reference.send(zeros(reference))
            self.check_refused(client, reference, lambda t: t.send(zeros(t)))
            assert client.recv().observations.tobytes() == reference.recv().observations.tobytes()

    def test_hold_is_refused_where_the_engine_has_none(self) -> None:
        with self.open_both(hold=False) as (client, reference):
            self.check_refused(client, reference, lambda t: t.step(zeros(t), every(t, HOLD)))

    def test_a_closed_transport_raises_what_the_reference_raises(self) -> None:
        with self.open_both() as (client, reference):
            for each in (client, reference):
                each.step(zeros(each))
                each.close()
            for wrong, call in AFTER_CLOSE.items():
                self.check_refused(client, reference, call, wrong)

    # commands

    def test_a_command_before_a_step_takes_effect_before_it(self) -> None:
        with self.open_client() as client, open_reference("toy", 4, seed=77) as reference:
            self.require(client, "commands")
            assert client.call(_SET_SEEDS, SetSeedsRequest([77, 78, 79, 80])).success
            frame = client.step(zeros(client), every(client, RESET))
            expected = reference.step(zeros(reference), every(reference, RESET))
            assert frame.observations.tobytes() == expected.observations.tobytes()

    def test_a_command_between_send_and_recv_is_answered(self) -> None:
        with self.open_client() as client:
            self.require(client, "commands")
            client.send(zeros(client))
            assert client.call(_SET_SEEDS, SetSeedsRequest([1, 2, 3, 4])).success
            assert client.recv().observations.any()

    def test_the_engines_refusal_travels_in_the_response(self) -> None:
        with self.open_both() as (client, reference):
            self.require(client, "commands")
            request = SetSeedsRequest([1])
            answer = client.call(_SET_SEEDS, request)
            assert not answer.success
            assert answer == reference.call(_SET_SEEDS, request)

    def test_an_answer_that_missed_its_deadline_is_never_taken_for_another(self) -> None:
        """Whether the slow engine answers in time or not: the next call gets its own answer."""
        self.require_deadlines()
        with self.open_client(step_delay_s=0.3) as client:
            self.require(client, "commands")
            client.send(zeros(client))
            with contextlib.suppress(PeerTimeout):
                client.call(_SET_SEEDS, SetSeedsRequest([1, 2, 3, 4]), Deadline(0.05))
            assert client.recv(Deadline(PATIENCE_S)).observations.shape == client.spec.observation_shape
            answer = client.call(_GET_SCHEMA, GetAgentSchemaRequest("agent_1"))
            assert answer.schema.agent_name == "agent_1"

    # bad luck

    def test_a_failing_engine_raises_what_the_reference_raises_and_can_be_stepped_again(self) -> None:
        with self.open_both(fail_at=3) as (client, reference):
            for each in (client, reference):
                each.step(zeros(each))
                each.step(zeros(each))
            self.check_refused(client, reference, lambda t: t.step(zeros(t)))
            frame = client.step(zeros(client), every(client, RESET))
            expected = reference.step(zeros(reference), every(reference, RESET))
            assert frame.observations.tobytes() == expected.observations.tobytes()

    def test_a_failing_engine_names_its_error(self) -> None:
        with (
            self.open_client(fail_at=1) as client,
            pytest.raises(EngineFailed, match="ArithmeticError: toy engine was asked to fail at step 1"),
        ):
            client.step(zeros(client))

    def test_a_frame_that_missed_its_deadline_can_be_received_later(self) -> None:
        self.require_deadlines()
        with self.open_client(step_delay_s=0.3) as client, open_reference("toy", 4) as reference:
            number = client.step(zeros(client)).seq
            reference.step(zeros(reference))
            client.send(zeros(client))
            with pytest.raises(PeerTimeout, match=r"0\.05"):
                client.recv(Deadline(0.05))
            frame = client.recv(Deadline(PATIENCE_S))
            assert frame.seq == number + 1
            assert frame.observations.tobytes() == reference.step(zeros(reference)).observations.tobytes()

    def test_a_second_driver_is_refused_until_the_first_closes(self) -> None:
        with self.serve() as endpoint:
            first = self.connect(endpoint)
            first.step(zeros(first))
            with pytest.raises(Busy), self.connect(endpoint) as second:
                second.step(zeros(second))
            first.step(zeros(first))
            first.close()
            self.connect_when_free(endpoint).close()

    def test_the_next_driver_finds_the_engine_where_the_last_one_left_it(self) -> None:
        with self.serve() as endpoint, open_reference("toy", 4) as reference:
            with self.connect(endpoint) as first:
                first.step(zeros(first), every(first, RESET))
            reference.step(zeros(reference), every(reference, RESET))
            second = self.connect_when_free(endpoint)
            reference.step(zeros(reference))
            frame = second.step(zeros(second))
            assert frame.observations.tobytes() == reference.step(zeros(reference)).observations.tobytes()
            second.close()

    def test_closing_twice_is_closing_once_and_frames_stay_readable(self) -> None:
        with self.open_client() as client:
            frame = client.step(zeros(client), every(client, RESET))
            copy = frame.observations.copy()
            actions = client.actions
            client.close()
            client.close()
            assert frame.observations.tobytes() == copy.tobytes()
            assert actions.shape == client.spec.action_shape
            assert np.isfinite(actions).all()

    def test_closing_with_a_frame_outstanding_leaves_the_engine_usable(self) -> None:
        with self.serve() as endpoint:
            first = self.connect(endpoint)
            first.send(zeros(first))
            first.close()
            self.connect_when_free(endpoint).close()

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_forked_child_is_refused_and_its_parent_goes_on(self) -> None:
        with self.open_client() as client:
            client.step(zeros(client))
            for wrong in ("send", "call"):
                said = _in_fork(partial(outcome, client, AFTER_CLOSE[wrong]))
                refused = "ClosedError: this transport belongs to the parent process; connect again after fork()"
                assert said == refused, wrong
                client.step(zeros(client))

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_closing_in_a_forked_child_does_not_close_its_parent(self) -> None:
        with self.open_client() as client:
            client.step(zeros(client))
            assert _in_fork(lambda: outcome(client, lambda t: t.close())) == "no error"
            client.step(zeros(client))


def _in_fork(function: Callable[[], str]) -> str:
    """Return what `function` returns in a forked child, which then vanishes; a hanging child is killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, function().encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], PATIENCE_S)
        return os.read(reader, 65536).decode() if ready else f"no answer within {PATIENCE_S} s"
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
