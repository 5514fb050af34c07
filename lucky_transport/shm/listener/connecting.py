"""The client's end of a listener: `connect_pipe` finds an engine by its segment's name and returns a pipe.

An event loop, which must not wait here, takes the same steps itself: `pipe_steps`. What the engine sends is checked
before it is used: its user, the memory's size and seals.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import select
import socket
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from lucky_transport.config import runtime_directories
from lucky_transport.deadline import Deadline
from lucky_transport.errors import (
    ConfigError,
    NotReachable,
    PeerTimeout,
    RemoteProtocolError,
    SegmentError,
    from_wire,
)
from lucky_transport.limits import within_limits
from lucky_transport.shm.eventfd import EventFd
from lucky_transport.shm.files import lockfile
from lucky_transport.shm.files.liveness import peer_of, pid_name, process_name
from lucky_transport.shm.files.lockfile import DIRECTORY, lock_path_of
from lucky_transport.shm.files.server_description import description_of
from lucky_transport.shm.files.socket_path import socket_path, sockets_of
from lucky_transport.shm.listener.handshake import LONGEST_SERVER_HELLO, ClientHello, ServerHello, receive_pair
from lucky_transport.shm.listener.memfd_pipe import MemfdPipe, PipeResources
from lucky_transport.shm.timing import ANSWER_S, CONNECT_FIRST_SLEEP_S, CONNECT_LONGEST_SLEEP_S, PEER_POLL_NS

T = TypeVar("T")


class Wait(NamedTuple):
    """What a step waits for: so many seconds, or that `connection` is readable before."""

    seconds: float
    connection: socket.socket | None = None

    def block(self) -> bool:
        """Wait, on this thread; True when the connection is readable."""
        if self.connection is None:
            time.sleep(self.seconds)
            return False
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        return bool(poller.poll(self.seconds * 1000))


#: Yield what to wait for, get whether the connection is readable, return what they come to. Closed, they let go of all.
Steps = Generator[Wait, bool | None, T]


def finish(steps: Steps[T]) -> T:
    """Take all steps, waiting on this thread; return what they come to."""
    with contextlib.closing(steps):
        try:
            wait = next(steps)
            while True:
                wait = steps.send(wait.block())
        except StopIteration as end:
            return end.value


def connect_pipe(
    name: str,
    deadline: Deadline,
    *,
    directories: Sequence[Path] | None = None,
    strategy: int = 1,
    answer_s: float = ANSWER_S,
    or_server: bool = False,
) -> MemfdPipe:
    """Return a pipe to the engine of segment `name`, waiting for the engine until the deadline; see `pipe_steps`."""
    return finish(
        pipe_steps(name, deadline, directories=directories, strategy=strategy, answer_s=answer_s, or_server=or_server)
    )


def pipe_steps(
    name: str,
    deadline: Deadline,
    *,
    directories: Sequence[Path] | None = None,
    strategy: int = 1,
    answer_s: float = ANSWER_S,
    or_server: bool = False,
    at_once: bool = False,
) -> Steps[MemfdPipe]:
    """Connect to the engine of segment `name`, waiting for the engine until the deadline; the steps come to a pipe.

    An engine that listens gets `answer_s` to answer, also where the deadline is nearer. or_server: it may as well be a
    gRPC server, so the error says how to start either. at_once: for one that is not there, or has
    ended and left its socket, nobody waits.

    Raises NotReachable when no engine listens, or a limit of this process or the engine's is reached, PeerTimeout when
    the engine does not answer, Busy when it has too many clients, RemoteProtocolError when it is another user's or
    sends what it may not.
    """
    places, answer_by = directories or runtime_directories(), Deadline(answer_s)
    sleep_s = CONNECT_FIRST_SLEEP_S
    while True:
        was_hung_up = False
        paths = [path for place in places for path in sockets_of(place, name)]
        for path in paths:
            patience_s = max(deadline.remaining_s, answer_s)
            try:
                with within_limits(f"{path} cannot be reached", "shm"):
                    pipe = yield from _connect(path, patience_s, strategy)
            except _HungUp:
                was_hung_up = True
                continue
            if pipe is not None:
                return pipe
        is_late = deadline.expired or (at_once and all(map(_has_ended, paths)))
        if is_late and (answer_by.expired or not was_hung_up):
            raise _unreachable(name, [socket_path(place, name) for place in places], deadline, or_server)
        yield Wait(min(sleep_s, deadline.remaining_s))
        sleep_s = min(sleep_s * 2, CONNECT_LONGEST_SLEEP_S)


def _unreachable(name: str, paths: Sequence[Path], deadline: Deadline, or_server: bool) -> NotReachable:
    """Return the error where no engine listens: another one where its segment shows that it lives."""
    places = " or ".join(map(str, paths))
    text = f"no engine listens at {places} after {deadline.timeout_s:g} s"
    segment = DIRECTORY / name
    with contextlib.suppress(SegmentError):
        for path in paths:
            if (pid := lockfile.holder(f"{path}.lock", lockfile.ENGINE)) is not None:
                return NotReachable(
                    f"the process of {process_name(pid)} at {path} let nobody in within {deadline.timeout_s:g} s",
                    backend="shm",
                    hint="its log says why; connect again",
                )
        pid = lockfile.holder(lock_path_of(segment), lockfile.ENGINE)
        if pid is not None:
            return NotReachable(
                f"{text}; {segment} is there and its engine lives ({process_name(pid)})",
                backend="shm",
                hint="if it runs in another container, share the runtime directory too (a volume at "
                f"{paths[-1].parent} in both); else both have to run as the same user with the same XDG_RUNTIME_DIR",
            )
    engine = f"lucky-transport serve ENGINE --endpoint shm://{name}"
    same = "both run as the same user and see the same /tmp"
    if not or_server:
        hint = f"start the engine ({engine}), check the name (`lucky-transport ls`), and that {same}"
        return NotReachable(text, backend="shm", hint=hint)
    gone = next(filter(None, map(description_of, paths)), None)
    address = gone.target if gone and gone.target else "ADDRESS"
    return NotReachable(
        f"the server of pid {gone.pid} at shm://{name} is gone"
        if gone
        else f"no server or engine listens at shm://{name} ({places})",
        backend="shm",
        hint=f"start it: a server of your own by `lucky-transport run --transport shm --serve {address}=shm://{name} "
        f"-- COMMAND`, an engine by `{engine}`; `lucky-transport ls` shows what runs; {same}",
    )


class _HungUp(Exception):
    """The engine listens, and has no place for one more client just now, or closed the connection: try again."""


def _connect(path: Path, patience_s: float, strategy: int) -> Steps[MemfdPipe | None]:
    """Come to a pipe to the engine that listens there, None when none does; raises _HungUp."""
    with contextlib.ExitStack() as undo:
        connection = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        connection.setblocking(False)  # no wait here ends by a TimeoutError: what is one comes from a signal handler
        try:
            connection.connect(str(path))
            connection.send(ClientHello().to_bytes())  # at once, or the engine accepts and has to wait for it
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return None
        except (BrokenPipeError, ConnectionResetError, BlockingIOError) as error:
            raise _HungUp from error
        except PermissionError as error:
            raise ConfigError(
                f"{path} is not yours to connect to", backend="shm", hint="run as the engine's user"
            ) from error
        peer = peer_of(connection)  # nothing of another user's process is taken
        undo.callback(peer.close)
        answer_by = Deadline(patience_s)
        try:
            while not (yield Wait(min(answer_by.remaining_s, PEER_POLL_NS / 1e9), connection)):
                if _has_ended(path):
                    return None
                if answer_by.expired:
                    raise PeerTimeout(
                        f"the process of {peer.name} at {path} did not answer within {patience_s:.2g} s",
                        backend="shm",
                        hint="it may hang in a step, or have no descriptors left: restart it; one that is stopped goes "
                        "on after `kill -CONT`",
                    )
            message, fds, is_cut = _receive(connection)
        except (BrokenPipeError, ConnectionResetError, BlockingIOError) as error:
            raise _HungUp from error
        for fd in fds:
            undo.callback(os.close, fd)
        if is_cut and not fds:  # the kernel drops the descriptors that this process has no room for
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if not message:
            raise _HungUp
        answer = ServerHello.of(message)
        if answer.status:
            raise from_wire(answer.status, answer.reason, backend="shm")
        if len(fds) != 1:
            raise RemoteProtocolError(
                f"the process of {peer.name} sent {len(fds)} descriptors, expected 1", backend="shm"
            )
        [memory] = fds
        parts = PipeResources(undo.enter_context(EventFd()), connection, peer)
        name = f"the process of {pid_name(peer.pid)} at {path}"
        pair = receive_pair(memory, answer.ring_bytes, answer.arena_bytes)
        pipe = MemfdPipe(pair, parts, name, engine=False, strategy=strategy)
        pipe.is_relay = answer.is_relay
        del pair  # it has a descriptor, which an error that is kept would keep
        undo.pop_all()  # all but the memory is the pipe's now
        os.close(memory)
        undo.callback(pipe.close)
        pipe.fileno()  # what a wait needs is there from the start
        undo.pop_all()
        return pipe


def _has_ended(path: Path) -> bool:
    """True when the engine of that socket is gone, although a child that it forked keeps the connection open.

    Another engine may have removed what it left.
    """
    lock_path = f"{path}.lock"
    if os.path.exists(lock_path):
        return lockfile.holder(lock_path, lockfile.ENGINE) is None
    return not os.path.exists(path)


def _receive(connection: socket.socket) -> tuple[bytes, list[int], bool]:
    """Return the engine's answer, the descriptors that came with it, which the caller closes, and whether some are
    missing.
    """
    numbers = array.array("i")
    space = socket.CMSG_SPACE(numbers.itemsize)
    message, attached, flags, _ = connection.recvmsg(LONGEST_SERVER_HELLO, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in attached:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    return message, list(numbers), bool(flags & socket.MSG_CTRUNC)
