"""One client drives; it gives the lease up when it goes, or when it is idle and cannot say that it goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from lucky_transport.agents.agents import AgentHost
from lucky_transport.agents.lease import STEP, Driver, DriverLease, only
from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import Busy, Cancelled, EngineFailed, LocalProtocolError, PeerTimeout


@pytest.fixture
def host() -> Generator[AgentHost]:
    host = AgentHost(ToyEngine(3))
    yield host
    host.close()


def _step(lease: DriverLease, client: str, idle_s: float = 10.0, **more: Any) -> None:
    with lease.holding(Driver(client, idle_s=idle_s, **more), 1.0):
        lease.exchange(None)


def test_a_second_client_is_refused_and_told_who_drives(host: AgentHost) -> None:
    lease = DriverLease(host)
    _step(lease, "a")
    with pytest.raises(Busy, match="is driven by a; close that client first"):
        _step(lease, "b")
    _step(lease, "a")


def test_a_client_that_does_nothing_may_be_replaced(host: AgentHost) -> None:
    lease = DriverLease(host)
    _step(lease, "a", idle_s=0.0)
    _step(lease, "b", name="the second")
    assert host.driver == "the second"


def test_a_client_that_disconnected_is_replaced_at_once(host: AgentHost) -> None:
    gone: set[str] = set()
    lease = DriverLease(host)
    _step(lease, "a", 3600.0, is_gone=lambda: "a" in gone)
    with pytest.raises(Busy):
        _step(lease, "b")
    gone.add("a")
    _step(lease, "b")


def test_a_client_that_is_about_to_be_gone_is_waited_for_where_there_is_patience(host: AgentHost) -> None:
    looks = iter([False, False])
    lease = DriverLease(host)
    _step(lease, "a", is_gone=lambda: next(looks, True))
    _step(lease, "b", handover_s=10.0)
    assert host.driver == "b"


def test_a_client_that_is_there_is_not_waited_for_longer_than_that(host: AgentHost) -> None:
    lease = DriverLease(host)
    _step(lease, "a")
    start = time.monotonic()
    with pytest.raises(Busy, match="is driven by a;"):
        _step(lease, "b", handover_s=0.05)
    assert time.monotonic() - start >= 0.05


def test_a_client_that_acts_meanwhile_is_there_and_not_waited_for(host: AgentHost) -> None:
    lease = DriverLease(host)

    def is_gone() -> bool:  # whenever we look whether it has gone, it steps
        _step(lease, "a", is_gone=is_gone)
        return False

    _step(lease, "a", is_gone=is_gone)
    with pytest.raises(Busy, match="is driven by a;"):
        _step(lease, "b", handover_s=3600.0)


@pytest.mark.parametrize("how", ["attached", "elsewhere"])
def test_a_client_that_will_say_goodbye_is_not_waited_for(host: AgentHost, how: str) -> None:
    lease = DriverLease(host)
    if how == "attached":
        lease.attach("a", "the first")
        _step(lease, "a")
    else:
        host.drive("the first", Buffers.allocate(host.spec))
    with pytest.raises(Busy, match="is driven by the first;"):
        _step(lease, "b", handover_s=3600.0)


def test_an_attached_client_may_do_nothing_for_as_long_as_it_likes(host: AgentHost) -> None:
    lease = DriverLease(host)
    lease.attach("a", "the first")
    _step(lease, "a", idle_s=0.0)
    with pytest.raises(Busy, match="the first"):
        _step(lease, "b")
    lease.detach("a")
    assert host.driver == ""
    _step(lease, "b")


def test_a_step_that_comes_after_its_client_has_gone_takes_nothing(host: AgentHost) -> None:
    lease = DriverLease(host)
    lease.attach("a", "the first")
    lease.detach("a")
    with pytest.raises(Cancelled, match="client a has gone"):
        _step(lease, "a")
    assert host.driver == ""
    _step(lease, "b")
    lease.leave("b")
    lease.attach("a", "the first")  # and is back
    _step(lease, "a")


def test_a_client_that_lost_the_lease_may_take_it_again_when_it_is_free(host: AgentHost) -> None:
    lease = DriverLease(host)
    _step(lease, "a", 0.0)
    other = host.drive("somebody over another transport", Buffers.allocate(host.spec))
    with pytest.raises(Busy, match="somebody over another transport"):
        _step(lease, "a", 0.0)
    other.step(None)
    other.release()
    _step(lease, "a", 0.0)


def test_who_takes_the_lease_sees_the_last_frame(host: AgentHost) -> None:
    lease = DriverLease(host)
    other = host.drive("before", buffers := Buffers.allocate(host.spec))
    other.step(np.full(3, RESET, np.uint8))
    other.release()
    with lease.holding(Driver("a", idle_s=0.0), 1.0):
        assert lease.buffers.observations.tobytes() == buffers.observations.tobytes()


def test_a_step_that_does_not_end_makes_others_wait_only_so_long(host: AgentHost) -> None:
    lease = DriverLease(host)
    with lease.holding(Driver("a", idle_s=0.0), 1.0):
        failures: list[Any] = []

        def wait() -> None:
            try:
                _wait_briefly(lease)
            except PeerTimeout as error:
                failures.append(str(error))

        waiter = threading.Thread(target=wait)
        waiter.start()
        waiter.join(10)
    assert "did not finish the exchange before this one within 0.05 s" in failures[0]


def _wait_briefly(lease: DriverLease) -> None:
    with lease.holding(Driver("b", idle_s=0.0), 0.05):
        pass


def test_frame_numbers_start_again_with_each_reset(host: AgentHost) -> None:
    lease = DriverLease(host)
    with lease.holding(Driver("a", idle_s=0.0), 1.0):
        lease.exchange(None)
        lease.exchange(np.array([RESET, STEP, HOLD], np.uint8))
        assert lease.frame_numbers.tolist() == [1, 2, 1]
        assert lease.frames == 2


def test_stepping_an_env_makes_it_stale(host: AgentHost) -> None:
    lease = DriverLease(host)
    with lease.holding(Driver("a", idle_s=0.0), 1.0):
        lease.fresh[:] = True
        lease.exchange(np.array([STEP, HOLD, RESET], np.uint8))
        assert lease.fresh.tolist() == [False, True, False]


def test_a_new_driver_inherits_nothing(host: AgentHost) -> None:
    lease = DriverLease(host)
    with lease.holding(Driver("a", idle_s=0.0), 1.0):
        lease.once("key", 4, lambda: None)
        lease.fresh[:] = True
    with lease.holding(Driver("b", idle_s=0.0), 1.0):
        assert lease.last_seq("key") == 0
        assert not lease.fresh.any()


def test_once_does_an_action_once_per_number_and_repeats_its_error(host: AgentHost) -> None:
    lease = DriverLease(host)
    done: list[int] = []

    def fail() -> None:
        done.append(2)
        raise EngineFailed("it broke")

    with lease.holding(Driver("a", idle_s=0.0), 1.0):
        for _ in range(2):
            lease.once("key", 1, lambda: done.append(1))
        for _ in range(2):
            with pytest.raises(EngineFailed, match=r"^it broke$"):
                lease.once("key", 2, fail)
    assert done == [1, 2]


def test_control_bytes_hold_everybody_else() -> None:
    spec = ToyEngine(4).spec
    held = only(spec, [2, 0], RESET)
    assert held.tolist() == [RESET, HOLD, RESET, HOLD]
    assert only(spec, [3, 1, 0, 2], STEP).tolist() == [STEP] * 4
    with pytest.raises(LocalProtocolError, match="cannot hold"):
        only(ToyEngine(2, hold=False).spec, [1], STEP)


def test_only_who_was_let_in_by_a_server_is_put_out_by_it(host: AgentHost) -> None:
    lease, here, there = DriverLease(host), object(), object()
    _step(lease, "a", via=here)
    lease.release(there)
    assert host.driver == "a"
    lease.release(here)
    assert host.driver == ""


def test_clients_of_one_program_share_the_lease_until_all_of_them_have_gone(host: AgentHost) -> None:
    lease = DriverLease(host)
    gone: set[str] = set()

    def step(client: str, program: str) -> None:
        _step(lease, client, 3600.0, is_gone=lambda: client in gone, program=lambda: program)

    for client in ("blocking", "asyncio", "blocking"):
        step(client, "7:1")
    assert (lease.leases, lease.frames) == (1, 3)
    for program in ("8:1", ""):
        with pytest.raises(Busy, match="is driven by blocking;"):
            step("another", program)
    gone.add("blocking")
    with pytest.raises(Busy):
        step("another", "8:1")
    gone.add("asyncio")
    step("another", "8:1")
    assert lease.leases == 2


def test_an_address_that_was_quiet_may_be_another_programs(host: AgentHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lucky_transport.agents.lease._KNOWN_S", 0.0)
    lease = DriverLease(host)
    programs = {"a": "7:1", "b": "7:1"}
    for client in ("a", "b", "a"):
        _step(lease, client, 3600.0, program=lambda client=client: programs[client])
    programs["b"] = "8:1"
    with pytest.raises(Busy):
        _step(lease, "b", 3600.0, program=lambda: programs["b"])


def test_clients_whose_program_is_not_known_do_not_share(host: AgentHost) -> None:
    lease = DriverLease(host)
    _step(lease, "a", 3600.0)
    with pytest.raises(Busy):
        _step(lease, "b", 3600.0)


def test_who_reports_the_end_of_a_run_gives_back_its_programs_lease(host: AgentHost) -> None:
    lease = DriverLease(host)
    for client in ("a", "b"):
        _step(lease, client, 3600.0, program=lambda: "7:1")
    lease.leave("b")
    _step(lease, "another", 3600.0)
