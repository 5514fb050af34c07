"""PolicyMonitor, StreamMultiplexer and the policy overlay."""

# pyright: basic
# Reason: luckyrobots ships no types.

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S


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


def test_a_multiplexer_also_ends_on_the_wrappers_generators(lucky: Any, session: Any, robot: Any) -> None:
    mux = lucky.StreamMultiplexer()
    mux.add("slot", robot.stream_slot_state("Trot", target_fps=60))
    mux.add("scene", session.stream_full_state(target_fps=60))
    rows = mux.run(period_s=0.02, timeout_s=PATIENCE_S)
    row = next(row for row in rows if None not in row.values())
    mux.stop()
    assert row["slot"].name == "Trot"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("StreamMux")]


def test_the_overlay_of_active_slots_is_drawn(lucky: Any, session: Any, robot: Any) -> None:
    with robot.policy_slot("Trot"), robot.policy_slot("Sway"):
        assert lucky.draw_policy_overlay(session, robot.entity_id)
    assert not lucky.draw_policy_overlay(session, 1)
    assert session.engine_client.debug.Draw(session.engine_client.pb.debug.DebugDrawRequest(clear_previous=True))
