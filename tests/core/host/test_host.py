"""The host: one lock, one driver, the driver's own memory, and words for every refusal."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport.call import Call
from lucky_transport.deadline import Deadline
from lucky_transport.engine import HOLD, RESET, Buffers, Handler
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import (
    MAX_TEXT_BYTES,
    Busy,
    Cancelled,
    ClosedError,
    EngineFailed,
    LocalProtocolError,
    PeerTimeout,
    UnknownName,
)
from lucky_transport.host.host import Host
from lucky_transport.messages import (
    GetAgentSchemaRequest,
    GetJointStateRequest,
    GetMujocoInfoRequest,
    GetMujocoInfoResponse,
)
from lucky_transport.messages.methods import method
from tests.support.scripted_engine import ScriptedEngine
from tests.support.waiting import PATIENCE_S

SCHEMA = method("AgentService/GetAgentSchema")
INFO = method("MujocoService/GetMujocoInfo")


JOINTS = method("MujocoService/GetJointState")


class Dirty(ToyEngine):
    """Rewards even a reset, and answers one method in whatever way `answer` says."""

    def __init__(self, answer: Handler | None = None) -> None:
        super().__init__(3, reset_ticks=1)
        self._answer = answer
        self.closed = 0

    @property
    def services(self) -> Mapping[str, Handler]:
        return super().services if self._answer is None else {**super().services, INFO.name: self._answer}

    def step(self, control: NDArray[np.uint8] | None) -> None:
        super().step(control)
        out = self._buffers
        out.rewards[:] = 7
        out.terminated[:] = out.truncated[:] = 1
        out.signals[:] = 9

    def close(self) -> None:
        self.closed += 1


def _buffers(host: Host) -> Buffers:
    return Buffers.allocate(host.spec)


def test_a_new_driver_sees_the_last_frame_at_once(host: Host) -> None:
    first, second = _buffers(host), _buffers(host)
    lease = host.drive("first", first)
    lease.step(np.full(3, RESET, np.uint8))
    lease.step()
    lease.release()
    host.drive("second", second)
    for name in ("observations", "rewards", "terminated", "truncated", "signals"):
        assert getattr(second, name).tobytes() == getattr(first, name).tobytes(), name


def test_a_released_drivers_buffers_are_never_touched_again(host: Host) -> None:
    first, second = _buffers(host), _buffers(host)
    lease = host.drive("first", first)
    lease.step(np.full(3, RESET, np.uint8))
    lease.release()
    kept = first.observations.copy()
    host.drive("second", second).step()
    assert first.observations.tobytes() == kept.tobytes() != second.observations.tobytes()


def test_a_second_driver_is_refused_by_the_firsts_name(host: Host) -> None:
    host.drive("the first", _buffers(host))
    assert host.driver == "the first"
    with pytest.raises(Busy, match=r"engine 'toy' is driven by the first; close that client first, or start another"):
        host.drive("the second", _buffers(host))


def test_an_idle_driver_can_be_replaced_and_then_drives_no_more(host: Host) -> None:
    old = host.drive("idle one", _buffers(host), is_idle=lambda: True)
    host.drive("busy one", _buffers(host))
    with pytest.raises(Busy, match="no longer driven by idle one; connect again"):
        old.step()
    old.release()
    assert host.driver == "busy one"


def test_releasing_twice_is_releasing_once(host: Host) -> None:
    lease = host.drive("me", _buffers(host))
    lease.release()
    lease.release()
    assert host.driver == ""


def test_reset_envs_have_no_outcome_whatever_the_engine_wrote() -> None:
    host = Host(Dirty())
    buffers = _buffers(host)
    host.drive("me", buffers).step(np.array([RESET, 0, HOLD], np.uint8))
    assert buffers.rewards.tolist() == [0, 7, 7]
    assert buffers.terminated.tolist() == buffers.truncated.tolist() == [0, 1, 1]
    assert buffers.signals[:, 0].tolist() == [0, 0, 0, 0]
    assert (buffers.signals[:, 1:] == 9).all()


def test_a_command_of_the_engine_waits_for_the_step_in_progress() -> None:
    """Commands and steps never run at the same time, whatever threads they come from."""
    inside, overlaps = threading.Lock(), []

    def hold(request: Any) -> Any:
        overlaps.append(not inside.acquire(blocking=False))
        time.sleep(0.0001)
        inside.release()
        return request

    host = Host(ScriptedEngine(on_step=hold, services={JOINTS.name: hold}))
    lease = host.drive("me", _buffers(host))
    caller = threading.Thread(target=lambda: [host.call(JOINTS, GetJointStateRequest()) for _ in range(200)])
    caller.start()
    for _ in range(20):
        lease.step()
    caller.join()
    assert len(overlaps) == 220
    assert not any(overlaps)


def test_closing_ends_the_engine_once_and_refuses_new_drivers() -> None:
    engine = Dirty()
    host = Host(engine)
    lease = host.drive("me", _buffers(host))
    host.close()
    host.close()
    assert engine.closed == 1
    with pytest.raises(ClosedError, match="the engine is closing"):
        host.drive("late", _buffers(host))
    with pytest.raises(ClosedError, match="the engine is closing"):
        lease.step()


def test_an_engine_that_hangs_in_a_step_is_left_open(caplog: pytest.LogCaptureFixture) -> None:
    inside, may_go = threading.Event(), threading.Event()

    closed: list[bool] = []

    def hang(control: Any) -> None:
        inside.set()
        assert may_go.wait(PATIENCE_S)

    host = Host(ScriptedEngine(on_step=hang, on_close=lambda: closed.append(True)))
    lease = host.drive("me", _buffers(host))
    with ThreadPoolExecutor(1) as pool:
        stepping = pool.submit(lease.step)
        assert inside.wait(PATIENCE_S)
        host.close(timeout_s=0.05)
        assert not closed
        assert "engine 'toy' is still in a step after 0.05 s; not closed" in caplog.text
        may_go.set()
        stepping.result(PATIENCE_S)
    host.close()
    assert closed == [True]


COUNTING = method("TelemetryService/StreamTelemetry")


@pytest.mark.parametrize("raised", [UnknownName, ValueError])
@pytest.mark.parametrize("letter", ["x", "ü", "机", "👾"])
def test_no_error_says_more_than_every_wire_can_carry(letter: str, raised: type[Exception]) -> None:
    def refuse(request: GetMujocoInfoRequest) -> GetMujocoInfoResponse:
        raise raised(letter * length)

    host = Host(Dirty(refuse))
    for length in (1, 700, 100_000):
        with pytest.raises(UnknownName if raised is UnknownName else EngineFailed) as caught:
            host.call(INFO, GetMujocoInfoRequest())
        said = str(caught.value)
        assert len(said.encode()) <= MAX_TEXT_BYTES
        if length == 100_000:
            assert said.endswith(f"{letter} ...")
            assert len(said.encode()) > MAX_TEXT_BYTES - 4
        else:
            assert said.endswith(letter * length)


def test_a_cancelled_call_is_not_made(host: Host) -> None:
    call = Call("me")
    call.end()
    with pytest.raises(Cancelled, match="GetAgentSchema was cancelled"):
        host.call(SCHEMA, GetAgentSchemaRequest(), call)


def test_a_call_waits_for_the_step_in_progress_only_until_its_deadline() -> None:
    entered, resume = threading.Event(), threading.Event()

    def wait(control: Any) -> None:
        entered.set()
        resume.wait(PATIENCE_S)

    host = Host(ScriptedEngine(on_step=wait))
    lease = host.drive("me", _buffers(host))
    stepping = threading.Thread(target=lease.step)
    stepping.start()
    entered.wait(PATIENCE_S)
    with pytest.raises(PeerTimeout, match=r"GetJointState did not end within 0\.02 s"):
        host.call(JOINTS, GetJointStateRequest(), Call("you", Deadline(0.02)))
    resume.set()
    stepping.join()
    assert host.call(JOINTS, GetJointStateRequest()).success


def test_a_stream_is_no_call_and_a_call_no_stream(host: Host) -> None:
    with pytest.raises(LocalProtocolError, match=r"StreamTelemetry is a stream: .*; use stream\(\)"):
        host.call(COUNTING, COUNTING.request())
    with pytest.raises(LocalProtocolError, match=r"GetAgentSchema is no stream: .*; use call\(\)"):
        next(host.stream(SCHEMA, GetAgentSchemaRequest(), Call("me")))


@pytest.mark.parametrize(("deadline", "error"), [(None, Cancelled), (Deadline(0), PeerTimeout)])
def test_a_stream_whose_call_is_over_does_not_begin(
    host: Host, deadline: Deadline | None, error: type[Exception]
) -> None:
    call = Call("me", deadline)
    call.end()
    with pytest.raises(error, match=COUNTING.name):
        next(host.stream(COUNTING, COUNTING.request(), call))
