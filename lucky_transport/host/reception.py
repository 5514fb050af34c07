"""Where an engine answers its command clients over shared memory: everyone but the one that steps it.

Rule 1: one thread waits for all of them; it runs quick handlers itself and leaves the others to the dispatcher's.
"""

from __future__ import annotations

from lucky_transport.config import Settings
from lucky_transport.host.dispatch import Dispatcher
from lucky_transport.host.host import Host
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.shm.images.image_store import ImageStores
from lucky_transport.shm.listener import Listener
from lucky_transport.shm.memfd_pipe import MemfdPipe
from lucky_transport.shm.server_loop import ServerLoop
from lucky_transport.shm.server_thread import ServerThread
from lucky_transport.shm.wait import strategy_code

__all__ = ["receive"]


def receive(name: str, host: Host, dispatcher: Dispatcher, images: ImageStores, settings: Settings) -> ServerThread:
    """Serve the rendezvous called `name` until the result is closed. Raises as `Listener` does."""

    def make_calls(pipe: MemfdPipe, caller: str) -> ServerCalls:
        return ServerCalls(
            pipe,
            lambda call: dispatcher.begin(call, thread.executor),
            at_once=dispatcher.at_once,
            inline=dispatcher.inline,
            caller=caller,
            max_message_bytes=settings.max_message_bytes,
            between_steps=host.between_steps,
            images=images.open(),
        )

    rendezvous = Listener(name, strategy=strategy_code(settings.wait), native=settings.native)
    reception = ServerLoop(rendezvous, make_calls, dispatcher.leave)
    thread = ServerThread(reception, f"shm commands {name}", farewell="the engine is closing", slots=dispatcher.slots)
    thread.start()
    return thread
