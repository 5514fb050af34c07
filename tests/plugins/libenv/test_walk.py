"""A library whose functions are Python's is made, stepped, put into a state and closed, as one in C is."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_float, c_int, c_int32, c_uint8, c_void_p, cast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lucky_transport.engine import RESET, Buffers
from lucky_transport_libenv.engine import LibenvEngine
from lucky_transport_libenv.interface import FUNCTIONS, Dtype, LibenvBuffers, Options, ScalarType, Space, TensorType

_STATE = (c_int, (c_void_p, c_int, c_void_p, c_int))


class Counters:
    """Adds each env's actions up, from the option `start` on; an episode ends above 5, and the next one begins at 0."""

    def __init__(self) -> None:
        types = {**FUNCTIONS, "get_state": _STATE, "set_state": _STATE}
        self._functions = {
            name: CFUNCTYPE(result, *arguments)(getattr(self, name.removeprefix("libenv_")))
            for name, (result, arguments) in types.items()
        }
        self.calls: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.calls.append(name)
        return self._functions[name]

    def version(self) -> int:
        return 1

    def make(self, num_envs: int, options: Options) -> int:
        given = {options.items[i].name: options.items[i].data for i in range(options.count)}
        self.counts = [_numbers(given[b"start"])[0]] * num_envs
        self.handle = 7
        return self.handle

    def get_tensortypes(self, handle: int, space: int, types: Any) -> int:
        if space != Space.INFO and types:
            types[0] = TensorType(b"count", ScalarType.DISCRETE, Dtype.INT32, (c_int * 16)(1), 1)
            types[0].high.int32 = 9
        return int(space != Space.INFO)

    def set_buffers(self, handle: int, buffers: Any) -> None:
        self.buffers: LibenvBuffers = buffers.contents

    def observe(self, handle: int) -> None:
        for env, count in enumerate(self.counts):
            _numbers(self.buffers.ob[env])[0] = count

    def act(self, handle: int) -> None:
        rewards, firsts = cast(self.buffers.rew, POINTER(c_float)), cast(self.buffers.first, POINTER(c_uint8))
        for env in range(len(self.counts)):
            self.counts[env] += _numbers(self.buffers.ac[env])[0]
            rewards[env], firsts[env] = self.counts[env], self.counts[env] > 5
            self.counts[env] *= not firsts[env]

    def get_state(self, handle: int, env: int, data: int, capacity: int) -> int:
        _numbers(data)[0] = self.counts[env]
        return 4

    def set_state(self, handle: int, env: int, data: int, size: int) -> int:
        self.counts[env] = _numbers(data)[0]
        return 0

    def close(self, handle: int) -> None:
        self.handle = 0


def _numbers(address: Any) -> Any:
    return cast(address, POINTER(c_int32))


def test_each_call_of_the_interface_reaches_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, place = Counters(), tmp_path / "libcounters.so"
    place.touch()
    with monkeypatch.context() as loading:
        loading.setattr(ctypes, "CDLL", lambda path, mode: library)
        engine = LibenvEngine(str(place), 2, {"start": 3})
    assert library.calls == list(FUNCTIONS)
    out = Buffers.allocate(engine.spec)
    engine.bind(out)
    counts, actions = (rows.view(np.int32)[:, 0] for rows in (out.observations, out.actions))
    engine.step(np.full(2, RESET, np.uint8))
    assert counts.tolist() == [3, 3]
    actions[:] = [1, 4]
    engine.step(None)
    assert (counts.tolist(), out.rewards.tolist(), out.terminated.tolist()) == ([4, 0], [4, 7], [0, 1])
    engine.set_state(1, engine.get_state(0))
    assert counts.tolist() == [4, 4]
    engine.close()
    assert library.handle == 0
