"""Tests of `TransportContract`: the typed clients, synchronous and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lucky_transport.client import AsyncClient, Client
from lucky_transport.engine import RESET
from lucky_transport.errors import Cancelled, ClosedError, Unimplemented
from lucky_transport.testing.suite import PATIENCE_S, TransportSuite, every, zeros

__all__ = ["ClientContract"]

_ITEMS = 300


async def _waiting(client: AsyncClient) -> tuple[Any, asyncio.Task[Any]]:
    """Return a stream, and a task that waits for its second item, which is due in a second."""
    stream = client.telemetry.stream(fps=1)
    await anext(stream)
    task = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.05)
    return stream, task


class ClientContract(TransportSuite):
    """The part of `TransportContract` about typed clients."""

    def test_a_program_uses_services_streams_and_steps_over_one_connection(self) -> None:
        with self.open_client(needs="commands") as transport:
            client = Client(transport)
            transport.step(zeros(transport), every(transport, RESET))
            entities = client.scene.list_entities(include_transforms=True).entities
            assert [one.name for one in entities] == [f"agent_{env}" for env in range(4)]
            self.require(transport, "streams")
            for frame in client.telemetry.stream(fps=500):
                assert len(frame.observation_qpos) == 8
                break
            assert transport.step(zeros(transport)).observations.any()

    def test_tasks_call_side_by_side(self) -> None:
        async def use(client: AsyncClient) -> None:
            self.require(client.transport, "commands")
            names = [f"agent_{number % 4}" for number in range(40)]
            found = await asyncio.gather(*(client.agent.get_schema(name) for name in names))
            assert [one.schema.agent_name for one in found if one.schema is not None] == names
            with pytest.raises(Unimplemented, match="does not implement"):
                await client.debug.draw()

        self._run(use)

    def test_a_task_gets_every_item_of_a_stream_that_skips_none(self) -> None:
        async def use(client: AsyncClient) -> None:
            self.require(client.transport, "streams")
            found = [item.slot_id async for item in client.agent.stream_policy_slot_state(1)]
            assert found == list(range(_ITEMS))

        self._run(use, slots=_ITEMS)

    def test_a_cancelled_task_leaves_its_stream_and_the_connection_works_on(self) -> None:
        async def use(client: AsyncClient) -> None:
            self.require(client.transport, "streams")
            stream, waiting = await _waiting(client)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(Cancelled):
                await anext(stream)
            assert (await client.agent.get_schema()).schema is not None

        self._run(use)

    def test_after_a_cancel_a_task_gets_nothing_of_a_stream_that_had_come_whole(self) -> None:
        async def use(client: AsyncClient) -> None:
            self.require(client.transport, "streams")
            stream = client.agent.stream_policy_slot_state(1)
            assert (await anext(stream)).slot_id == 0
            for _ in range(50):
                await client.agent.get_schema()
            stream.cancel()
            for _ in range(2):
                with pytest.raises(Cancelled):
                    await anext(stream)

        self._run(use, slots=3)

    def test_a_stream_that_a_task_has_read_to_its_end_stays_ended(self) -> None:
        async def use(client: AsyncClient) -> None:
            self.require(client.transport, "streams")
            stream = client.agent.stream_policy_slot_state(1)
            assert [item.slot_id async for item in stream] == [0, 1, 2]
            stream.cancel()
            assert [item async for item in stream] == []

        self._run(use, slots=3)

    def test_a_closed_client_ends_the_tasks_that_wait(self) -> None:
        async def use(client: AsyncClient) -> None:
            self.require(client.transport, "streams")
            _, waiting = await _waiting(client)
            await client.close()
            with pytest.raises((Cancelled, ClosedError)):
                await waiting
            with pytest.raises(ClosedError):
                await client.agent.get_schema()

        self._run(use)

    def _run(self, use: Callable[[AsyncClient], Awaitable[None]], **options: Any) -> None:
        """Run `use` in an event loop of its own, with an asyncio client of a fresh engine."""

        async def main(endpoint: Any) -> None:
            async with AsyncClient(lambda: self.connect(endpoint)) as client:
                await asyncio.wait_for(use(client), PATIENCE_S)

        with self.serve(**options) as endpoint:
            asyncio.run(main(endpoint))
