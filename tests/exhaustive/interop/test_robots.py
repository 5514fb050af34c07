"""RobotController, blocking and under asyncio, and what watches it; test_calls.py has each method."""

# pyright: basic
# Reason: luckyrobots ships no types.

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S

Flow = Callable[[Any], Awaitable[Any]]


def test_a_controller_is_found_by_id_and_name_and_its_slots_hold_policies(lucky: Any, session: Any) -> None:
    (state,) = lucky.list_robot_controllers(session)
    assert state.entity_name == "agent_0"
    assert session.robot(state.entity_id).get_state() == session.robot("agent_0").get_state() == state
    with pytest.raises(KeyError):
        session.robot("agent_9")
    entries = {entry.descriptor_path: entry for entry in lucky.list_policy_descriptors(session)}
    for slot, name in zip(state.slots, ("trot", "sway"), strict=True):
        entry = entries[slot.descriptor_path]
        assert slot.active_policy_id == entry.policy_id == name
        assert set(slot.driven_joints) <= set(slot.policy_joint_names) == set(entry.joints)
        assert slot.command_id_map == entry.command_id_map


def test_an_active_policy_walks_the_robot_in_steps_without_actions(session: Any, robot: Any) -> None:
    session.reset()
    with robot.policy_slot("Trot"):
        robot.commands("Trot")["SetVx"] = 0.5
        for _ in range(100):
            session.step()
        pose = robot.get_base_pose("Trot")
        action, names = robot.get_last_action("Trot")
    robot.commands("Trot")["SetVx"] = 0.0
    assert pose["x"] > 0.2
    assert (pose["x_hz"], pose["z_hz"], pose["yaw_hz"]) == (pose["x"], -pose["y"], pose["yaw"])
    assert (action.dtype, action.shape) == ("float32", (12,))
    assert abs(action).max() > 0
    assert names == list(session.engine_client.get_mujoco_info().joint_names)


# --- under asyncio ---


@pytest.fixture
def run_robot(lucky: Any, port: int, repaired: None) -> Callable[[Flow], Any]:
    """Run a flow with the AsyncRobotController of the only robot; no slot is active afterwards."""

    async def with_robot(flow: Flow) -> Any:
        async with lucky.AsyncSession(port=port) as session:
            await session.connect(timeout_s=20.0)
            (state,) = await session.list_robot_controllers()
            robot = lucky.AsyncRobotController.from_state(session, state)
            try:
                return await flow(robot)
            finally:
                for slot in state.slots:
                    await robot.set_policy_active(slot.slot_id, False)

    return lambda flow: asyncio.run(with_robot(flow))


def test_a_slot_is_changed_activated_commanded_and_asked_in_a_loop(run_robot: Any) -> None:
    async def flow(robot: Any) -> None:
        before = (await robot.get_state()).slot("Sway")
        await robot.set_driven_joints("Sway", ["FL_hip_joint"])
        await robot.set_policy_priority("Sway", 2)
        await robot.set_policy_clamp_observation("Sway", True)
        await robot.set_policy_gains("Sway", {"FL_hip_joint": {"kp": 60.0}})
        await robot.clear_policy_gains("Sway")
        await robot.set_policy_active("Sway", True)
        after = (await robot.get_state()).slot("Sway")
        assert (after.driven_joints, after.priority, after.active) == (("FL_hip_joint",), 2, True)
        assert [len(found) for found in await robot.get_last_action("Sway")] == [4, 4]
        assert (await robot.get_base_pose("Sway")).keys() >= {"x", "y", "yaw"}
        await robot.set_policy_active("Sway", False)
        await robot.set_policy_clamp_observation("Sway", False)
        await robot.set_policy_priority("Sway", before.priority)
        await robot.set_policy_descriptor("Sway", before.descriptor_path)
        assert (await robot.get_state()).slot("Sway") == before
        await robot.set_command_float("Trot", 1, 0.25)
        await robot.set_command_bool("Trot", 4, True)
        assert (await robot.get_command_float("Trot", 1), await robot.get_command_bool("Trot", 4)) == (0.25, True)
        await robot.set_command_bool("Trot", 4, False)
        await robot.set_command_float("Trot", 1, 0.0)

    run_robot(flow)


def test_states_are_streamed_in_a_loop_until_the_reader_stops(run_robot: Any) -> None:
    async def flow(robot: Any) -> Any:
        found = []
        async for state in robot.stream_state(target_fps=100):
            found.append(state.entity_name)
            if len(found) == 3:
                break
        async for slot in robot.stream_slot_state("Sway", target_fps=100):
            found.append(slot.name)
            break
        return found

    assert run_robot(flow) == ["agent_0"] * 3 + ["Sway"]


