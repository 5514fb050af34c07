"""A toy engine in this process, and what a program does with it, recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from lucky_transport.serving import Serving
from lucky_transport_migration.recording.client import recorded_endpoint
from lucky_transport_migration.recording.entries import RecordedCall, Step, line_of
from lucky_transport_migration.recording.reading import Recording

#: Serves a fresh toy and returns its endpoint; keyword arguments go to `serve`.
Serve = Callable[..., str]


@pytest.fixture
def serve_toy() -> Iterator[Serve]:
    stack: list[Serving] = []

    def serve_toy(num_envs: int = 3, seed: int = 7, engine: str = "toy") -> str:
        name, options = f"inproc://{unique_name()}", {"slots": 300}
        stack.append(lucky_transport.serve(engine, name, num_envs=num_envs, seed=seed, options=options))
        return str(stack[-1].endpoints[0])

    yield serve_toy
    for one in stack:
        one.stop()


@pytest.fixture
def recording(serve_toy: Serve, tmp_path: Path) -> Recording:
    """Twenty steps with a seeded reset before them, three calls, a stream and a call that the toy does not know."""
    file = tmp_path / "run.jsonl"
    endpoint = str(recorded_endpoint(serve_toy(), file, seed=7))
    with lucky_transport.make(endpoint=endpoint) as env:
        env.reset(seed=1)
        env.action_space.seed(1)
        for _ in range(20):
            env.step(env.action_space.sample())
    with lucky_transport.connect(endpoint) as client:
        client.scene.list_entities()
        client.scene.list_entities(include_transforms=True)
        client.mujoco.get_joint_state(robot_name="agent_0")
        with client.agent.stream_policy_slot_state() as slots:
            assert len(list(slots)) == 300
        with pytest.raises(lucky_transport.errors.Unimplemented):
            client.scene.get_entity(name="nobody")
    return Recording(file)


@pytest.fixture
def changed(recording: Recording, tmp_path: Path) -> Callable[..., Recording]:
    """Return the recording with its entries changed by a function, in a file of its own."""

    def changed(change: Callable[[list[RecordedCall | Step]], Sequence[RecordedCall | Step]]) -> Recording:
        file = tmp_path / "changed.jsonl"
        entries = change(list(recording.entries()))
        file.write_text(line_of(recording.header) + "".join(map(line_of, entries)))
        return Recording(file)

    return changed
