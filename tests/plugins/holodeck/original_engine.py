"""The original engine's side in a few lines: it maps each block once, by key and size, and keeps it as long as it runs.

It imports nothing of this project, and gets only the names from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from mmap import mmap
from typing import Any

import numpy as np
import posix_ipc

#: Elements and dtype of the sensors whose blocks it writes.
_FLOATS = {"LocationSensor": 3, "DistanceTask": 2}
#: Sensors whose configuration it reads as an object; one that is none makes it abort.
_CONFIGURED = ("RGBCamera", "ViewportCapture", "RangeFinderSensor")
_SLICE_S = 0.05


class OriginalEngine:
    """Runs until `close`. residents: agents that the world has by itself, by name; each reset brings them back.

    commands: (type, strings, numbers) of all that came. aborted: why it would have ended.
    Every sensor shows how many ticks its agent is there.
    """

    def __init__(self, names: Any, *residents: str) -> None:
        self.commands: list[tuple[str, list[str], list[float]]] = []
        self.aborted = ""
        self.names = names
        self._residents = residents
        self._memory: dict[str, mmap] = {}
        self._ages = dict.fromkeys(residents, 0)
        self._sensors: dict[str, tuple[str, int, np.dtype[Any]]] = {}  # block -> agent, elements, dtype
        self._server = posix_ipc.Semaphore(names.server, posix_ipc.O_CREX, mode=0o600, initial_value=1)
        self._client = posix_ipc.Semaphore(names.client, posix_ipc.O_CREX, mode=0o600, initial_value=0)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def of_type(self, kind: str) -> list[tuple[list[str], list[float]]]:
        """Return strings and numbers of the commands of one type."""
        return [(strings, numbers) for each, strings, numbers in self.commands if each == kind]

    def map(self, key: str, size: int) -> mmap:
        """Return the block `key`: the mapping that it had from the first time on, unless its size is another."""
        block = self._memory.get(key)
        if block is None or len(block) != size:
            fd = os.open(self.names.block(key), os.O_CREAT | os.O_RDWR, 0o600)
            if os.fstat(fd).st_size != size:
                os.ftruncate(fd, size)
            block = self._memory[key] = mmap(fd, size)
            os.close(fd)
        return block

    def _run(self) -> None:
        is_first = True  # in which the blocks are not there yet
        while not self._stopping.is_set():
            try:
                self._server.acquire(_SLICE_S)
            except posix_ipc.BusyError:
                continue
            if not is_first:
                self._tick()
            is_first = False
            self._client.release()

    def _tick(self) -> None:
        flag, reset = self.map("command_bool", 1), self.map("RESET", 1)
        if flag[0]:
            text = self.map("command_buffer", 1 << 20)[:].decode(errors="replace")
            for command in json.JSONDecoder().raw_decode(text)[0]["commands"]:
                self._obey(command)
            flag[0] = 0
        if reset[0]:
            self._ages = dict.fromkeys(self._residents, 0)
            self._sensors = {}
            reset[0] = 0
        for agent in self._ages:
            self._ages[agent] += 1
        for key, (agent, count, dtype) in self._sensors.items():
            shown = np.full(count, self._ages[agent]).astype(dtype)
            self.map(key, shown.nbytes)[:] = shown.tobytes()

    def _obey(self, command: Any) -> None:
        values = [each["value"] for each in command["params"]]
        strings = [each for each in values if isinstance(each, str)]
        self.commands.append((command["type"], strings, [float(each) for each in values if not isinstance(each, str)]))
        if command["type"] == "SpawnAgent":
            self._ages[strings[1]] = 0
        elif command["type"] == "AddSensor":
            agent, name, kind, config_text, _ = strings
            config = json.loads(config_text)
            if kind in _CONFIGURED and not isinstance(config, dict):
                self.aborted = f"{kind} with the configuration {config_text}"
            if agent not in self._ages:
                self.aborted = f"AddSensor for {agent}, which is not there"
            elif kind in _FLOATS:
                self._sensors[f"{agent}_{name}_sensor_data"] = (agent, _FLOATS[kind], np.dtype(np.float32))
            elif kind == "RangeFinderSensor" and isinstance(config, dict):
                count = config.get("LaserCount", 1)
                self._sensors[f"{agent}_{name}_sensor_data"] = (agent, count, np.dtype(np.float32))
            elif kind == "RGBCamera" and isinstance(config, dict):
                count = config.get("CaptureWidth", 256) * config.get("CaptureHeight", 256) * 4
                self._sensors[f"{agent}_{name}_sensor_data"] = (agent, count, np.dtype(np.uint8))

    def close(self) -> None:
        """End; the names of its semaphores go with it, the blocks stay, as in the original."""
        self._stopping.set()
        self._thread.join()
        for semaphore in (self._server, self._client):
            semaphore.close()
            with contextlib.suppress(posix_ipc.ExistentialError):  # the original client removes them
                semaphore.unlink()