# --- what watches it ---


@pytest.fixture
def monitor(session: Any, robot: Any) -> Generator[Any]:
    """A PolicyMonitor of the robot; it is stopped after the test."""
    found = session.policy_monitor(robot.entity_id, target_fps=60)
    yield found
    found.stop()


def test_a_monitor_tells_every_change_in_order(monitor: Any, robot: Any) -> None:
    told: queue.Queue[tuple[Any, ...]] = queue.Queue()
    monitor.on_active_change(lambda slot, was, now: told.put((slot.name, was, now)))
    monitor.on_ready_change(lambda slot, was, now: told.put((slot.name, "ready", was, now)))
    monitor.on_descriptor_swap(lambda slot, old, new: told.put((slot.name, bool(old), bool(new))))
    monitor.on_joint_claim_change(lambda slot, added, removed: told.put((slot.name, added, removed)))
    monitor.on_motion_graph_active_change(lambda was, now: told.put(("graph", was, now)))
    frames = iter(monitor)
    next(frames)
    reader = threading.Thread(target=lambda: list(frames), daemon=True)
    reader.start()

    path = robot.get_state().slot("Sway").descriptor_path
    robot.set_policy_active("Sway", True)
    robot.set_policy_active("Sway", False)
    robot.set_driven_joints("Sway", ["FL_hip_joint"])
    robot.set_motion_graph_active(True)
    robot.set_policy_descriptor("Sway", "")
    seen = [told.get(timeout=PATIENCE_S) for _ in range(7)]
    robot.set_policy_descriptor("Sway", path)
    monitor.stop()
    reader.join(PATIENCE_S)

    assert not reader.is_alive()
    assert seen == [
        ("Sway", False, True),
        ("Sway", True, False),
        ("Sway", [], ["FR_hip_joint", "RL_hip_joint", "RR_hip_joint"]),
        ("graph", False, True),
        ("Sway", "ready", True, False),
        ("Sway", True, False),
        ("Sway", [], ["FL_hip_joint"]),
    ]


def test_a_monitor_in_a_thread_is_stopped_from_another_one(monitor: Any, robot: Any) -> None:
    told: queue.Queue[bool] = queue.Queue()
    monitor.on_active_change(lambda slot, was, now: told.put(now))
    thread = monitor.run_in_thread()
    stop = threading.Event()

    def toggle() -> None:
        while not stop.is_set():  # what was changed before the first frame came is no change to a monitor
            robot.set_policy_active("Sway", True)
            robot.set_policy_active("Sway", False)

    toggling = threading.Thread(target=toggle)
    toggling.start()
    try:
        while not told.get(timeout=PATIENCE_S):  # its first frame may have shown it active
            pass
    finally:
        stop.set()
        toggling.join()
    monitor.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_monitor_of_a_robot_that_is_not_there_ends(session: Any) -> None:
    assert list(session.policy_monitor(4711)) == []


def test_a_multiplexer_gives_the_latest_of_each_stream(lucky: Any, session: Any, robot: Any) -> None:
    client = session.engine_client
    mux = lucky.StreamMultiplexer()
    entity = client.pb.common.EntityId(id=robot.entity_id)
    mux.add("robot", client.agent.StreamRobotController(client.pb.agent.StreamRobotControllerRequest(entity=entity)))
    mux.add("state", client.stream_full_state(target_fps=60))
    mux.add("camera", client.stream_camera(name="front", width=32, height=24, target_fps=30))
    mux.add("telemetry", client.stream_telemetry(target_fps=60))
    try:
        rows = mux.run(period_s=0.02, timeout_s=PATIENCE_S)
        row = next(row for row in rows if None not in row.values())
    finally:
        mux.stop()
    assert row.keys() == {"robot", "state", "camera", "telemetry"}
    assert row["robot"].entity.id == robot.entity_id
    assert len(row["state"].state.qpos) == 19
    assert len(row["camera"].data) == 32 * 24 * 4
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("StreamMux")]


def test_the_overlay_of_active_slots_is_drawn(lucky: Any, session: Any, robot: Any) -> None:
    with robot.policy_slot("Trot"), robot.policy_slot("Sway"):
        assert lucky.draw_policy_overlay(session, robot.entity_id)
    assert not lucky.draw_policy_overlay(session, 1)
    assert session.engine_client.debug.Draw(session.engine_client.pb.debug.DebugDrawRequest(clear_previous=True))
