"""Two processes on one core take turns: how often they sleep for a call of a stub, or of a further client."""

import pytest

from tests.support.command import python, stdout_of

pytest.importorskip("grpc", reason="grpcio is not installed: pip install 'lucky-transport[grpc]'")

CALLS = 4000
#: How often threads of both processes sleep for one call. The two sides do so once each at most, and with a stub two
#: more that hand the call to the pool of its handler: there a side that yields while it looks saves one sleep of four.
MOST = {"stub": 3.4, "listener": 2.1}

#: Pins itself and a server to one core, calls it, and prints how often both slept during the calls.
PROGRAM = f"""
import os, sys
from contextlib import ExitStack
from pathlib import Path
from lucky_transport.process import unique_name

os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
address = f"shm://{{unique_name()}}"

def serve(ready):
    from concurrent.futures import ThreadPoolExecutor
    import lucky_transport_stubs
    from lucky_transport_grpc.runtime import grpc
    echo = grpc.unary_unary_rpc_method_handler(lambda request, _: request)
    handler = grpc.method_handlers_generic_handler("t.Test", {{"Echo": echo}})
    server = lucky_transport_stubs.server(ThreadPoolExecutor(1), handlers=(handler,))
    server.add_insecure_port(address)
    server.start()
    os.write(ready, b"1")
    server.wait_for_termination()

def stub(stack):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        serve(write)
    stack.callback(os.kill, pid, 9)
    os.read(read, 1)
    import lucky_transport_stubs
    channel = stack.enter_context(lucky_transport_stubs.channel(address))
    call = channel.unary_unary("/t.Test/Echo")
    return pid, lambda: call(bytes(100))

def listener(stack):
    from lucky_transport import api
    from lucky_transport.process import EngineProcess
    process = EngineProcess("echo", [address])
    stack.callback(process.stop)
    stack.enter_context(api.open_transport(address))  # the next one connects to the listener
    client = stack.enter_context(api.connect(address))
    return process.pid, lambda: client.lidar.get_beam_count(5)

def sleeps(pid):
    return sum(
        int(line.split()[1])
        for one in (os.getpid(), pid)
        for task in Path(f"/proc/{{one}}/task").glob("*/status")
        for line in task.read_text().splitlines()
        if line.startswith("voluntary")
    )

with ExitStack() as stack:
    pid, call = globals()[sys.argv[1]](stack)
    for _ in range(1000):
        call()
    before = sleeps(pid)
    for _ in range({CALLS}):
        call()
    print(sleeps(pid) - before)
"""


@pytest.mark.parametrize("kind", MOST)
def test_a_call_between_two_sides_on_one_core_makes_them_sleep_no_more_often_than_it_must(kind: str) -> None:
    assert int(stdout_of(python("-c", PROGRAM, kind))) / CALLS <= MOST[kind]
