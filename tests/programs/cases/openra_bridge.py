"""OpenRA-RL's client: a game that sends its ticks, and the BridgeClient of asyncio that acts on them."""

import asyncio
import queue
import threading
from contextlib import contextmanager

from openra_env.generated import rl_bridge_pb2, rl_bridge_pb2_grpc
from openra_env.server.bridge_client import BridgeClient, commands_to_proto, observation_to_dict


class Game(rl_bridge_pb2_grpc.RLBridgeServicer):
    """A tick for each action."""

    def GameSession(self, requests, context):
        tick, cash, asked = 0, 5000, queue.Queue()
        threading.Thread(target=lambda: [asked.put(one) for one in _until_cancelled(requests)], daemon=True).start()
        while context.is_active():
            seen = rl_bridge_pb2.GameObservation(tick=tick, reward=cash / 7, available_production=["rifle", "tank"])
            seen.economy.cash = cash
            for number in range(20):
                seen.units.add(actor_id=number, type="rifle", pos_x=tick + number, hp_percent=1 - number / 40)
            seen.spatial_map = bytes((tick + index) % 256 for index in range(512))
            yield seen
            while (action := _next(asked)) is None and context.is_active():
                pass
            tick, cash = tick + 1, cash - 10 * len(action.commands if action else ())

    def GetState(self, request, context):
        return rl_bridge_pb2.GameState(phase="playing", tick=1, player_faction="allies", enemy_faction="soviet")


def _next(asked):
    try:
        return asked.get(timeout=0.2)
    except queue.Empty:
        return None


def _until_cancelled(requests):
    try:
        yield from requests
    except Exception:
        return


def register(server):
    """Serve the game."""
    rl_bridge_pb2_grpc.add_RLBridgeServicer_to_server(Game(), server)


@contextmanager
def client(port):
    """Play: observe, and train a unit at every second tick."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    async def begin():
        bridge = BridgeClient("127.0.0.1", port, timeout_s=60)
        assert await bridge.wait_for_ready(10, 0.5)
        return bridge, await bridge.start_session()

    bridge, first = loop.run_until_complete(begin())
    ticks = 0

    def step():
        nonlocal ticks
        ticks += 1
        commands = [{"action": "train", "item_type": "rifle"}] if ticks % 2 else []
        return loop.run_until_complete(bridge.step(commands_to_proto(commands)))

    def state():
        return loop.run_until_complete(bridge.get_state())

    def equal():
        seen = [observation_to_dict(one) for one in (first, *(step() for _ in range(50)))]
        found = state()
        return {"seen": seen, "state": [found.phase, found.player_faction, found.enemy_faction]}

    yield equal, state, step
    loop.run_until_complete(bridge.close())
    loop.close()
