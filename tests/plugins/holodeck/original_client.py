"""What the original `holodeck` client does in its own Python: `python -W ignore original_client.py WHAT [UUID [MORE]]`.

It prints one JSON object. Nothing of this project is imported here.
"""

import json
import os
import random
import sys
import time

import holodeck  # pyright: ignore[reportMissingImports]
import numpy as np
from holodeck.environments import HolodeckEnvironment  # pyright: ignore[reportMissingImports]

LASERS = "RangeFinderSensor"
SENSORS = [{"sensor_type": LASERS, "configuration": {"LaserCount": 5}}, {"sensor_type": "DistanceTask"}]


def attach(uuid, agents, **options):
    scenario = {"name": "test", "world": "w", "main_agent": agents[0]["agent_name"], "agents": agents}
    return HolodeckEnvironment(scenario=scenario, start_world=False, uuid=uuid, show_viewport=True, **options)


def an_agent(name, sensors=SENSORS):
    return {"agent_name": name, "agent_type": "UavAgent", "control_scheme": 1, "sensors": sensors}


def started(_):
    """1,000 steps of a world that the client starts; it resets whenever an episode has ended."""
    env = holodeck.make("toy-Batch")  # pyright: ignore[reportAttributeAccessIssue]
    rows = [env.reset()[LASERS].tobytes().hex()]
    rewards, terminals, starts = [], [], []
    generator = np.random.default_rng(0)
    for _ in range(1000):
        state, reward, terminal, _ = env.step(generator.uniform(-1, 1, 4).astype(np.float32))
        rows.append(state[LASERS].tobytes().hex())
        rewards.append(float(reward))
        terminals.append(bool(terminal))
        if terminal:
            starts.append(env.reset()[LASERS].tobytes().hex())
    return {"rows": rows, "rewards": rewards, "terminals": terminals, "starts": starts}


def waits(_):
    """Start a world, say so, and wait to be killed."""
    env = holodeck.make("toy-Batch")  # pyright: ignore[reportAttributeAccessIssue]
    env.reset()
    print("there", flush=True)
    time.sleep(60)


def several(uuid):
    """Two agents, act() and tick(); step() of several ticks; live views; leaving in order."""
    agents = [an_agent("a"), an_agent("b")]
    with attach(uuid, agents, pre_start_steps=1, copy_state=False) as env:
        live = env.reset()
        first = live["a"][LASERS].tolist()
        env.agents["a"].act(np.array([1, 2, 3, 4]))
        env.agents["b"].act(np.array([5, 6, 7, 8]))
        env.tick()
        after = {name: live[name][LASERS].tolist() for name in "ab"}
        env.step(np.array([9, 0, 0, 0]), ticks=4)
        return {"first": first, "after": after, "stepped": live["a"][LASERS].tolist(), "b": live["b"][LASERS].tolist()}


def places(uuid):
    """Teleports, physics states, control schemes, sensors and commands of every kind."""
    sensors = [{"sensor_type": f"{what}Sensor"} for what in ("Location", "Rotation", "Orientation")]
    env = attach(uuid, [an_agent("a", sensors)], pre_start_steps=0)
    agent = env.agents["a"]
    seen = []
    agent.teleport(location=[1, 2, 3], rotation=[10, 20, 30])
    seen.append(env.tick())
    agent.set_physics_state([4, 5, 6], [0, 0, 90], [0, 0, 0], [0, 0, 0])
    seen.append(env.tick())
    agent.set_control_scheme(0)
    env.weather.set_weather("rain")
    env.spawn_prop("box", [1, 2, 3])
    env.draw_line([0, 0, 0], [1, 1, 1])
    env.move_viewport([0, 0, 1], [0, 0, 0])
    env.set_render_quality(0)
    env.should_render_viewport(False)
    agent.sensors["LocationSensor"].rotate([0, 0, 1])
    seen.append(env.tick())
    return [{name: np.ravel(value).tolist() for name, value in state.items()} for state in seen]


def one_step(uuid):
    """A reset and three steps; the process then ends without a goodbye."""
    env = attach(uuid, [an_agent("a")], pre_start_steps=0)
    return [float(env.step(np.zeros(4))[1]) for _ in range(3)]


def ticks(uuid):
    """The median duration of 5,000 steps, in microseconds."""
    env = attach(uuid, [an_agent("a")], pre_start_steps=0)
    env.reset()
    took = []
    for _ in range(5000):
        began = time.perf_counter()
        env.step(np.zeros(4))
        took.append(time.perf_counter() - began)
    return float(np.median(took)) * 1e6


def resets(uuid):
    """A world with a scenario from a file; the seed is the process's own. Prints the sizes of all blocks."""
    with open(sys.argv[3]) as file:
        scenario = json.load(file)
    random.seed(int(sys.argv[4]))
    with HolodeckEnvironment(scenario=scenario, start_world=False, uuid=uuid, show_viewport=True, pre_start_steps=0):
        prefix = f"HOLODECK_MEM{uuid}_"
        names = [name for name in os.listdir("/dev/shm") if name.startswith(prefix)]
        return {name[len(prefix) :]: os.stat(f"/dev/shm/{name}").st_size for name in names}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")))
