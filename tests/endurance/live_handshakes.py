"""Handshakes that no side may send (`fuzz_live`): hellos to a living engine, and answers to clients of none.

Every message is one mutation, and every answer here has to be refused: a client that gets a pipe by one has been led
astray.
"""

import contextlib
import os
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from lucky_transport.config import runtime_directories
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.socket_path import private_directory, socket_path
from lucky_transport.shm.listener.handshake import LONGEST_SERVER_HELLO, ClientHello, ServerHello, make_pair

_RING = 4096
#: Greetings that are held open at once; the engine drops the oldest ones.
_OPEN = 40
_ODD = (0, 1, 3, 4095, 4097, 2**28 + 1, 2**31, 2**32 - 1)


class Handshakes:
    """Greets the engine of segment `name` and answers clients at `name` + "_false"; `close` removes the socket."""

    def __init__(self, name: str, rng: random.Random, seen: Counter[str]) -> None:
        self._random, self._seen = rng, seen
        directory = private_directory(runtime_directories()[0])
        self._engine = str(socket_path(directory, name))
        self._path = Path(socket_path(directory, f"{name}_false"))
        self._greeted: list[socket.socket] = []
        self._answered: list[socket.socket] = []
        # Without a lock it is a dead engine's, which any engine that starts beside may remove.
        self._lock = lockfile.acquire(f"{self._path}.lock", lockfile.ENGINE)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._listener.bind(str(self._path))
        self._path.chmod(0o600)
        self._listener.listen(64)
        pair, self._sealed = make_pair(_RING)
        self._size = len(pair.mapping)
        self._unsealed = os.memfd_create("unsealed", os.MFD_CLOEXEC)
        os.truncate(self._unsealed, self._size)
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)

    def exchange(self) -> None:
        """Greet the engine once, and answer the clients that came."""
        self._greet()
        for _ in range(64):
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                return
            self._answer(client)

    def _greet(self) -> None:
        rnd = self._random
        engine = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            engine.connect(self._engine)
            hello = bytearray(ClientHello().to_bytes())
            for _ in range(rnd.randrange(4)):
                hello[rnd.randrange(len(hello))] = rnd.getrandbits(8)
            message = bytes(hello[: rnd.choice((len(hello),) * 6 + (0, 1, 7))]) + rnd.randbytes(
                rnd.choice((0, 0, 0, 1, 900))
            )
            fds = rnd.sample([self._sealed, self._null], rnd.choice((0, 0, 0, 1, 2)))
            for _ in range(rnd.choice((0, 1, 1, 1, 2))):
                socket.send_fds(engine, [message], fds)
                self._seen["mutated: hello"] += 1
        except OSError:  # it is not there yet, or its queue is full
            engine.close()
            return
        self._greeted.append(engine)
        if len(self._greeted) > _OPEN or rnd.random() < 0.5:
            self._greeted.pop(rnd.randrange(len(self._greeted))).close()

    def _answer(self, client: socket.socket) -> None:
        message, fds = self._random.choice(self._wrong)()
        with contextlib.suppress(OSError):
            socket.send_fds(client, [message], fds)
            self._seen["mutated: answer"] += 1
        self._answered.append(client)
        if len(self._answered) > _OPEN:
            self._answered.pop(0).close()

    @property
    def _wrong(self) -> list[Callable[[], tuple[bytes, list[int]]]]:
        """Answers that a client has to refuse."""
        rnd, whole = self._random, [self._sealed]

        def with_size() -> tuple[bytes, list[int]]:
            size = rnd.choice((*_ODD, 1 << rnd.randrange(32)))
            return self._hello(size if size != _RING else 2 * _RING), whole

        def with_status() -> tuple[bytes, list[int]]:
            reason = rnd.randbytes(rnd.randrange(LONGEST_SERVER_HELLO - 16))
            return struct.pack(
                "<4sHHII", b"LRRV", 2, 1, rnd.choice((1, 5, 99, 2**31, 2**32 - 1)), _RING
            ) + reason, whole

        def without_magic() -> tuple[bytes, list[int]]:
            return rnd.randbytes(4).replace(b"LRRV", b"none") + self._hello(_RING)[4:], whole

        return [
            with_size,
            with_status,
            without_magic,
            lambda: (self._hello(_RING)[: rnd.randrange(1, 16)], whole),
            lambda: (self._hello(_RING), []),
            lambda: (self._hello(_RING), [self._unsealed]),
            lambda: (self._hello(_RING), [self._null]),
            lambda: (self._hello(_RING), [self._sealed, self._null]),
        ]

    @staticmethod
    def _hello(ring_bytes: int) -> bytes:
        return ServerHello(0, ring_bytes % 2**32).to_bytes()

    def close(self) -> None:
        """Close everything, and remove the socket."""
        for one in (*self._greeted, *self._answered, self._listener):
            one.close()
        for fd in (self._sealed, self._unsealed, self._null):
            os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        if self._lock is not None:
            self._lock.release(unlink=True)
