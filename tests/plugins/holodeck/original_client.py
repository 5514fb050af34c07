"""What an original client does in its own Python: `python -W ignore original_client.py WHAT [UUID [MORE]]`.

It is Holodeck's or HoloOcean's, whichever that Python has. It prints one JSON object. Nothing of this project is
imported here.
"""

import json
import os
import random
import sys
import time

import numpy as np

try:
    import holoocean as package  # pyright: ignore[reportMissingImports]
    from holoocean.environments import HoloOceanEnvironment as Environment  # pyright: ignore[reportMissingImports]

    IS_OCEAN, ACTIONS = True, 8
except ImportError:
    import holodeck as package  # pyright: ignore[reportMissingImports]
    from holodeck.environments import HolodeckEnvironment as Environment  # pyright: ignore[reportMissingImports]

    IS_OCEAN, ACTIONS = False, 4

LASERS = "RangeFinderSensor"
SENSORS = [{"sensor_type": LASERS, "configuration": {"LaserCount": 5}}, {"sensor_type": "DistanceTask"}]


def attach(uuid, agents, **options):
    scenario = {"name": "test", "world": "w", "main_agent": agents[0]["agent_name"], "agents": agents}
    if IS_OCEAN:
        scenario |= {"ticks_per_sec": 30, "frames_per_sec": False}
    options = {"pre_start_steps": 0, "show_viewport": True} | options
    return Environment(scenario=scenario, start_world=False, uuid=uuid, **options)


def an_agent(name, sensors=SENSORS, **more):
    kind, scheme = ("HoveringAUV", 0) if IS_OCEAN else ("UavAgent", 1)
    sensors = [dict(each) for each in sensors]
    return {"agent_name": name, "agent_type": kind, "control_scheme": scheme, "sensors": sensors} | more


def step(env, action):
    """Return state, reward and terminal of a step."""
    if IS_OCEAN:
        return env.step(action), *env.get_reward_terminal()
    return env.step(action)[:3]


def plain(state):
    """Return a state as JSON can carry it."""
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items()}
    if isinstance(state, list):
        return [plain(each) for each in state]
    return np.asarray(state).tolist() if isinstance(state, (np.ndarray, np.generic)) else state


def started(steps):
    """So many steps of a world that the client starts; it resets whenever an episode has ended."""
    options = {"ticks_per_sec": 50, "frames_per_sec": False} if IS_OCEAN else {}
    env = package.make("toy-Batch", **options)
    rows = [env.reset()[LASERS].tobytes().hex()]
    rewards, terminals, starts = [], [], []
    generator = np.random.default_rng(0)
    for _ in range(int(steps)):
        state, reward, terminal = step(env, generator.uniform(-1, 1, 4).astype(np.float32))
        rows.append(state[LASERS].tobytes().hex())
        rewards.append(float(reward))
        terminals.append(bool(terminal))
        if terminal:
            starts.append(env.reset()[LASERS].tobytes().hex())
    return {"rows": rows, "rewards": rewards, "terminals": terminals, "starts": starts}


def waits(_):
    """Start a world, say so, and wait to be killed."""
    env = package.make("toy-Batch")
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


def several_auvs(uuid):
    """Agents of three kinds, act() and tick(); step() of several ticks; leaving in order."""
    agents = [an_agent("a"), an_agent("b", agent_type="TorpedoAUV"), an_agent("c", agent_type="SurfaceVessel")]
    with attach(uuid, agents, pre_start_steps=1) as env:
        first = env.reset()
        env.act("a", np.arange(1, 9))
        env.act("b", np.arange(5))
        env.act("c", np.array([5, 6]))
        after = env.tick()
        stepped = env.step(np.array([9, 0, 0, 0, 0, 0, 0, 0]), ticks=4)
        return plain({"first": first["a"][LASERS], "after": after, "stepped": stepped})


def places(uuid):
    """Teleports, physics states, control schemes, sensors and commands of every kind."""
    sensors = [{"sensor_type": f"{what}Sensor"} for what in ("Location", "Rotation", "Orientation")]
    env = attach(uuid, [an_agent("a", sensors)])
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


def places_of_an_auv(uuid):
    """Sensors of a place, a teleport, a physics state and commands of every kind."""
    kinds = ("Pose", "Depth", "GPS", "Magnetometer", "Orientation", "Location", "Rotation")
    beacons = [
        {"sensor_type": kind, "configuration": {"id": 1}} for kind in ("AcousticBeaconSensor", "OpticalModemSensor")
    ]
    env = attach(
        uuid, [an_agent("a", [{"sensor_type": f"{kind}Sensor"} for kind in kinds] + beacons, location=[1, 2, -1])]
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
    env = attach(uuid, [an_agent("a", sensors)])
    seen = [env.step(np.arange(8)) for _ in range(3)]
    shown = [{name: [np.shape(value), np.ravel(value)[:1].tolist()] for name, value in each.items()} for each in seen]
    return shown


def one_step(uuid):
    """A reset and three steps; the process then ends without a goodbye."""
    env = attach(uuid, [an_agent("a")])
    return [float(step(env, np.zeros(ACTIONS))[1]) for _ in range(3)]


def outlives(uuid):
    """Say that a step was made, wait for a line, and step again: the engine is dead by then.

    The client waits 60 s for an engine that it has started, and for good where it attached; here it waits 1 s.
    """
    Environment._timeout = 1
    with attach(uuid, [an_agent("a")]) as env:
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
    env = attach(uuid, [an_agent("a")])
    took = []
    for _ in range(5000):
        began = time.perf_counter()
        env.step(np.zeros(ACTIONS))
        took.append(time.perf_counter() - began)
    return float(np.median(took)) * 1e6


def resets(uuid):
    """A world with a scenario from a file; the seed is the process's own. Prints the sizes of all blocks."""
    with open(sys.argv[3]) as file:
        scenario = json.load(file)
    random.seed(int(sys.argv[4]))
    with Environment(scenario=scenario, start_world=False, uuid=uuid, show_viewport=True, pre_start_steps=0):
        prefix = f"HOLODECK_MEM{uuid}_"
        names = [name for name in os.listdir("/dev/shm") if name.startswith(prefix)]
        return {name[len(prefix) :]: os.stat(f"/dev/shm/{name}").st_size for name in names}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")))
