"""AsyncSession and AsyncRobotController: the same calls under asyncio."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

Flow = Callable[[Any], Awaitable[Any]]


@pytest.fixture
def run(lucky: Any, port: int) -> Callable[[Flow], Any]:
    """Run a flow with a connected AsyncSession."""

    async def connected(flow: Flow) -> Any:
        async with lucky.AsyncSession(port=port) as session:
            await session.connect(timeout_s=20.0)
            return await flow(session)

    return lambda flow: asyncio.run(connected(flow))


@pytest.fixture
def run_robot(lucky: Any, run: Any) -> Callable[[Flow], Any]:
    """Run a flow with the AsyncRobotController of the only robot; no slot is active afterwards."""

    async def with_robot(session: Any, flow: Flow) -> Any:
        (state,) = await session.list_robot_controllers()
        robot = lucky.AsyncRobotController.from_state(session, state)
        try:
            return await flow(robot)
        finally:
            for slot in state.slots:
                await robot.set_policy_active(slot.slot_id, False)

    return lambda flow: run(lambda session: with_robot(session, flow))


def test_many_calls_at_once_are_all_answered(run: Any, lucky: Any) -> None:
    pb = lucky.client.mujoco_scene_pb2

    async def flow(session: Any) -> Any:
        return await asyncio.gather(
            *(session.mujoco_scene.GetModelInfo(pb.GetModelInfoRequest()) for _ in range(8)),
            session.list_robot_controllers(),
            session.list_policy_descriptors(),
        )

    *models, controllers, policies = run(flow)
    assert [model.nu for model in models] == [12] * 8
    assert [controller.entity_name for controller in controllers] == ["agent_0"]
    assert {policy.policy_id for policy in policies} == {"trot", "stand", "sway"}


def test_the_robot_is_reset_and_stepped(run: Any, lucky: Any) -> None:
    pb = lucky.client.agent_pb2

    async def flow(session: Any) -> Any:
        assert (await session.agent.ResetAgent(pb.ResetAgentRequest())).success
        return [await session.agent.Step(pb.StepRequest(actions=[0.0] * 12)) for _ in range(3)]

    assert [step.observation.frame_number for step in run(flow)] == [1, 2, 3]


def test_play_mode_and_scene_reset(run: Any) -> None:
    async def flow(session: Any) -> Any:
        left, entered = await session.exit_play_mode(), await session.enter_play_mode()
        return left.success, entered.success, (await session.reset_scene(preserve_time=True)).success

    assert run(flow) == (True, True, True)


def test_a_slot_is_activated_commanded_and_asked(run_robot: Any) -> None:
    async def flow(robot: Any) -> Any:
        await robot.set_policy_active("Trot", True)
        await robot.set_command_float("Trot", 1, 0.25)
        await robot.set_command_bool("Trot", 4, True)
        assert (await robot.get_state()).slot("Trot").active
        assert (await robot.get_command_float("Trot", 1), await robot.get_command_bool("Trot", 4)) == (0.25, True)
        assert (await robot.get_base_pose("Trot")).keys() >= {"x", "y", "yaw"}
        action, names = await robot.get_last_action("Trot")
        await robot.set_command_bool("Trot", 4, False)
        await robot.set_command_float("Trot", 1, 0.0)
        return len(action), len(names)

    assert run_robot(flow) == (12, 12)


def test_slots_are_changed(run_robot: Any) -> None:
    async def flow(robot: Any) -> None:
        before = (await robot.get_state()).slot("Sway")
        await robot.set_driven_joints("Sway", ["FL_hip_joint"])
        await robot.set_policy_priority("Sway", 2)
        await robot.set_policy_clamp_observation("Sway", True)
        await robot.set_policy_gains("Sway", {"FL_hip_joint": {"kp": 60.0}})
        await robot.clear_policy_gains("Sway")
        after = (await robot.get_state()).slot("Sway")
        assert (after.driven_joints, after.priority) == (("FL_hip_joint",), 2)
        await robot.set_policy_clamp_observation("Sway", False)
        await robot.set_policy_priority("Sway", before.priority)
        await robot.set_policy_descriptor("Sway", before.descriptor_path)
        assert (await robot.get_state()).slot("Sway") == before

    run_robot(flow)


def test_the_motion_graph_is_fed(run_robot: Any) -> None:
    async def flow(robot: Any) -> Any:
        await robot.set_motion_graph_active(True)
        await robot.set_motion_graph_input(3, 2)
        found = await robot.motion_graph_active_async(), await robot.get_motion_graph_input(3, "int")
        await robot.fire_motion_graph_trigger(5)
        await robot.set_motion_graph_input(3, 0)
        await robot.set_motion_graph_active(False)
        return found

    assert run_robot(flow) == (True, 2)


def test_refusals_are_raised_as_by_the_other_controller(run_robot: Any) -> None:
    async def flow(robot: Any) -> None:
        with pytest.raises(LookupError, match="not active"):
            await robot.get_last_action("Stand")
        with pytest.raises(RuntimeError, match="no slot 999"):
            await robot.set_policy_active(999, True)

    run_robot(flow)


def test_states_are_streamed_until_the_reader_stops(run_robot: Any) -> None:
    async def flow(robot: Any) -> Any:
        found = []
        async for state in robot.stream_state(target_fps=100):
            found.append(state.entity_name)
            if len(found) == 3:
                break
        async for slot in robot.stream_slot_state("Stand", target_fps=100):
            found.append(slot.name)
            break
        return found

    assert run_robot(flow) == ["agent_0"] * 3 + ["Stand"]


def test_nobody_there_is_a_timeout(lucky: Any, unused_port: int) -> None:
    async def connect() -> None:
        await lucky.AsyncSession(port=unused_port).connect(timeout_s=0.3)

    with pytest.raises(TimeoutError, match="not ready after"):
        asyncio.run(connect())


def test_a_blocking_and_an_asyncio_session_of_one_program_both_step(lucky: Any, run: Any, client: Any) -> None:
    pb = lucky.client.agent_pb2
    size = client.get_agent_schema().schema.action_size

    async def flow(session: Any) -> list[int]:
        numbers: list[int] = []
        for _ in range(3):
            answer = await session.agent.Step(pb.StepRequest(agent_name="agent_0", actions=[0.1] * size))
            numbers += [answer.observation.frame_number, client.step([0.1] * size).frame_number]
        return numbers

    assert client.reset_agent().success
    first = client.step([0.1] * size).frame_number
    assert run(flow) == [first + count for count in range(1, 7)]
