"""Tests of `TransportContract`: invalid calls, commands, failing engines, and closing.

The same invalid call raises the same class with the same text as over `inproc`, and the transport works afterwards.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET
from lucky_transport.errors import Busy, EngineFailed, PeerTimeout
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import PATIENCE_S, STOPPED, TransportSuite, every, outcome, zeros
from lucky_transport.transport import Transport

_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_LACKING = method("MujocoSceneService/GetModelInfo")

_Call = Callable[[Transport], object]


def _with(transport: Transport, value: Any, at: int) -> Any:
    actions = zeros(transport)
    actions.flat[at] = value
    return actions


def _wider(transport: Transport, envs: int, values: int) -> Any:
    n, *shape = transport.spec.action_shape
    return np.zeros((n + envs, *(extent + values for extent in shape)))


def _control(transport: Transport, extra: int, dtype: Any) -> Any:
    return np.zeros(transport.spec.num_envs + extra, dtype)


#: Wrong calls of a transport whose engine has real-valued actions.
_INVALID_CALLS: Mapping[str, _Call] = {
    "recv without send": lambda t: t.recv(),
    "one env too many": lambda t: t.step(_wider(t, 1, 0)),
    "one value too many": lambda t: t.step(_wider(t, 0, 1)),
    "one axis too many": lambda t: t.step(zeros(t)[None]),
    "no axis at all": lambda t: t.step(np.float32(0)),  # pyright: ignore[reportArgumentType]
    "text": lambda t: t.step(np.full(t.spec.action_shape, "left")),
    "complex numbers": lambda t: t.step(np.zeros(t.spec.action_shape, np.complex64)),
    "objects": lambda t: t.step(np.full(t.spec.action_shape, None)),
    "nothing": lambda t: t.step(None),  # pyright: ignore[reportArgumentType]
    "NaN in the first place": lambda t: t.step(_with(t, np.nan, 0)),
    "NaN in the last place": lambda t: t.step(_with(t, np.nan, -1)),
    "infinity": lambda t: t.step(_with(t, np.inf, -1)),
    "minus infinity": lambda t: t.step(_with(t, -np.inf, 0)),
    "NaN as float64": lambda t: t.step(_with(t, np.nan, 0).astype(np.float64)),
    "a float64 too large for float32": lambda t: t.step(np.full(t.spec.action_shape, 1e300)),
    "a control byte too many": lambda t: t.step(zeros(t), _control(t, 1, np.uint8)),
    "a control byte too few": lambda t: t.step(zeros(t), _control(t, -1, np.uint8)),
    "control of another type": lambda t: t.step(zeros(t), _control(t, 0, np.int64)),
    "control as a list": lambda t: t.step(zeros(t), [0] * t.spec.num_envs),  # pyright: ignore[reportArgumentType]
    "a method the engine lacks": lambda t: t.call(_LACKING, _LACKING.request()),
}

#: What a closed transport is asked for.
_AFTER_CLOSE: Mapping[str, _Call] = {
    "send": lambda t: t.send(zeros(t)),
    "recv": lambda t: t.recv(),
    "step": lambda t: t.step(zeros(t)),
    "call": lambda t: t.call(_LACKING, _LACKING.request()),
    "begin": lambda t: t.begin(_LACKING, _LACKING.request()).result(PATIENCE_S),
}


class FailureContract(TransportSuite):
    """Invalid calls, commands and failures; inherited by `TransportContract`."""

    # invalid calls

    def test_a_wrong_call_raises_what_the_reference_raises_and_does_no_harm(self) -> None:
        with self.open_both() as (client, reference):
            client.step(zeros(client))
            reference.step(zeros(reference))
            for wrong, call in _INVALID_CALLS.items():
                self.check_refused(client, reference, call, wrong)
                self.check_same_step(client, reference, name=wrong)

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
            for wrong, call in _AFTER_CLOSE.items():
                self.check_refused(client, reference, call, wrong)

    # commands

    @needs("commands")
    def test_a_command_before_a_step_takes_effect_before_it(self) -> None:
        with self.open_client() as client, self.open_reference("toy", 4, seed=77) as reference:
            assert client.call(_SET_SEEDS, SetSeedsRequest([77, 78, 79, 80])).success
            self.check_same_step(client, reference, RESET)

    @needs("commands")
    def test_a_command_between_send_and_recv_is_answered(self) -> None:
        with self.open_client() as client:
            client.send(zeros(client))
            assert client.call(_SET_SEEDS, SetSeedsRequest([1, 2, 3, 4])).success
            assert client.recv().observations.any()

    @needs("commands")
    def test_the_engines_refusal_travels_in_the_response(self) -> None:
        with self.open_both() as (client, reference):
            request = SetSeedsRequest([1])
            answer = client.call(_SET_SEEDS, request)
            assert not answer.success
            assert answer == reference.call(_SET_SEEDS, request)

    @needs("commands", "has_deadlines")
    def test_an_answer_that_missed_its_deadline_is_never_taken_for_another(self) -> None:
        """Whether the slow engine answers in time or not: the next call gets its own answer."""
        with self.open_client(step_delay_s=0.3) as client:
            client.send(zeros(client))
            with contextlib.suppress(PeerTimeout):
                client.call(_SET_SEEDS, SetSeedsRequest([1, 2, 3, 4]), Deadline(0.05))
            assert client.recv(Deadline(PATIENCE_S)).observations.shape == client.spec.observation_shape
            self.check_alive(client)

    # failures, drivers and closing

    def test_a_failing_engine_raises_what_the_reference_raises_and_can_be_stepped_again(self) -> None:
        with self.open_both(fail_at=3) as (client, reference):
            for each in (client, reference):
                each.step(zeros(each))
                each.step(zeros(each))
            self.check_refused(client, reference, lambda t: t.step(zeros(t)))
            self.check_same_step(client, reference, RESET)

    def test_a_failing_engine_names_its_error(self) -> None:
        with (
            self.open_client(fail_at=1) as client,
            pytest.raises(EngineFailed, match="ArithmeticError: toy engine was asked to fail at step 1"),
        ):
            client.step(zeros(client))

    @needs("has_deadlines")
    def test_a_frame_that_missed_its_deadline_can_be_received_later(self) -> None:
        with self.open_client(step_delay_s=0.3) as client, self.open_reference("toy", 4) as reference:
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
        with self.serve() as endpoint, self.open_reference("toy", 4) as reference:
            with self.connect(endpoint) as first:
                first.step(zeros(first), every(first, RESET))
            reference.step(zeros(reference), every(reference, RESET))
            second = self.connect_when_free(endpoint)
            reference.step(zeros(reference))
            self.check_same_step(second, reference)
            second.close()

    def test_an_engine_that_has_stopped_is_stepped_no_more(self) -> None:
        with self.open_stopped(lambda client: client.step(zeros(client))) as (client, _):
            for _ in range(2):
                with pytest.raises(STOPPED):
                    client.step(zeros(client))

    @needs("commands")
    def test_an_engine_that_has_stopped_answers_no_call(self) -> None:
        with self.open_stopped(self.check_alive) as (client, _):
            for _ in range(2):
                with pytest.raises(STOPPED):
                    self.check_alive(client)

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
                said = _in_fork(partial(outcome, client, _AFTER_CLOSE[wrong]))
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
        answer = select.poll()  # no `select`: a process with many descriptors has no room for the next one there
        answer.register(reader, select.POLLIN)
        ready = answer.poll(PATIENCE_S * 1e3)
        return os.read(reader, 65536).decode() if ready else f"no answer within {PATIENCE_S} s"
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
