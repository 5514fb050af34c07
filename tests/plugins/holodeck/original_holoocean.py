"""What HoloOcean's client does in its own Python: `python -W ignore original_holoocean.py WHAT [UUID [MORE]]`.

It prints one JSON object. Nothing of this project is imported here.
"""

import json
import os
import random
import sys
import time

import holoocean  # pyright: ignore[reportMissingImports]
import numpy as np
from holoocean.environments import HoloOceanEnvironment  # pyright: ignore[reportMissingImports]

LASERS = "RangeFinderSensor"
SENSORS = [{"sensor_type": LASERS, "configuration": {"LaserCount": 5}}, {"sensor_type": "DistanceTask"}]


def attach(uuid, agents, **options):
    scenario = {"name": "test", "world": "w", "main_agent": agents[0]["agent_name"], "agents": agents}
    scenario |= {"ticks_per_sec": 30, "frames_per_sec": False}
    options = {"pre_start_steps": 0, "show_viewport": True} | options
    return HoloOceanEnvironment(scenario=scenario, start_world=False, uuid=uuid, **options)


def an_auv(name, sensors=SENSORS, **more):
    sensors = [dict(each) for each in sensors]
    return {"agent_name": name, "agent_type": "HoveringAUV", "control_scheme": 0, "sensors": sensors} | more


def plain(state):
    """Return a state as JSON can carry it."""
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items()}
    if isinstance(state, list):
        return [plain(each) for each in state]
    return np.asarray(state).tolist() if isinstance(state, (np.ndarray, np.generic)) else state


def started(_):
    """500 steps of a world that the client starts; it resets whenever an episode has ended."""
    env = holoocean.make("toy-Batch", ticks_per_sec=50, frames_per_sec=False)
    rows = [env.reset()[LASERS].tobytes().hex()]
    rewards, terminals, starts = [], [], []
    generator = np.random.default_rng(0)
    for _ in range(500):
        rows.append(env.step(generator.uniform(-1, 1, 4).astype(np.float32))[LASERS].tobytes().hex())
        reward, terminal = env.get_reward_terminal()
        rewards.append(float(reward))
        terminals.append(bool(terminal))
        if terminal:
            starts.append(env.reset()[LASERS].tobytes().hex())
    return {"rows": rows, "rewards": rewards, "terminals": terminals, "starts": starts}


def waits(_):
    """Start a world, say so, and wait to be killed."""
    env = holoocean.make("toy-Batch")
    env.reset()
    print("there", flush=True)
    time.sleep(60)


def several(uuid):
    """Agents of three kinds, act() and tick(); step() of several ticks; leaving in order."""
    agents = [an_auv("a"), an_auv("b", agent_type="TorpedoAUV"), an_auv("c", agent_type="SurfaceVessel")]
    with attach(uuid, agents, pre_start_steps=1) as env:
        first = env.reset()
        env.act("a", np.arange(1, 9))
        env.act("b", np.arange(5))
        env.act("c", np.array([5, 6]))
        after = env.tick()
        stepped = env.step(np.array([9, 0, 0, 0, 0, 0, 0, 0]), ticks=4)
        return plain({"first": first["a"][LASERS], "after": after, "stepped": stepped})


def places(uuid):
    """Sensors of a place, a teleport, a physics state and commands of every kind."""
    kinds = ("Pose", "Depth", "GPS", "Magnetometer", "Orientation", "Location", "Rotation")
    beacons = [
        {"sensor_type": kind, "configuration": {"id": 1}} for kind in ("AcousticBeaconSensor", "OpticalModemSensor")
    ]
    env = attach(
        uuid, [an_auv("a", [{"sensor_type": f"{kind}Sensor"} for kind in kinds] + beacons, location=[1, 2, -1])]
    )
    agent, seen = env.agents["a"], [env.tick()]
    agent.teleport(location=[1, 2, -30], rotation=[0, 0, 90])
    seen.append(env.tick())
    agent.set_physics_state([4, 5, 6], [0, 0, 90], [0, 0, 0], [0, 0, 0])
    agent.set_control_scheme(1)
    env.weather.set_weather(2)
    env.tide_cycle.set_active(True)
    env.time_cycle.set_active(True)
    env.spawn_prop("box", [1, 2, 3])
    env.draw_line([0, 0, 0], [1, 1, 1])
    env.move_viewport([0, 0, 1], [0, 0, 0])
    env.set_render_quality(0)
    env.should_render_viewport(False)
    env.set_fps(60)
    env.set_ticks_per_sec(30)
    env.turn_on_flashlight("flashlight1")
    env.turn_off_flashlight("flashlight1")
    env.water_color(0, 1, 0)
    env.tide(1, 0)
    env.change_weather(1)
    env.change_time_of_day(7)
    env.set_rain_parameters(0, 0, -1, 100)
    env.air_fog(1)
    env.water_fog(1)
    env.set_ocean_currents("a", [1, 0, 0])
    env.send_acoustic_message(1, 1, "OWAY", "hello")
    env.send_optical_message(1, 1, "hello")
    agent.sensors["DepthSensor"].rotate([0, 0, 1])
    env.tick()
    seen.append(env.tick())
    return plain(seen)


def sizes(uuid):
    """The state of one agent with a sensor of every size, as (shape, first number); what is not there is left out."""
    path = sys.argv[3]
    with open(path) as file:
        sensors = json.load(file)
    env = attach(uuid, [an_auv("a", sensors)])
    seen = [env.step(np.arange(8)) for _ in range(3)]
    shown = [{name: [np.shape(value), np.ravel(value)[:1].tolist()] for name, value in each.items()} for each in seen]
    return shown


def one_step(uuid):
    """A reset and three steps; the process then ends without a goodbye."""
    env = attach(uuid, [an_auv("a")])
    rewards = []
    for _ in range(3):
        env.step(np.zeros(8))
        rewards.append(float(env.get_reward_terminal()[0]))
    return rewards


def outlives(uuid):
    """Say that a step was made, wait for a line, and step again: the engine is dead by then.

    The client waits 60 s for an engine that it has started, and for good where it attached; here it waits 1 s.
    """
    HoloOceanEnvironment._timeout = 1
    with attach(uuid, [an_auv("a")]) as env:
        env.step(np.zeros(8))
        print("there", flush=True)
        sys.stdin.readline()
        try:
            env.step(np.zeros(8))
        except Exception as error:
            return type(error).__name__
    return ""


def ticks(uuid):
    """The median duration of 5,000 steps, in microseconds."""
    env = attach(uuid, [an_auv("a")])
    took = []
    for _ in range(5000):
        began = time.perf_counter()
        env.step(np.zeros(8))
        took.append(time.perf_counter() - began)
    return float(np.median(took)) * 1e6


def resets(uuid):
    """A world with a scenario from a file; the seed is the process's own. Prints the sizes of all blocks."""
    with open(sys.argv[3]) as file:
        scenario = json.load(file)
    random.seed(int(sys.argv[4]))
    with HoloOceanEnvironment(scenario=scenario, start_world=False, uuid=uuid, show_viewport=True, pre_start_steps=0):
        prefix = f"HOLODECK_MEM{uuid}_"
        names = [name for name in os.listdir("/dev/shm") if name.startswith(prefix)]
        return {name[len(prefix) :]: os.stat(f"/dev/shm/{name}").st_size for name in names}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")))
