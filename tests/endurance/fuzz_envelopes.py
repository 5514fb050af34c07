"""Mutated envelopes against both ends of calls: each is a typed error, the drop of that peer, or an honest answer.

    python -m tests.endurance.fuzz envelopes --rounds 1000000

A round feeds one mutated record to a server or to a client; what came before it is valid. A peer that was dropped is
replaced; everything else lives on, and its valid calls must get their own answers. Anything but a `TransportError` is a
finding and ends the run, with the seed and the record that show it again.
"""

import random
import struct
from collections import Counter
from collections.abc import Iterator

from lucky_transport.codec.envelope import Envelope, Kind, Metadatum, decode_compact, encode_compact, encode_envelope
from lucky_transport.deadline import Deadline
from lucky_transport.errors import PeerTimeout, RemoteProtocolError, TransportError
from lucky_transport.rpc.client import ClientCalls
from lucky_transport.rpc.client_call import ClientCall
from lucky_transport.rpc.lifecycle import Shape
from lucky_transport.rpc.server import ServerCalls
from lucky_transport.rpc.server_call import ServerCall
from tests.endurance.fuzz import Finding
from tests.support.memory_pipe import MemoryPipe, cut, memory_pipes

_ODD_NUMBERS = (0, 1, 2, 3, 7, 8, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 16, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_NOW = Deadline(0)
#: Rounds after which a client and server are replaced although nothing dropped them.
_LIFE = 500
#: Rounds after which an honest call must get its own answer.
_CHECK_EVERY = 10


class EnvelopeFuzz:
    """`run(rounds)` plays that many rounds; `seen` counts what came of them."""

    def __init__(self, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._seed = seed
        self._round = 0
        self._victims: Iterator[_Victim] = iter(())

    def run(self, rounds: int) -> None:
        """Play the rounds. Raises Finding."""
        server, client = _Server(), _Client()
        for _ in range(rounds):
            self._round += 1
            victim = server if self._random.random() < 0.5 else client
            record = self._record(victim.peers_kinds)
            try:
                outcome = victim.take(record)
                if not victim.is_dropped and self._round % _CHECK_EVERY == 0:
                    victim.check_honest_call()
            except Exception as error:  # whatever else is raised is what this looks for
                raise self._finding(f"{type(error).__name__}: {error}", record) from error
            self.seen[f"{victim.name}: {outcome}"] += 1
            if victim.is_dropped or victim.age > _LIFE:
                victim.close()
                server, client = (_Server(), client) if victim is server else (server, _Client())
        server.close()
        client.close()

    def _finding(self, what: str, record: bytes) -> Finding:
        return Finding(f"seed {self._seed}, round {self._round}: {what}; record {record.hex()}")

    # -- records ------------------------------------------------------------------------------------------------------

    def _record(self, kinds: tuple[Kind, ...]) -> bytes:
        record = bytearray(self._honest(kinds if self._random.random() < 0.9 else tuple(Kind)))
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 4, 16))):
            self._mutate(record)
        return bytes(record) or b"\0"

    def _honest(self, kinds: tuple[Kind, ...]) -> bytes:
        rnd = self._random
        call = rnd.choice((1, 2, 3, 4, 4, 3, 2, 1, 5, 6, 1 << 40))
        payload = rnd.randbytes(rnd.choice((0, 1, 8, 40, 300)))
        kind = rnd.choice(kinds)
        if rnd.random() < 0.3:
            return encode_compact(kind, call, payload, rnd.choice((0, 1, 40, 4711)), rnd.choice((0, 1, 10**10)))
        if rnd.random() < 0.1:
            whole = encode_compact(kind, call, rnd.randbytes(2000), 1)
            return rnd.choice(tuple(cut(whole, call, 900)))
        return encode_envelope(
            Envelope(
                rnd.choice((0, 1, 40)),
                call,
                kind,
                rnd.choice((0, 1, 10**10, 2**64 - 1)),
                rnd.choice((0, 1, 8, 99, 2**32 - 1)),
                rnd.choice(("", "why", "ünïcode")),
                [Metadatum("key", b"1")] * rnd.choice((0, 0, 3)),
                payload,
                rnd.choice(("", "/a.B/C")),
                rnd.choice((0, 1, 2, 3, 4)),
                rnd.choice((0, 1, 64, 2**32 - 1)),
                rnd.choice((0, 1, 65536, 2**32 - 1)),
                rnd.choice((0, 0, 1, 8, 2**63)),
                rnd.choice((0, 1, 8, 300, 2**63)),
                rnd.choice((0, 5, 2**32 - 1)),
            )
        )

    def _mutate(self, record: bytearray) -> None:
        rnd = self._random
        how = rnd.randrange(7)
        at = rnd.randrange(len(record)) if record else 0
        if not record:
            record += rnd.randbytes(20)
        elif how == 0:
            record[at] ^= 1 << rnd.randrange(8)
        elif how == 1:
            record[at] = rnd.randrange(256)
        elif how == 2 and len(record) >= 4:
            struct.pack_into("<I", record, at & ~3 if (at & ~3) + 4 <= len(record) else 0, rnd.choice(_ODD_NUMBERS))
        elif how == 3:
            del record[at:]
        elif how == 4:
            record += rnd.randbytes(rnd.randrange(1, 40))
        elif how == 5:
            end = min(len(record), at + rnd.randrange(1, 16))
            record[at:end] = rnd.randbytes(end - at)
        else:
            source = rnd.randrange(len(record))
            piece = record[source : source + 8]
            record[at : at + len(piece)] = piece


