"""Sessions of one program, and several programs, step one engine, as with LuckyEngine."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

#: A second program, a notebook for instance: it steps once for each line that it reads.
_NOTEBOOK = """
import sys
import luckyrobots
client = luckyrobots.LuckyEngineClient(host="127.0.0.1", port=int(sys.argv[1]), robot_name="quadruped")
client.connect()
for _ in sys.stdin:
    print(client.step([0.1] * 12).frame_number, flush=True)
"""
_ACTIONS = [0.1] * 12


def test_a_blocking_and_an_asyncio_session_of_one_program_step_one_engine(lucky: Any, session: Any, port: int) -> None:
    pb = lucky.client.agent_pb2

    async def alternate() -> list[int]:
        numbers: list[int] = []
        async with lucky.AsyncSession(port=port) as other:
            await other.connect(timeout_s=20.0)
            assert (await other.agent.ResetAgent(pb.ResetAgentRequest())).success
            for _ in range(5):
                step = await other.agent.Step(pb.StepRequest(actions=_ACTIONS))
                numbers += [step.observation.frame_number, session.step(_ACTIONS).frame_number]
        return numbers

    assert asyncio.run(alternate()) == list(range(2, 12))


def test_both_kinds_of_session_step_at_once(lucky: Any, session: Any, port: int) -> None:
    pb = lucky.client.agent_pb2

    async def together() -> list[int]:
        async with lucky.AsyncSession(port=port) as other:
            await other.connect(timeout_s=20.0)
            blocking, steps = await asyncio.gather(
                asyncio.to_thread(lambda: [session.step(_ACTIONS).frame_number for _ in range(20)]),
                asyncio.gather(*(other.agent.Step(pb.StepRequest(actions=_ACTIONS)) for _ in range(20))),
            )
            return [*blocking, *(step.observation.frame_number for step in steps)]

    session.reset()
    assert sorted(asyncio.run(together())) == list(range(2, 42))


def test_a_notebook_beside_a_script_steps_too(session: Any, port: int, environment: dict[str, str]) -> None:
    session.reset()
    command = [sys.executable, "-c", _NOTEBOOK, str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as notebook:
        assert notebook.stdin is not None
        assert notebook.stdout is not None
        numbers: list[int] = []
        for _ in range(3):
            numbers.append(session.step(_ACTIONS).frame_number)
            notebook.stdin.write("\n")
            notebook.stdin.flush()
            numbers.append(int(notebook.stdout.readline()))
        notebook.stdin.close()
    assert numbers == [2, 3, 4, 5, 6, 7]
