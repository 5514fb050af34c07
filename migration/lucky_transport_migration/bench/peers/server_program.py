"""The answering process of a peer:

    python -m lucky_transport_migration.bench.peers.server_program PEER ADDRESS CELLS

CELLS is a JSON list of Message fields, answered one after the other over one connection.

It says `ready` on stdout when it listens, goes on to the next cell at a request with a negative number, and ends with
its client or, at the latest, PATIENCE_S after its last request.
"""

from __future__ import annotations

import json
import sys

from lucky_transport.errors import TransportError
from lucky_transport_migration.bench.peers.kinds import find_wire
from lucky_transport_migration.bench.peers.wire import NUMBER, Message, Wire

__all__ = ["main"]


def _answer(wire: Wire, message: Message) -> None:
    """Answer every request of one cell."""
    frame, head = message.prepared(), NUMBER.size
    request_bytes, answer_bytes, copies = message.request_bytes, message.answer_bytes, message.copies
    while True:
        (number,) = NUMBER.unpack_from(wire.receive(request_bytes))
        if number < 0:
            return
        answer = wire.blank(answer_bytes)
        if copies:
            answer[head:] = frame
        NUMBER.pack_into(answer, 0, number)
        wire.send()


def main() -> None:
    """Answer all cells."""
    name, address, cells = sys.argv[1:]
    messages = [Message(**one) for one in json.loads(cells)]
    wire = find_wire(name).accept(address, max(max(one.request_bytes, one.answer_bytes) for one in messages))
    print("ready", flush=True)
    try:
        for message in messages:
            _answer(wire, message)
    except (EOFError, OSError, TransportError):
        sys.exit(1)  # the client is gone
    finally:
        wire.close()


if __name__ == "__main__":
    main()
