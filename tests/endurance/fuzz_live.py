"""An engine and its clients while a third process of the same user rewrites all that they share.

    python -m tests.endurance.fuzz live --seconds 600
    python -m tests.endurance.fuzz live --mutations 10000000

A round is an engine with a segment, image files and sessions, a client that steps it, calls it and streams images, a
second client for calls and streams over rings of its own, one that uses sessions, and one that
connects to what is no engine; each is a thread of one process. Meanwhile this process changes words and bytes of all
files (`live_mutator`), most of them where the other side looks, greets the engine and answers clients with what no peer
says (`live_handshakes`), and in some rounds truncates a file. The fields that only say where everything lies are put
back after a moment, so that new clients come in.

Every operation ends with an answer or a TransportError. A finding is: any other exception, a signal, an operation or a
process that does not end, a traceback of the engine. In every other round only the words are rewritten by which the
sides know where and whose everything is, and no content: there an answer that is not right is a finding too.
"""

import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

from lucky_transport.process import unique_name
from tests.endurance.fuzz import Finding
from tests.endurance.live_handshakes import Handshakes
from tests.endurance.live_mutator import LiveMutator

_SHM = Path("/dev/shm")
_ROOT = Path(__file__).parents[2]
_ROUND_S = 8.0
_PATIENCE_S = 45.0
_COMMAND = (sys.executable, "-m", "tests.endurance.live_peers")
#: One round in so many truncates a file.
_CUTS = 6
#: One change in so many comes with a handshake.
_GREETS = 4


class LiveFuzz:
    """`run_for(seconds)` plays rounds for that long; `seen` counts mutations and what came of every operation."""

    def __init__(self, seed: int, *, round_s: float = _ROUND_S) -> None:
        self.seen: Counter[str] = Counter()
        self._seed = seed
        self._random = random.Random(seed)
        self._round_s = round_s

    @property
    def mutations(self) -> int:
        """How many there were."""
        return sum(count for what, count in self.seen.items() if what.startswith("mutated: "))

    def run_for(self, seconds: float) -> None:
        """Play rounds until the time is over. Raises Finding."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.seen["rounds"] += 1
            self._play("words" if self.seen["rounds"] % 2 else "all")

    def _play(self, rewritten: str) -> None:
        name = unique_name()
        with _child("engine", name) as engine:
            assert engine.stdout is not None
            if engine.stdout.readline() != "ready\n":
                raise self._finding("the engine did not start", engine)
            with _child("client", name, str(self._round_s), rewritten) as client:
                self._mutate(name, engine.pid, client, words_only=rewritten == "words")
                out = self._end_of(client, "the client")
            self._count(out)
            engine.terminate()
            self._end_of(engine, "the engine")
        left = list(_SHM.glob(f"{name}*"))
        for path in left:
            path.unlink()
        if left:
            self.seen["files left behind"] += len(left)

    def _end_of(self, child: subprocess.Popen[str], who: str) -> str:
        """Return what the child printed; it has to end by itself, in order, and without a traceback."""
        try:
            out, err = child.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGUSR1)  # it shows where its threads are
            time.sleep(1)
            raise self._finding(f"{who} hangs", child) from None
        if child.returncode or "Traceback" in err:
            raise Finding(
                f"seed {self._seed}, round {self.seen['rounds']}: {who} ended with {child.returncode}: {err[-4000:]}"
            )
        return out

    def _finding(self, what: str, child: subprocess.Popen[str]) -> Finding:
        child.kill()
        _, err = child.communicate()
        return Finding(f"seed {self._seed}, round {self.seen['rounds']}: {what}: {err[-4000:]}")

    def _count(self, out: str) -> None:
        for outcome, count in json.loads(out.splitlines()[-1]).items():
            self.seen[outcome] += count

    def _mutate(self, name: str, engine: int, client: subprocess.Popen[str], *, words_only: bool) -> None:
        """Change what they share until the client ends."""
        rnd = self._random
        mutator = LiveMutator(name, engine, rnd, self.seen, words_only=words_only)
        start = time.monotonic()
        cut_at = start + rnd.uniform(0.2, self._round_s) if rnd.randrange(_CUTS) == 0 else None
        give_up = start + self._round_s + _PATIENCE_S
        with contextlib.closing(Handshakes(name, rnd, self.seen)) as handshakes:
            while client.poll() is None and time.monotonic() < give_up:
                if cut_at is not None and time.monotonic() > cut_at:
                    cut_at = None
                    mutator.cut()
                mutator.change_some()
                if rnd.randrange(_GREETS) == 0:
                    handshakes.exchange()
                time.sleep(rnd.choice((0, 0, 0.0005, 0.002)))


@contextlib.contextmanager
def _child(*arguments: str) -> Generator[subprocess.Popen[str]]:
    command = [*_COMMAND, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, cwd=_ROOT) as child:
        try:
            yield child
        finally:
            child.kill()
