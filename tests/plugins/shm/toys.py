"""A toy engine in a process of its own, and a client of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from lucky_transport import api
from lucky_transport.config import load_settings
from lucky_transport.engine import RESET
from lucky_transport.messages.methods import method
from lucky_transport.process import EngineProcess

SCHEMA = method("AgentService/GetAgentSchema")


@contextlib.contextmanager
def engine_process(name: str, engine: str = "toy", **options: Any) -> Iterator[EngineProcess]:
    process = EngineProcess(engine, [f"shm://{name}"], num_envs=options.pop("num_envs", 2), options=options)
    try:
        yield process
    finally:
        process.stop()


def connect(name: str, **settings: Any) -> Any:
    return api.open_transport(f"shm://{name}", load_settings(settings))


def reset(client: Any) -> Any:
    return client.step(client.actions, np.full(client.spec.num_envs, RESET, np.uint8))
