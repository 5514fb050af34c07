"""What a program left open is closed while its interpreter shuts down: without an import, and without a word."""

import pytest

from lucky_transport import api
from lucky_transport.process import unique_name
from tests.support.command import python

_PREPARE = """
import asyncio, atexit, builtins, os, sys
import lucky_transport
ending = []
atexit.register(ending.append, True)  # what is registered first is called last
def hook(event, args):
    if ending and event == "import":
        os.write(2, f"{args[0]} is imported".encode())
sys.addaudithook(hook)
endpoint = sys.argv[1]
"""

#: What keeps it open to the very end -> a program.
PROGRAMS = {
    "an env": "builtins.kept = env = lucky_transport.make(endpoint=endpoint)\nenv.reset()\n",
    "a stream": """
client = lucky_transport.connect(endpoint)
stream = client.camera.stream_camera("front")
next(stream)
builtins.kept = client, stream
""",
    "a cycle": """
class Cycle: ...
cycle = Cycle()
cycle.self, cycle.client = cycle, lucky_transport.connect(endpoint)
cycle.stream = cycle.client.camera.stream_camera("front")
next(cycle.stream)
""",
    "asyncio": """
async def main():
    client = await lucky_transport.connect_async(endpoint)
    stream = client.camera.stream_camera("front")
    await anext(aiter(stream))
    builtins.kept = client, stream
asyncio.run(main())
""",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_was_left_open_imports_nothing_and_says_nothing_at_the_interpreters_end(program: str) -> None:
    with api.serve("echo", f"shm://{unique_name()}") as serving:
        ran = python("-c", _PREPARE + PROGRAMS[program], serving.endpoints[0])
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)


IN_PROCESS = """
import sys, lucky_transport
from lucky_transport.client import Client
env = lucky_transport.make("mujoco:quadruped", num_envs=2, transport="inproc", options={"renderer": sys.argv[2]})
env.reset(seed=0)
env.step(env.action_space.sample())
if sys.argv[1] == "after an image":
    with Client(env.transport).camera.stream("front", width=16, height=9) as images:
        next(iter(images))
if sys.argv[1] == "within a stream":
    stream = Client(env.transport).telemetry.stream(fps=50)
    next(iter(stream))
"""


@pytest.mark.parametrize("renderer", ["rays", "auto"])
@pytest.mark.parametrize("when", ["after a step", "after an image", "within a stream"])
def test_an_env_in_process_that_is_not_closed_leaves_no_word_at_exit(when: str, renderer: str) -> None:
    pytest.importorskip("mujoco", reason="needs the extra: pip install 'lucky-transport[mujoco]'")
    done = python("-c", IN_PROCESS, when, renderer, timeout=120)
    words = [line for line in done.stderr.splitlines() if not line.startswith("no OpenGL works here")]
    assert (done.returncode, done.stdout, words) == (0, "", [])
