"""One lease that all clients share who did not attach: who may join, who gets the engine alone, and when."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lucky_transport.engine import Buffers
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import Busy, Cancelled
from lucky_transport.host.driver_lease import Driver, DriverLease
from lucky_transport.host.host import Host
from tests.core.host.lease_steps import step_as
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def shared(host: Host) -> DriverLease:
    return DriverLease(host, shared=True)


def test_clients_that_did_not_attach_share_the_lease(shared: DriverLease) -> None:
    for client in ("a", "b", "a", "c"):
        step_as(shared, client)
    assert (shared.leases, shared.frames) == (1, 4)


def test_who_wants_the_engine_alone_waits_until_all_who_share_it_are_gone(host: Host, shared: DriverLease) -> None:
    gone: set[str] = set()
    for client in ("a", "b"):
        step_as(shared, client, 3600.0, is_gone=lambda client=client: client in gone)
    shared.attach("c", "the third")
    for client, left in (("a", "b"), ("b", "")):
        with pytest.raises(Busy, match="is driven by"):
            step_as(shared, "c")
        shared.leave(client) if client == "a" else gone.add(client)
        if left:
            assert host.driver == left
    step_as(shared, "c")
    assert host.driver == "the third"


def test_who_wants_the_engine_alone_gets_it_when_none_who_share_it_calls(host: Host, shared: DriverLease) -> None:
    for client in ("a", "b"):
        step_as(shared, client, 0.0)
    host.drive("the trainer", Buffers.allocate(host.spec))
    for client in ("a", "b"):
        with pytest.raises(Busy, match="is driven by the trainer"):
            step_as(shared, client, 0.0)


def test_an_attached_client_shares_with_none(host: Host, shared: DriverLease) -> None:
    shared.attach("a", "the first")
    step_as(shared, "a", 0.0)
    with pytest.raises(Busy, match="is driven by the first"):
        step_as(shared, "b")
    shared.detach("a")
    step_as(shared, "b")
    step_as(shared, "c")
    assert host.driver == "b"


def test_a_client_that_attaches_while_others_share_must_wait_for_them(shared: DriverLease) -> None:
    for client in ("a", "b"):
        step_as(shared, client)
    shared.attach("a", "the first")
    with pytest.raises(Busy):
        step_as(shared, "a")
    step_as(shared, "b")
    shared.leave("b")
    step_as(shared, "a")
    with pytest.raises(Busy, match="is driven by the first"):
        step_as(shared, "b")


def test_who_reports_the_end_of_a_run_gives_back_its_own_share(host: Host, shared: DriverLease) -> None:
    for client in ("a", "b"):
        step_as(shared, client)
    shared.leave("a")
    assert host.driver == "b"
    shared.leave("b")
    assert host.driver == ""


def test_the_number_of_a_step_is_its_clients_own(shared: DriverLease) -> None:
    done: list[str] = []

    def once(client: str) -> None:
        shared.once((client, 0), 1, lambda: done.append(client))

    for client in ("a", "b", "a"):
        shared.run(Driver(client), 1.0, partial(once, client))
    assert done == ["a", "b"]


def test_a_call_that_ended_while_it_waited_does_nothing(shared: DriverLease) -> None:
    over = threading.Event()
    outcome: list[str] = []

    def wait() -> None:
        try:
            step_as(shared, "b", is_over=over.is_set)
        except Cancelled as error:
            outcome.append(str(error))

    waiter = threading.Thread(target=wait)

    def turn() -> None:
        waiter.start()
        over.set()

    shared.run(Driver("a"), 1.0, turn)
    waiter.join(PATIENCE_S)
    assert outcome == ["the call ended before its turn came"]
    assert (shared.leases, shared.frames) == (1, 0)


class Sharing(RuleBasedStateMachine):
    """Clients come, step, attach, leave and vanish in any order; a model says who may step."""

    clients = st.sampled_from("abcd")

    def __init__(self) -> None:
        super().__init__()
        self.host = Host(ToyEngine(1))
        self.lease = DriverLease(self.host, shared=True)
        self.gone: set[str] = set()
        self.attached: set[str] = set()
        self.left: set[str] = set()  # detached: their calls are late ones
        self.drivers: set[str] = set()
        self.steps = 0

    def teardown(self) -> None:
        self.host.close()

    @rule(client=clients)
    def step(self, client: str) -> None:
        others = self.drivers - {client} - self.gone
        kept = client not in self.drivers and len(others) == 1 and bool(others & self.attached)
        alone = client in self.attached or kept
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


TestSharing = Sharing.TestCase
