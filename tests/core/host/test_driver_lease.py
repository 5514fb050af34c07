"""Who drives: one client, until it goes or is idle and cannot say that it goes; or all who did not attach, together."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lucky_transport.engine import HOLD, RESET, Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import Busy, Cancelled, EngineFailed, LocalProtocolError, PeerTimeout
from lucky_transport.host.driver_lease import STEP, Driver, DriverLease, only
from lucky_transport.host.host import Host
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def lease(host: Host) -> DriverLease:
    return DriverLease(host)


@pytest.fixture
def shared(host: Host) -> DriverLease:
    return DriverLease(host, shared=True)


def step_as(lease: DriverLease, client: str, idle_s: float = 10.0, **more: Any) -> None:
    lease.run(Driver(client, idle_s=idle_s, **more), 1.0, lambda: lease.exchange(None))


def _wait_briefly(lease: DriverLease) -> None:
    lease.run(Driver("b", idle_s=0.0), 0.05, lambda: None)


def test_an_exchange_is_refused_outside_run_and_on_another_thread_than_that_of_run(lease: DriverLease) -> None:
    def refused() -> bool:
        with pytest.raises(LocalProtocolError, match="an exchange outside `run`"):
            lease.exchange(None)
        return True

    def act() -> bool:
        lease.exchange(None)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(refused).result(PATIENCE_S)

    assert refused()
    assert lease.run(Driver("a"), 1.0, act)
    assert refused()
    assert lease.frames == 1


def test_a_client_that_does_nothing_may_be_replaced(host: Host, lease: DriverLease) -> None:
    step_as(lease, "a", idle_s=0.0)
    step_as(lease, "b", name="the second")
    assert host.driver == "the second"


def test_a_client_that_is_about_to_be_gone_is_waited_for_where_there_is_patience(host: Host) -> None:
    looks = iter([False, False])
    lease = DriverLease(host)
    step_as(lease, "a", is_gone=lambda: next(looks, True))
    step_as(lease, "b", handover_s=10.0)
    assert host.driver == "b"


def test_a_client_that_is_there_is_not_waited_for_longer_than_that(lease: DriverLease) -> None:
    step_as(lease, "a")
    start = time.monotonic()
    with pytest.raises(Busy, match="is driven by a;"):
        step_as(lease, "b", handover_s=0.05)
    assert time.monotonic() - start >= 0.05


def test_a_client_that_acts_meanwhile_is_there_and_not_waited_for(lease: DriverLease) -> None:
    def is_gone() -> bool:  # whenever we look whether it has gone, it steps
        step_as(lease, "a", is_gone=is_gone)
        return False

    step_as(lease, "a", is_gone=is_gone)
    with pytest.raises(Busy, match="is driven by a;"):
        step_as(lease, "b", handover_s=3600.0)


@pytest.mark.parametrize("how", ["attached", "elsewhere"])
def test_a_client_that_will_say_goodbye_is_not_waited_for(host: Host, how: str) -> None:
    lease = DriverLease(host)
    if how == "attached":
        lease.attach("a", "the first")
        step_as(lease, "a")
    else:
        host.drive("the first", Buffers.allocate(host.spec))
    with pytest.raises(Busy, match="is driven by the first;"):
        step_as(lease, "b", handover_s=3600.0)


@pytest.mark.parametrize("shared", [False, True])
def test_an_attached_client_may_do_nothing_for_as_long_as_it_likes(host: Host, shared: bool) -> None:
    lease = DriverLease(host, shared=shared)
    lease.attach("a", "the first")
    step_as(lease, "a", idle_s=0.0)
    with pytest.raises(Busy, match="the first"):
        step_as(lease, "b")
    lease.detach("a")
    assert host.driver == ""
    step_as(lease, "b")


def test_a_client_that_lost_the_lease_may_take_it_again_when_it_is_free(host: Host, lease: DriverLease) -> None:
    step_as(lease, "a", 0.0)
    other = host.drive("somebody over another transport", Buffers.allocate(host.spec))
    with pytest.raises(Busy, match="somebody over another transport"):
        step_as(lease, "a", 0.0)
    other.step(None)
    other.release()
    step_as(lease, "a", 0.0)


def test_a_step_that_does_not_end_makes_others_wait_only_so_long(lease: DriverLease) -> None:
    def turn() -> None:
        with ThreadPoolExecutor(1) as pool, pytest.raises(PeerTimeout, match=r"exchange before this one within 0\.05"):
            pool.submit(_wait_briefly, lease).result(PATIENCE_S)

    lease.run(Driver("a", idle_s=0.0), 1.0, turn)


def test_frame_numbers_start_again_with_each_reset(lease: DriverLease) -> None:
    def turn() -> None:
        lease.exchange(None)
        lease.exchange(np.array([RESET, STEP, HOLD], np.uint8))
        assert lease.frame_numbers.tolist() == [1, 2, 1]
        assert lease.frames == 2

    lease.run(Driver("a", idle_s=0.0), 1.0, turn)


def test_stepping_an_env_makes_it_stale(lease: DriverLease) -> None:
    def turn() -> None:
        lease.fresh[:] = True
        lease.exchange(np.array([STEP, HOLD, RESET], np.uint8))
        assert lease.fresh.tolist() == [False, True, False]

    lease.run(Driver("a", idle_s=0.0), 1.0, turn)


def test_a_new_driver_inherits_nothing(lease: DriverLease) -> None:
    def of_the_first() -> None:
        lease.once("key", 4, lambda: None)
        lease.fresh[:] = True

    def of_the_second() -> None:
        assert lease.last_seq("key") == 0
        assert not lease.fresh.any()

    lease.run(Driver("a", idle_s=0.0), 1.0, of_the_first)
    lease.run(Driver("b", idle_s=0.0), 1.0, of_the_second)


def test_once_does_an_action_once_per_number_and_repeats_its_error(lease: DriverLease) -> None:
    done: list[int] = []

    def fail() -> None:
        done.append(2)
        raise EngineFailed("it broke")

    def turn() -> None:
        for _ in range(2):
            lease.once("key", 1, lambda: done.append(1))
        for _ in range(2):
            with pytest.raises(EngineFailed, match=r"^it broke$"):
                lease.once("key", 2, fail)

    lease.run(Driver("a", idle_s=0.0), 1.0, turn)
    assert done == [1, 2]


def test_control_bytes_hold_everybody_else() -> None:
    spec = ToyEngine(4).spec
    held = only(spec, [2, 0], RESET)
    assert held.tolist() == [RESET, HOLD, RESET, HOLD]
    assert only(spec, [3, 1, 0, 2], STEP).tolist() == [STEP] * 4
    with pytest.raises(LocalProtocolError, match="cannot hold"):
        only(ToyEngine(2, hold=False).spec, [1], STEP)


def test_only_who_was_let_in_by_a_server_is_put_out_by_it(host: Host) -> None:
    lease, here, there = DriverLease(host), object(), object()
    step_as(lease, "a", via=here)
    lease.release(there)
    assert host.driver == "a"
    lease.release(here)
    assert host.driver == ""


def test_a_handler_that_raises_in_a_turn_leaves_the_engine_to_others(host: Host, lease: DriverLease) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as kept:  # and with it the frames of the turn
        lease.run(Driver("a", idle_s=0.0), 1.0, interrupted)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_wait_briefly, lease).result(PATIENCE_S)
    assert kept.value is not None


def test_who_wants_the_engine_alone_gets_it_when_none_who_share_it_calls(host: Host, shared: DriverLease) -> None:
    for client in ("a", "b"):
        step_as(shared, client, 0.0)
    host.drive("the trainer", Buffers.allocate(host.spec))
    for client in ("a", "b"):
        with pytest.raises(Busy, match="is driven by the trainer"):
            step_as(shared, client, 0.0)


def test_the_number_of_a_step_is_its_clients_own(shared: DriverLease) -> None:
    done: list[str] = []

    def once(client: str) -> None:
        shared.once((client, 0), 1, lambda: done.append(client))

    for client in ("a", "b", "a"):
        shared.run(Driver(client), 1.0, partial(once, client))
    assert done == ["a", "b"]


def test_a_call_that_ended_while_it_waited_does_nothing(shared: DriverLease) -> None:
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:

        def turn() -> Future[None]:
            waiting = pool.submit(step_as, shared, "b", is_over=over.is_set)
            over.set()
            return waiting

        with pytest.raises(Cancelled, match=r"^the call ended before its turn came$"):
            shared.run(Driver("a"), 1.0, turn).result(PATIENCE_S)
    assert (shared.leases, shared.frames) == (1, 0)


class Driving(RuleBasedStateMachine):
    """Clients come, step, attach, leave and vanish in any order; a model says who may step."""

    clients = st.sampled_from("abcd")

    def __init__(self) -> None:
        super().__init__()
        self.host = Host(ToyEngine(1))
        self.gone: set[str] = set()
        self.attached: set[str] = set()
        self.left: set[str] = set()  # detached: their calls are late ones
        self.drivers: set[str] = set()
        self.steps = 0

    @initialize(shared=st.booleans())
    def begin(self, shared: bool) -> None:
        self.shared, self.lease = shared, DriverLease(self.host, shared=shared)

    def teardown(self) -> None:
        self.host.close()

    @rule(client=clients)
    def step(self, client: str) -> None:
        others = self.drivers - {client} - self.gone
        kept = client not in self.drivers and len(others) == 1 and bool(others & self.attached)
        alone = client in self.attached or kept or not self.shared
        self.gone.discard(client)
        try:
            step_as(self.lease, client, 3600.0, is_gone=lambda: client in self.gone)
        except Busy:
            assert alone
            assert others
            self.drivers -= self.gone  # whoever is gone is forgotten then
        except Cancelled:
            assert client in self.left
            self.drivers = others
        else:
            assert client not in self.left
            assert not (alone and others)
            self.drivers = others | {client}
            self.steps += 1

    @rule(client=clients)
    def attach(self, client: str) -> None:
        self.attached.add(client)
        self.left.discard(client)
        self.gone.discard(client)
        self.lease.attach(client, f"attached {client}")

    @precondition(lambda self: self.attached)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(sorted(self.attached)))
        self.lease.detach(client)
        self.attached.discard(client)
        self.drivers.discard(client)
        self.left.add(client)

    @rule(client=clients)
    def leave(self, client: str) -> None:
        self.lease.leave(client)
        self.drivers.discard(client)

    @rule(client=clients)
    def vanish(self, client: str) -> None:
        if client not in self.attached:
            self.gone.add(client)

    @invariant()
    def the_host_knows_a_driver_while_there_is_one(self) -> None:
        assert bool(self.host.driver) or not (self.drivers - self.gone)


TestDriving = Driving.TestCase
