"""multiprocessing by spawn and by fork: processes with a channel of their own, and a parent that goes on."""

import multiprocessing
from contextlib import contextmanager

import grpc
from serving import add_echo, ask_echo

register = add_echo


def ask(port):
    """Return what a process of its own is answered."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answers, _ = ask_echo(channel)
        return answers()


@contextmanager
def client(port):
    """Ask from children first: gRPC's own channels do not survive a fork."""
    children = {}
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            children[method] = pool.map_async(ask, [port] * 4).get(200)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answers, small = ask_echo(channel)
        yield lambda: {"children": children, "parent": answers()}, small, small
