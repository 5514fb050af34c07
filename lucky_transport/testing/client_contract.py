"""Tests of `TransportContract`: the typed clients, synchronous and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import pytest

from lucky_transport.aio import AsyncStream
from lucky_transport.client import AsyncClient, Client
from lucky_transport.endpoint import Endpoint
from lucky_transport.engine import RESET
from lucky_transport.errors import Cancelled, ClosedError, PeerTimeout, Unimplemented
from lucky_transport.testing.needs import needs
from lucky_transport.testing.suite import PATIENCE_S, STOPPED, TransportSuite, every, zeros

_ITEMS = 300


async def _waiting(client: AsyncClient) -> tuple[Any, asyncio.Task[Any]]:
    """Return a stream, and a task that waits for its second item, which is due in a second."""
    stream = client.telemetry.stream(fps=1)
    await anext(stream)
    task = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.05)
    return stream, task


@needs("streams")
class ClientContract(TransportSuite):
    """The part of `TransportContract` about typed clients."""

    @needs("commands", "streams")
    def test_a_program_uses_services_streams_and_steps_over_one_connection(self) -> None:
        with self.open_client() as transport:
            client = Client(transport)
            transport.step(zeros(transport), every(transport, RESET))
            entities = client.scene.list_entities(include_transforms=True).entities
            assert [one.name for one in entities] == [f"agent_{env}" for env in range(4)]
            for frame in client.telemetry.stream(fps=500):
                assert len(frame.observation_qpos) == 8
                break
            assert transport.step(zeros(transport)).observations.any()

    @needs("commands")
    def test_tasks_call_side_by_side(self) -> None:
        async def use(client: AsyncClient) -> None:
            names = [f"agent_{number % 4}" for number in range(40)]
            found = await asyncio.gather(*(client.agent.get_schema(name) for name in names))
            assert [one.schema.agent_name for one in found if one.schema is not None] == names
            with pytest.raises(Unimplemented, match="does not implement"):
                await client.debug.draw()

        self._run(use)

    def test_a_task_gets_every_item_of_a_stream_that_skips_none(self) -> None:
        async def use(client: AsyncClient) -> None:
            found = [item.slot_id async for item in client.agent.stream_policy_slot_state(1)]
            assert found == list(range(_ITEMS))

        self._run(use, slots=_ITEMS)

    def test_a_cancelled_task_leaves_its_stream_and_the_connection_works_on(self) -> None:
        async def use(client: AsyncClient) -> None:
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
            stream = client.agent.stream_policy_slot_state(1)
            assert (await anext(stream)).slot_id == 0
            for _ in range(50):
                await client.agent.get_schema()
            stream.cancel()
            for _ in range(2):
                with pytest.raises(Cancelled):
                    await anext(stream)

        self._run(use, slots=3)

    def test_a_stream_cancelled_before_a_task_has_read_of_it_gives_nothing(self) -> None:
        async def use(client: AsyncClient) -> None:
            stream = client.telemetry.stream(fps=200)
            stream.cancel()
            assert stream.dropped == 0
            for _ in range(2):
                with pytest.raises(Cancelled, match="StreamTelemetry was cancelled"):
                    await anext(stream)
            assert (await client.agent.get_schema()).schema is not None

        self._run(use)

    def test_a_stream_that_a_task_has_read_to_its_end_stays_ended(self) -> None:
        async def use(client: AsyncClient) -> None:
            stream = client.agent.stream_policy_slot_state(1)
            assert [item.slot_id async for item in stream] == [0, 1, 2]
            stream.cancel()
            assert [item async for item in stream] == []

        self._run(use, slots=3)

    def test_a_task_gets_nothing_more_of_a_stream_that_was_late(self) -> None:
        async def use(client: AsyncClient) -> None:
            await self._check_stays_over(client.telemetry.stream(fps=1000, timeout_s=0.3), PeerTimeout, client)

        self._run(use)

    def test_a_task_gets_nothing_more_of_a_stream_whose_engine_has_stopped(self) -> None:
        async def use(client: AsyncClient) -> None:
            stream = client.telemetry.stream(fps=1000, timeout_s=PATIENCE_S)
            await anext(stream)
            await asyncio.to_thread(serving.close)
            await self._check_stays_over(stream, STOPPED)

        with ExitStack() as serving:
            self._use(serving.enter_context(self.serve()), use)

    async def _check_stays_over(self, stream: AsyncStream, error: Any, client: AsyncClient | None = None) -> None:
        """Fail unless the stream ends with that error, and with the same again whatever comes to `client` meanwhile."""
        with pytest.raises(error) as first:
            async for _ in stream:
                pass
        for _ in range(3):
            if client is not None:
                await asyncio.gather(*(client.agent.get_schema() for _ in range(50)))
            with pytest.raises(first.type) as later:
                await anext(stream)
            assert str(later.value) == str(first.value)

    def test_a_closed_client_ends_the_tasks_that_wait(self) -> None:
        async def use(client: AsyncClient) -> None:
            _, waiting = await _waiting(client)
            await client.close()
            with pytest.raises((Cancelled, ClosedError)):
                await waiting
            with pytest.raises(ClosedError):
                await client.agent.get_schema()

        self._run(use)

    def _run(self, use: Callable[[AsyncClient], Awaitable[None]], **options: Any) -> None:
        """As `_use`, with a fresh engine."""
        with self.serve(**options) as endpoint:
            self._use(endpoint, use)

    def _use(self, endpoint: Endpoint, use: Callable[[AsyncClient], Awaitable[None]]) -> None:
        """Run `use` in an event loop of its own, with an asyncio client of the engine at `endpoint`."""
        transport = self.connect(endpoint)  # not on a thread of the client's, where a skip would not be noticed

        async def main() -> None:
            async with AsyncClient(lambda: transport) as client:
                await asyncio.wait_for(use(client), PATIENCE_S)

        asyncio.run(main())
