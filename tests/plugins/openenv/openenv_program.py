"""What a client of OpenEnv does in an interpreter of its own: `python openenv_program.py URL`. Prints one JSON object.

It knows nothing of this project.
"""

import asyncio
import json
import sys
from importlib.metadata import packages_distributions, version

from openenv.core import GenericEnvClient  # pyright: ignore[reportMissingImports]
from openenv.core.mcp_client import MCPToolClient  # pyright: ignore[reportMissingImports]

RIGHT = {"action": [{"move_right": True}]}


def episode(url):
    with GenericEnvClient(url).sync() as env:
        result, gained = env.reset(seed=7), 0.0
        while not result.done:
            result = env.step(RIGHT)
            gained += result.reward
        return {"details": result.observation["details"], "gained": gained}


async def tools(url):
    async with MCPToolClient(url) as client:
        names = [tool.name for tool in await client.list_tools()]
        await client.call_tool("start_episode", seed=7)
        return {"names": names, "seen": str(await client.call_tool("act", action=[], ticks=5))}


url = sys.argv[1]
(package,) = set(packages_distributions()["openenv"])
print(json.dumps({"package": f"{package} {version(package)}", **episode(url), **asyncio.run(tools(url))}))
