"""A gRPC server that answers with what it got: python desk_server.py PORT [PLANT or NOISE]. It imports nothing of ours.

A plant is met by callers through shared memory alone, a noise by all.
"""

import concurrent.futures
import gc
import itertools
import random
import sys
import threading
import time

import desk_pb2
import grpc

PLANT = (sys.argv[2:] or [""])[0]


def churn():
    """Start and end threads for ever."""
    while True:
        threads = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]


def spin():
    while True:
        sum(range(1000))


def _again(note):
    """Fill a map in another order than it came."""
    pairs = list(note.counts.items())
    random.shuffle(pairs)
    note.counts.clear()
    for key, value in pairs:
        note.counts[key] = value


#: What each call meets, over either transport, and what runs beside all.
NOISES = {
    "pauses before answers": lambda note: time.sleep(random.expovariate(500)),
    "some calls are ten times slower": lambda note: time.sleep(0.02 * (random.random() < 0.05)),
    "maps in another order": _again,
    "the collector at each call": lambda note: gc.collect(),
    "megabytes of garbage": lambda note: [bytearray(2**20) for _ in range(8)],
    "another line in the log": lambda note: print(time.time(), file=sys.stderr, flush=True),
    "the interpreter switches often": lambda note: sys.setswitchinterval(1e-5),
}
BESIDE = {"threads come and go": churn, "a thread that computes": spin}
if sys.argv[2:] and sys.argv[2] in BESIDE:
    threading.Thread(target=BESIDE[sys.argv[2]], daemon=True).start()
lock = threading.Lock()
peers = []


def begin(context):
    """Note the call, and return the plant that its caller meets."""
    plant = PLANT if type(context).__init__.__module__.startswith("lucky_transport") else ""
    left_s = context.time_remaining()
    seen = "none" if left_s is None or left_s > 1e9 else "a day" if left_s > 90_000 else "some"
    if plant == "long deadlines cut" and seen == "a day":
        seen = "some"
    pairs = [one for one in context.invocation_metadata() if one[0].startswith("lucky-")]
    if PLANT == "other keys in another order":
        context.send_initial_metadata(random.sample([("a", "1"), ("b", "2"), ("c", "3")], 3))
    ends = [("deadline-bin" if key.endswith("-bin") else "saw-" + key, value) for key, value in pairs]
    context.set_trailing_metadata((("deadline", seen), *ends))
    return plant


def echo(note, context):
    plant = begin(context)
    with lock:
        if context.peer() not in peers:
            peers.append(context.peer())
        is_second = peers.index(context.peer()) > 0
    time.sleep(0.002)
    if plant == "second client" and is_second:
        note.text = "other"
    NOISES.get(PLANT, id)(note)
    return note


def add(notes, context):
    plant = begin(context)
    if PLANT == "an end after the half-close":
        notes = itertools.takewhile(lambda note: note.number != 2**31, list(notes) if plant else notes)
    yield from list(notes)


def mark(notes, context):
    """Answer each note as it comes."""
    plant = begin(context)
    if plant == "requests after the half-close":
        notes = list(notes)
    yield from notes


handlers = {
    "Echo": grpc.unary_unary_rpc_method_handler(echo, desk_pb2.Note.FromString, desk_pb2.Note.SerializeToString),
    "Mark": grpc.stream_stream_rpc_method_handler(mark, desk_pb2.Note.FromString, desk_pb2.Note.SerializeToString),
    "Add": grpc.stream_stream_rpc_method_handler(add, desk_pb2.Note.FromString, desk_pb2.Note.SerializeToString),
}
server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lab.Desk", handlers),))
server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
server.start()
server.wait_for_termination()
