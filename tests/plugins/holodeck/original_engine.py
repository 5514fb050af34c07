"""The original engines' side in a few lines: it maps each block once, by key and size, and keeps it as long as it runs.

Holodeck's engine and HoloOcean's do so, and each knows the other's common agents and sensors. What is particular to
HoloOcean's is here as its public sources have it. It imports nothing of this project, and gets only the names from it.
"""

import contextlib
import json
import os
import threading
from collections.abc import Callable
from mmap import mmap
from typing import Any

import numpy as np
import posix_ipc

#: Elements and dtype of the sensors whose blocks it writes.
_FLOATS = {"LocationSensor": 3, "DistanceTask": 2}
#: Sensors whose configuration it reads as an object; one that is none makes it abort.
_CONFIGURED = ("RGBCamera", "ViewportCapture", "RangeFinderSensor")
#: Numbers in the action blocks of HoloOcean's agents: its engine makes these of its own size.
_ACTIONS = {
    **dict.fromkeys(("HoveringAUV", "BlueROV2", "ScubaDiver", "FixedWing"), 8),
    **dict.fromkeys(("TorpedoAUV", "CougUV", "SurfaceVessel"), 6),
}
_SLICE_S = 0.05


def _centimetres(config: dict[str, Any], key: str, metres: float) -> np.float32:
    return np.float32(config.get(key, metres)) * np.float32(100)


def _range_bins(config: dict[str, Any], least: float, most: float, bins: int) -> int:
    """Return the range bins of a sonar: HoloOcean's engine counts them in float32, in centimetres."""
    resolution = _centimetres(config, "RangeRes", 0)
    if "RangeBins" in config or not resolution:
        return config.get("RangeBins", bins)
    return int((_centimetres(config, "RangeMax", most) - _centimetres(config, "RangeMin", least)) / resolution)


def _azimuth_bins(config: dict[str, Any], bins: int) -> int:
    resolution = np.float32(config.get("AzimuthRes", 0))
    if "AzimuthBins" in config or not resolution:
        return config.get("AzimuthBins", bins)
    return int(np.float32(config.get("Azimuth", 120)) / resolution)


#: Numbers that HoloOcean's sensors show, by their configuration; float32, unless `_BYTES` has them.
_HOLOOCEAN: dict[str, Callable[[dict[str, Any]], int]] = {
    "PoseSensor": lambda config: 16,
    "DynamicsSensor": lambda config: 18 if config.get("UseRPY", True) else 19,
    "DVLSensor": lambda config: 7 if config.get("ReturnRange", True) else 3,
    "IMUSensor": lambda config: 12 if config.get("ReturnBias", False) else 6,
    "DepthSensor": lambda config: 1,
    "GPSSensor": lambda config: 3,
    "MagnetometerSensor": lambda config: 3,
    "BSTSensor": lambda config: 3,
    "AcousticBeaconSensor": lambda config: 4,
    "OpticalModemSensor": lambda config: 1,
    "ImagingSonar": lambda config: _range_bins(config, 0.1, 10, 512) * _azimuth_bins(config, 512),
    "ProfilingSonar": lambda config: _range_bins(config, 0.5, 75, 750) * _azimuth_bins(config, 480),
    "SidescanSonar": lambda config: _range_bins(config, 0.5, 35, 690),
    "SinglebeamSonar": lambda config: _range_bins(config, 0.5, 10, 200),
    "RaycastLidar": lambda config: config.get("PointsPerSecond", 56000),
    "RaycastSemanticLidar": lambda config: config.get("PointsPerSecond", 56000),
    **dict.fromkeys(
        ("CameraSensor", "DepthCamera", "SemanticSegmentationCamera"),
        lambda config: config.get("CaptureWidth", 256) * config.get("CaptureHeight", 256) * 4,
    ),
}
_BYTES = ("OpticalModemSensor", "CameraSensor", "DepthCamera", "SemanticSegmentationCamera")


def _size(kind: str, config: dict[str, Any]) -> tuple[int, np.dtype[Any]] | None:
    """Return elements and dtype of a sensor's block, None for a sensor that this engine does not write."""
    if kind in _HOLOOCEAN:
        return _HOLOOCEAN[kind](config), np.dtype(np.uint8 if kind in _BYTES else np.float32)
    if kind == "RGBCamera":
        return config.get("CaptureWidth", 256) * config.get("CaptureHeight", 256) * 4, np.dtype(np.uint8)
    count = config.get("LaserCount", 1) if kind == "RangeFinderSensor" else _FLOATS.get(kind)
    return None if count is None else (count, np.dtype(np.float32))


class OriginalEngine:
    """Runs until `close`. residents: agents that the world has by itself, by name; each reset brings them back.

    commands: (type, strings, numbers) of all that came. aborted: why it would have ended. cut: blocks that it has made
    smaller than it found them, under the client that maps them.
    Every sensor shows how many ticks its agent is there, every TicksPerCapture ticks where it is configured so.
    """

    def __init__(self, names: Any, *residents: str) -> None:
        self.commands: list[tuple[str, list[str], list[float]]] = []
        self.aborted = ""
        self.cut: list[str] = []
        self.names = names
        self._residents = residents
        self._memory: dict[str, mmap] = {}
        self._ages = dict.fromkeys(residents, 0)
        self._sensors: dict[str, tuple[str, int, np.dtype[Any], int]] = {}  # block -> agent, elements, dtype, every
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
            if os.fstat(fd).st_size > size:
                self.cut.append(key)
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
        for key, (agent, count, dtype, every) in self._sensors.items():
            if self._ages[agent] % every == 0:
                shown = np.full(count, self._ages[agent]).astype(dtype)
                self.map(key, shown.nbytes)[:] = shown.tobytes()

    def _obey(self, command: Any) -> None:
        values = [each["value"] for each in command["params"]]
        strings = [each for each in values if isinstance(each, str)]
        self.commands.append((command["type"], strings, [float(each) for each in values if not isinstance(each, str)]))
        if command["type"] == "SpawnAgent":
            self._ages[strings[1]] = 0
            if (len(strings), len(values)) != (2, 9):
                self.aborted = f"SpawnAgent with {values}"
            if strings[0] in _ACTIONS:
                name, count = strings[1], _ACTIONS[strings[0]]
                sizes = {"": 4 * count, "_control_scheme": 1, "_teleport_flag": 1, "_teleport_command": 48}
                for suffix, size in sizes.items():
                    self.map(name + suffix, size)
        elif command["type"] == "AddSensor":
            agent, name, kind, config_text, _ = strings
            config = json.loads(config_text)
            if (kind in _CONFIGURED or kind in _HOLOOCEAN) and not isinstance(config, dict):
                self.aborted = f"{kind} with the configuration {config_text}"
            if agent not in self._ages:
                self.aborted = f"AddSensor for {agent}, which is not there"
            elif isinstance(config, dict) and (size := _size(kind, config)) is not None:
                self._sensors[f"{agent}_{name}_sensor_data"] = (agent, *size, config.get("TicksPerCapture", 1))

    def close(self) -> None:
        """End; the names of its semaphores go with it, the blocks stay, as in the original."""
        self._stopping.set()
        self._thread.join()
        for semaphore in (self._server, self._client):
            semaphore.close()
            with contextlib.suppress(posix_ipc.ExistentialError):  # the original client removes them
                semaphore.unlink()
