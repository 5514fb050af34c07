"""An engine and its clients while a third process of the same user rewrites every file that they have mapped.

    python -m tests.endurance.fuzz live --seconds 600

A round is an engine with a segment, image files and sessions, a client that steps it, calls it and streams images, a
second client for calls and streams, and one that looks at sessions in shared memory; each is a thread of one process.
Meanwhile this process changes words and bytes of all files, most of them where the other side looks, and in some rounds
truncates one. The fields that only say where everything lies are put back after a moment, so that new clients come in.

Every operation ends with an answer or a TransportError. A finding is: any other exception, a signal, an operation or a
process that does not end, a traceback of the engine.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.config import Settings, load_settings
from lucky_transport.deadline import Deadline
from lucky_transport.errors import TransportError
from lucky_transport.messages import GetCameraFrameRequest, StepRequest, StreamCameraRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from lucky_transport.sessions.client import SessionClient
from lucky_transport.shm.layout import FIELDS, HEADER_BYTES, RING_HEAD_BYTES, plan
from lucky_transport.testing.image_engine import ImageEngine

__all__ = ["LiveFinding", "LiveFuzz"]

_SHM = Path("/dev/shm")
_ROOT = Path(__file__).parents[2]
_ROUND_S = 4.0
_PATIENCE_S = 45.0
_ODD = (0, 1, 2, 3, 4, 7, 8, 64, 255, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 8)
#: Header words that a side reads while it runs; all others are put back after a moment.
_LIVE = (
    *("client_pid", "client_start", "client_features", "frame_seq", "frame_status", "action_seq", "engine_state"),
    *("heartbeat", "park_engine", "park_frame", "park_command"),
)
_BACK_S = 0.001
_COMMAND = (sys.executable, "-m", "tests.endurance.fuzz_live")
#: One round in so many truncates a file.
_CUTS = 6


class LiveFinding(AssertionError):
    """Something happened that may not happen; the text shows the round and what the processes said."""


class LiveFuzz:
    """`run_for(seconds)` plays rounds for that long; `seen` counts mutations and what came of every operation."""

    def __init__(self, seed: int, *, round_s: float = _ROUND_S) -> None:
        self.seen: Counter[str] = Counter()
        self._seed = seed
        self._random = random.Random(seed)
        self._round_s = round_s

    def run_for(self, seconds: float) -> None:
        """Play rounds until the time is over. Raises LiveFinding."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.seen["rounds"] += 1
            self._play()

    def _play(self) -> None:
        name = unique_name()
        with _child("engine", name) as engine:
            assert engine.stdout is not None
            if engine.stdout.readline() != "ready\n":
                raise self._finding("the engine did not start", engine)
            with _child("client", name, str(self._round_s)) as client:
                self._mutate(name, client)
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
            raise LiveFinding(
                f"seed {self._seed}, round {self.seen['rounds']}: {who} ended with {child.returncode}: {err[-4000:]}"
            )
        return out

    def _finding(self, what: str, child: subprocess.Popen[str]) -> LiveFinding:
        child.kill()
        _, err = child.communicate()
        return LiveFinding(f"seed {self._seed}, round {self.seen['rounds']}: {what}: {err[-4000:]}")

    def _count(self, out: str) -> None:
        for outcome, count in json.loads(out.splitlines()[-1]).items():
            self.seen[outcome] += count

    # -- the third process --------------------------------------------------------------------------------------------

    def _mutate(self, name: str, client: subprocess.Popen[str]) -> None:
        """Change the files until the client ends."""
        rnd = self._random
        files: dict[Path, mmap] = {}
        start = time.monotonic()
        cut_at = start + rnd.uniform(0.2, self._round_s) if rnd.randrange(_CUTS) == 0 else None
        give_up = start + self._round_s + _PATIENCE_S
        while client.poll() is None and time.monotonic() < give_up:
            _map_new(name, files)
            if cut_at is not None and time.monotonic() > cut_at:
                cut_at = None
                self._cut(files)
            for path, memory in rnd.sample(sorted(files.items()), min(2, len(files))):
                self._change(path, memory)
            time.sleep(rnd.choice((0, 0, 0.0005, 0.002)))

    def _cut(self, files: dict[Path, mmap]) -> None:
        path = self._random.choice(sorted(files))
        with contextlib.suppress(OSError):
            os.truncate(path, self._random.choice((0, 4096, files[path].size() // 2)))
            self.seen[f"truncated: {_kind(path)}"] += 1
        files.clear()  # touching them is death: nothing guards this process

    def _change(self, path: Path, memory: mmap) -> None:
        if memory.size() < len(memory):
            return
        kind = _kind(path)
        rnd = self._random
        for _ in range(rnd.choice((1, 1, 4, 16, 64))):
            at, size, put_back = self._place(kind, memory)
            before = memory[at : at + size]
            value = rnd.choice(_ODD) if rnd.random() < 0.6 else rnd.getrandbits(8 * size)
            memory[at : at + size] = (value % (1 << (8 * size))).to_bytes(size, "little")
            self.seen[f"mutated: {kind}"] += 1
            if put_back:
                time.sleep(_BACK_S)
                memory[at : at + size] = before
                if at == _FRAMES.offset:  # what there is between exchanges: the next client waits for it
                    memory[at : at + size] = memory[_ACTIONS.offset : _ACTIONS.offset + size]

    def _place(self, kind: str, memory: mmap) -> tuple[int, int, bool]:
        """Return where to write, how many bytes, and whether what was there has to come back."""
        rnd, total = self._random, len(memory)
        if kind != "segment":
            if rnd.random() < 0.8:  # the head, the words of slots, the beginnings of records
                return rnd.choice((rnd.randrange(0, 512, 4), *range(4096, min(total, 4096 * 4) - 4, 4096))), 4, False
            return rnd.randrange(0, total - 4, 4), 4, False
        which = rnd.random()
        if which < 0.35:
            place = FIELDS[rnd.choice(_LIVE)]
            return place.offset, 8 if place.code == "Q" else 4, place is _FRAMES
        if which < 0.37:
            place = FIELDS[rnd.choice(sorted(FIELDS))]
            return place.offset, {"B": 1, "I": 4, "Q": 8}.get(place.code, 8), True
        rings = _RINGS if total == _TOTAL else ()
        if which < 0.6 and rings:
            ring = rnd.choice(rings)
            return ring + rnd.choice((0, 128, 192, *range(RING_HEAD_BYTES, RING_HEAD_BYTES + 2048, 4))), 4, False
        at = rnd.randrange(HEADER_BYTES, HEADER_BYTES + 2048 if which < 0.8 else total - 8, 4)
        return at, 4, at > total - 16384  # there lies the spec


_FRAMES, _ACTIONS = FIELDS["frame_seq"], FIELDS["action_seq"]
#: Where the rings of the engine below lie.
_PLAN = plan(ImageEngine(2).spec)
_TOTAL = _PLAN.total_size
_RINGS = tuple(_PLAN[ring].offset for ring in ("ring_s2c", "ring_c2s"))


def _kind(path: Path) -> str:
    return "images" if ".images." in path.name else "latest value" if ".looks." in path.name else "segment"


def _map_new(name: str, files: dict[Path, mmap]) -> None:
    """Map the files that have come; forget those that were removed."""
    there = {path for path in _SHM.glob(f"{name}*") if not path.name.endswith(".lock")}
    for path in files.keys() - there:
        del files[path]
    for path in there - files.keys():
        with contextlib.suppress(OSError, ValueError), path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size > 2 * HEADER_BYTES:  # not what was truncated
                files[path] = mmap(file.fileno(), 0)


@contextlib.contextmanager
def _child(*arguments: str) -> Generator[subprocess.Popen[str]]:
    command = [*_COMMAND, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, cwd=_ROOT) as child:
        try:
            yield child
        finally:
            child.kill()


# -- the engine, and the clients --------------------------------------------------------------------------------------


def _engine(name: str) -> None:
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.ERROR)
    signal.signal(signal.SIGTERM, _leave)
    parent = os.getppid()
    with api.serve(ImageEngine(2), f"shm://{name}"), api.serve("cartpole", f"shm://{name}_worlds"):
        print("ready", flush=True)
        while os.getppid() == parent:
            time.sleep(1)


def _leave(number: int, frame: object) -> None:
    sys.exit(0)


class _Clients:
    """Threads that work through transports and count what comes of it, until the time is over."""

    def __init__(self, name: str, seconds: float) -> None:
        self.seen: Counter[str] = Counter()
        self._name = name
        self._end = time.monotonic() + seconds
        self._settings: Settings = load_settings(
            {"connect_timeout_s": 0.5, "step_timeout_s": 0.5, "command_timeout_s": 0.5}
        )
        self._faults: list[BaseException] = []
        self._lock = threading.Lock()
        self._drives = False

    def run(self) -> Counter[str]:
        """Return the counts. Raises what was no TransportError."""
        works = (self._step, self._command, self._look)
        threads = [threading.Thread(target=self._repeat, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._faults:
            raise self._faults[0]
        return self.seen

    def _repeat(self, work: Callable[[], None]) -> None:
        while time.monotonic() < self._end and not self._faults:
            try:
                if not self._try("connect", work):
                    time.sleep(0.01)
            except BaseException as error:
                self._faults.append(error)

    def _try(self, what: str, operation: Callable[[], Any]) -> bool:
        """Count how the operation ends; True for an answer."""
        try:
            operation()
        except TransportError as error:
            outcome = type(error).__name__
        else:
            outcome = "answer"
        with self._lock:
            self.seen[f"{what}: {outcome}"] += 1
        return outcome == "answer"

    def _loop(self, operations: dict[str, Callable[[], Any]]) -> None:
        """Go on until most of the operations fail: then this transport is of no use any more."""
        failures = 0
        while time.monotonic() < self._end and failures < 12:
            for what, operation in operations.items():
                failures = max(0, failures - 1) if self._try(what, operation) else failures + 1

    def _step(self) -> None:
        with api.open_transport(f"shm://{self._name}", self._settings) as client:
            actions, reset = np.zeros_like(client.actions), np.ones(client.spec.num_envs, np.uint8)
            shown = client.actions
            self._drives = not self._drives  # a call of Step would drive too, and one of them is Busy then
            if self._drives:
                self._try("step", lambda: client.step(actions, reset))
            self._loop(
                {
                    **({"step": lambda: [client.step(actions) for _ in range(20)]} if self._drives else {}),
                    **({"call with image": lambda: client.call(_STEP, _SHOT)} if not self._drives else {}),
                    "call": lambda: client.call(_SCHEMA, _SCHEMA.request()),
                    "image stream": lambda: self._stream(client, copy=True),
                    "image views": lambda: self._stream(client, copy=False),
                }
            )
        shown.sum()

    def _command(self) -> None:
        time.sleep(0.05)
        with api.open_transport(f"shm://{self._name}", self._settings) as client:
            if client.capabilities.lockstep:  # it came first, and the place is the other thread's
                return
            self._loop(
                {
                    "call beside": lambda: client.call(_SCHEMA, _SCHEMA.request()),
                    "image stream beside": lambda: self._stream(client, copy=True),
                }
            )

    def _stream(self, client: Any, *, copy: bool) -> None:
        request = StreamCameraRequest(name="endless")
        with client.stream(_CAMERA, request, Deadline(1), copy=copy) as stream:
            for _ in range(10):
                np.frombuffer(next(stream).data, np.uint8).sum()

    def _look(self) -> None:
        with api.open_transport(f"shm://{self._name}_worlds", self._settings) as client:
            sessions = SessionClient(client)
            session = sessions.create(seed=1, options={"max_ticks": 1_000_000_000})
            looks = sessions.watch(session)
            try:
                self._loop(
                    {
                        "snapshot": lambda: [looks.latest(-1, Deadline(0.5)) for _ in range(20)],
                        "advance": lambda: sessions.advance(session, 1),
                    }
                )
            finally:
                looks.close()


_SCHEMA, _STEP = method("TelemetryService/GetTelemetrySchema"), method("AgentService/Step")
_CAMERA = method("CameraService/StreamCamera")
_SHOT = StepRequest(camera_requests=[GetCameraFrameRequest(name="any")])


def _main(role: str, name: str, *seconds: str) -> None:
    faulthandler.register(signal.SIGUSR1)
    if role == "engine":
        _engine(name)
    else:
        print(json.dumps(_Clients(name, float(seconds[0])).run()))


if __name__ == "__main__":
    _main(*sys.argv[1:])