class _Victim:
    """One end, with the pipe end of the peer that attacks it."""

    name = ""
    #: What an honest peer of this end sends.
    peers_kinds: tuple[Kind, ...] = ()

    def __init__(self) -> None:
        self.attacker: MemoryPipe
        self.is_dropped = False
        self.age = 0

    def take(self, record: bytes) -> str:
        """Feed the record and return what came of it."""
        self.age += 1
        try:
            self.attacker.try_push(record)
            outcome = self.handle()
        except RemoteProtocolError:
            outcome = "dropped"
        self.is_dropped = outcome in ("dropped", "said goodbye")
        while self.attacker.try_pop() is not None:
            pass
        return outcome

    def handle(self) -> str:
        """Let the end take what is in its pipe and return what came of it. Raises RemoteProtocolError: dropped."""
        raise NotImplementedError

    def check_honest_call(self) -> None:
        """Make a call that nobody meddles with. Raises ValueError when it gets another answer than its own."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _Server(_Victim):
    """A server with some honest calls open, whose handler answers now and then."""

    name = "server"
    peers_kinds = (Kind.REQUEST, Kind.STREAM_ITEM, Kind.CREDIT, Kind.HALF_CLOSE, Kind.CANCEL, Kind.FRAGMENT)

    def __init__(self) -> None:
        super().__init__()
        self.attacker, end = memory_pipes(1 << 20)
        self._began: list[ServerCall] = []
        self._calls = ServerCalls(end, self._began.append)
        for number, shape in enumerate(Shape, 1):
            request = Envelope(40, number, Kind.REQUEST, payload=b"x", streams=int(shape), items=8, window=4096)
            self.attacker.try_push(encode_envelope(request))
        self._calls.feed()
        self._began[1].accept()

    def handle(self) -> str:
        opened = len(self._began)
        self._calls.feed()
        if len(self._began) == opened:
            return "taken"
        call = self._began.pop()
        if self.age % 2:
            call.finish(call.payload)
        else:
            call.fail(PeerTimeout("late"))
        return "answered"

    def check_honest_call(self) -> None:
        number, payload = (1 << 50) + self.age, b"honest %d" % self.age
        self.attacker.try_push(encode_compact(Kind.REQUEST, number, payload, 40))
        self._calls.feed()
        self._began.pop().finish(payload)
        answer = decode_compact(self.attacker.try_pop() or b"")
        if answer[:3] != (Kind.RESPONSE, number, payload):
            raise ValueError(f"an honest request got {answer}")

    def close(self) -> None:
        self._calls.close()


class _Client(_Victim):
    """A client with a call of each shape open."""

    name = "client"
    peers_kinds = (
        Kind.RESPONSE,
        Kind.STREAM_ITEM,
        Kind.CREDIT,
        Kind.END,
        Kind.ERROR,
        Kind.FRAGMENT,
        Kind.HEADERS,
    )

    def __init__(self) -> None:
        super().__init__()
        end, self.attacker = memory_pipes(1 << 20)
        self._calls = ClientCalls(end)
        self._open: list[ClientCall] = [self._calls.open("/a.B/C", b"x", shape=shape) for shape in Shape]

    def handle(self) -> str:
        self._calls.pump()
        try:
            self._calls.check()
        except RemoteProtocolError:
            raise
        except TransportError:
            return "said goodbye"
        for call in tuple(self._open):
            try:
                if call.recv(_NOW) is None:
                    self._renew(call)
            except PeerTimeout:
                continue
            except RemoteProtocolError:
                raise
            except TransportError:
                self._renew(call)
        return "taken"

    def check_honest_call(self) -> None:
        payload = b"honest %d" % self.age
        call = self._calls.open(40, payload, shape=Shape.UNARY)
        self.attacker.try_push(encode_compact(Kind.RESPONSE, call.correlation_id, payload))
        answer = call.recv(Deadline(5))
        if answer != payload:
            raise ValueError(f"an honest call got {answer}")

    def _renew(self, ended: ClientCall) -> None:
        """Replace a call that ended, so that there is always something to hit."""
        self._open.remove(ended)
        if self.age < _LIFE:
            self._open.append(self._calls.open("/a.B/C", b"x", shape=Shape.SERVER_STREAM))

    def close(self) -> None:
        self._calls.close()
