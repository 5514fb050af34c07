"""A game played by OpenRA-RL's own client (openra_rl 0.4.1), in an interpreter that has it: PORT, and what came of it.

Run by test_real_openra_rl.py; it knows nothing of this project. Prints one JSON object.
"""

import asyncio
import itertools
import json
import sys
import time

from openra_env.server.bridge_client import (  # pyright: ignore[reportMissingImports]
    BridgeClient,
    commands_to_proto,
    observation_to_dict,
)
from openra_env.server.openra_process import (  # pyright: ignore[reportMissingImports]
    BOT_TYPE_MAP,
    OpenRAConfig,
)

_BUILD_ORDER = ("power", "refinery", "barracks")


def _commands(seen: dict) -> list[dict]:
    """Return what a simple player does next."""
    commands = []
    builder = next((unit for unit in seen["units"] if unit["type"] == "builder"), None)
    if builder:
        commands.append({"action": "deploy", "actor_id": builder["actor_id"]})
    building = [item for item in seen["production"] if item["queue_type"] == "Building"]
    have = {each["type"] for each in seen["buildings"]}
    missing = [name for name in _BUILD_ORDER if name not in have]
    if any(item["progress"] == 1 for item in building):
        commands.append({"action": "place_building", "target_x": -1, "target_y": -1})
    elif missing and not building:
        commands.append({"action": "build", "item_type": missing[0]})
    if "rifle" in seen["available_production"]:
        commands.append({"action": "train", "item_type": "rifle"})
    if seen["military"]["active_unit_count"] > 5:
        commands.append({"action": "attack_move", "target_x": -1, "target_y": -1})
    return commands


async def play(port: int) -> dict:
    """Return what the client saw of one game."""
    client = BridgeClient("127.0.0.1", port, timeout_s=10.0)
    is_ready = await client.wait_for_ready(max_retries=20, retry_interval=0.2)
    before = await client.get_state()  # the original's env reads the factions before it starts the stream
    first = await client.start_session()
    again = await client.start_session()
    seen, ticks, steps = first, [first.tick], 0
    built: set[str] = set()
    end = time.monotonic() + 20
    while not seen.done and time.monotonic() < end and (len(built) < 4 or steps < 300):
        seen = await client.step(commands_to_proto(_commands(observation_to_dict(seen))))
        built |= {building.type for building in seen.buildings}
        ticks.append(seen.tick)
        steps += 1
    phase = (await client.get_state()).phase
    waited = await client.wait_ticks(5) if not seen.done else seen
    if not seen.done:  # once: gRPC fails the call of a client that writes after the end with INTERNAL
        seen = await client.step(commands_to_proto([{"action": "surrender"}]))
        seen = seen if seen.done else await client.wait_ticks(1_000_000)
    found = {
        "is_ready": is_ready,
        "factions": [before.player_faction, before.enemy_faction],
        "map_name": OpenRAConfig().map_name,
        "opponents": sorted({OpenRAConfig().bot_type, *BOT_TYPE_MAP, *BOT_TYPE_MAP.values()}),
        "is_idempotent": again.tick >= first.tick,
        "first_tick": first.tick,
        "steps": steps,
        "is_rising": all(before < after for before, after in itertools.pairwise(ticks)),
        "built": sorted(built),
        "phase": phase,
        "waited": waited.tick - ticks[-1],
        "done": seen.done,
        "result": seen.result,
        "map": observation_to_dict(seen)["map_info"],
    }
    await client.close()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(int(sys.argv[1])))))
