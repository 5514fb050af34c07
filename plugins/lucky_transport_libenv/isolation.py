"""A library in a process of its own, so that a crash, an exit() or a hang of it is an error of the client.

The process is `lucky-transport serve`, stepped through a segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.api import open_transport
from lucky_transport.config import load_settings
from lucky_transport.engine import Buffers, Engine, Handler
from lucky_transport.errors import ClosedError, PeerDied, PeerTimeout
from lucky_transport.process import EngineProcess, unique_name
from lucky_transport_libenv.library import GET_STATE, SET_STATE, find
from lucky_transport_libenv.options import LibenvSettings, OptionBlock, as_json
from lucky_transport_libenv.seeds import SEEDS, Seeds


class IsolatedEngine(Engine):
    """A `LibenvEngine` in another process (`pid`), with the same arguments; its frames are copied once more.

    What ends that process is a PeerDied with its last words; a step longer than the step timeout ends it.
    """

    def __init__(
        self,
        name: str,
        num_envs: int,
        options: Mapping[str, Any],
        settings: LibenvSettings,
        seed: int | None,
    ) -> None:
        """Raises UnknownName and SpecError as `LibenvEngine`, and NotReachable when the process ended before it was
        ready: with its last words, which are the library's.
        """
        find(name)
        settings.check(num_envs)
        # what cannot be passed on is refused here, in this process
        OptionBlock(Seeds(settings.seed_option, options, num_envs, seed).options(0))
        ours = replace(load_settings(), record="")  # a recording is made where the client is
        told = {**as_json(options), "libenv": {**asdict(settings), "isolated": False}}
        self._process = EngineProcess(
            f"libenv:{name}",
            [f"shm://{unique_name()}"],
            num_envs=num_envs,
            seed=seed,
            options=told,
            wait=ours.wait,
            start_timeout_s=ours.start_timeout_s,
        )
        try:
            self._transport = open_transport(self._process.endpoints[0], ours)
        except BaseException:
            self._process.stop()
            raise
        self.spec = self._transport.spec
        self.pid = self._process.pid
        self._takes_seeds = bool(settings.seed_option)
        self._buffers: Buffers

    @property
    def services(self) -> Mapping[str, Handler]:
        methods = (GET_STATE, SET_STATE, *([SEEDS] if self._takes_seeds else []))
        return {method.name: partial(self._transport.call, method) for method in methods}

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def step(self, control: NDArray[np.uint8] | None) -> None:
        out = self._buffers
        try:
            frame = self._transport.step(out.actions, control)
        except (PeerDied, ClosedError) as error:
            raise PeerDied(f"{error}{self._exit_report()}", backend="libenv") from error
        except PeerTimeout as error:
            self._process.kill()
            raise PeerTimeout(f"{error}; its process was ended", backend="libenv") from error
        np.copyto(out.observations, frame.observations)
        np.copyto(out.rewards, frame.rewards)
        np.copyto(out.terminated, frame.terminated)
        np.copyto(out.truncated, frame.truncated)
        np.copyto(out.signals, frame.signals)

    def _exit_report(self) -> str:
        """Return how the library's process ended; it can be waited for a moment after its connection broke."""
        words = self._process.exit_report()
        return f"\nthe library's process ended with {words}" if words else ""

    def close(self) -> None:
        try:
            self._transport.close()
        finally:
            self._process.stop()
