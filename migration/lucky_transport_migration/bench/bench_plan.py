"""What a bench of steps was asked to measure, as setups in their order.

steps      exchanges and VectorEnv.step over every path and waiting strategy, at each num_envs
payload    exchanges of one env whose frame grows, with an engine that copies it
peers      the same two over other people's ways between two processes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lucky_transport.errors import ConfigError
from lucky_transport_migration.bench.cells import COPY, IDLE, QUICK, STEPPING
from lucky_transport_migration.bench.measuring import Effort
from lucky_transport_migration.bench.peers.kinds import PEERS
from lucky_transport_migration.bench.plan import Plan
from lucky_transport_migration.bench.setups import AnySetup, PeerSetup, Setup

__all__ = ["BenchPlan", "plan_of", "setups_of"]

_FLOAT_BYTES = 4
#: Observations of one frame, in bytes, from a handful of joints to a picture.
_PAYLOADS = (64, 4096, 262_144, 4_194_304)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan(Plan):
    """What the command line asked for. `options` go to the engine's constructor."""

    engine: str
    num_envs: tuple[int, ...]
    payloads: tuple[int, ...] = ()
    peers: tuple[str, ...] = ()

    def options_of(self, frame_bytes: int | None) -> dict[str, Any]:
        """Return the engine's options for a frame of that size, None for the plan's own."""
        return self.options if frame_bytes is None else self.options | {"obs_size": frame_bytes // _FLOAT_BYTES}


def setups_of(plan: BenchPlan) -> Iterator[AnySetup]:
    """Yield the setups of one round: steps, those of one num_envs together, then the payloads, then the peers."""
    yield from _steps(plan)
    for size in plan.payloads:
        for path in plan.paths:
            yield Setup(path, plan.main_wait(path), 1, COPY, frame_bytes=size)
    for path in plan.peers:
        yield PeerSetup(path, plan.num_envs, plan.payloads)


def _steps(plan: BenchPlan) -> Iterator[Setup]:
    engines = (IDLE, COPY) if plan.engine == IDLE else (plan.engine,)
    smallest = min(plan.num_envs)
    for num_envs in plan.num_envs:
        for engine in engines:
            for path in plan.paths:
                if path == "grpc" and engine == COPY:
                    continue  # each of its Steps would copy the whole batch's frame: the engine's cost, not the wire's
                waits = plan.waits_of(path)
                for wait in waits if engine != COPY else (plan.main_wait(path),):
                    opens = num_envs == smallest and path != "inproc"
                    yield Setup(path, wait, num_envs, engine, full=wait == plan.main_wait(path), open_loop=opens)
        if num_envs == max(plan.num_envs) and engines[0] == IDLE:
            for path in plan.paths:
                if path != "grpc":  # thousands of legacy Steps of an engine at work say nothing new
                    yield Setup(path, plan.main_wait(path), num_envs, STEPPING)
        if num_envs == smallest and engines[0] == IDLE and "shm" in plan.paths:
            yield Setup("shm-python", None, num_envs, IDLE, full=False)
        if num_envs == smallest and engines[0] == IDLE:
            yield Setup(plan.reference, plan.main_wait(plan.reference), num_envs, IDLE, twin=True)


def plan_of(
    engine: str,
    transports: Sequence[str],
    num_envs: Sequence[int] | None,
    waits: Sequence[str] | None,
    options: dict[str, Any],
    *,
    rounds: int,
    quick: bool,
    payloads: Sequence[int] | None = None,
    peers: bool = False,
) -> BenchPlan:
    """Return the plan of a command line; `grpc` stands for the legacy Steps and for the batch service.

    A quick plan has one round of short loops, and fewer sizes and strategies where none were asked for. Payloads and
    peers are measured with an engine that does no work of its own; ConfigError where another one is asked for, and for
    a payload that is no whole number of floats.
    """
    if engine != IDLE and (peers or payloads):
        raise ConfigError(
            f"--peers and --payload measure the way alone, without the work of engine {engine!r}",
            hint=f"leave them out, or leave out ENGINE, which is {IDLE} then",
        )
    if engine == IDLE:
        payloads = payloads or (_PAYLOADS[:1] if quick else _PAYLOADS)
    for size in payloads or ():
        if size % _FLOAT_BYTES:
            raise ConfigError(
                f"--payload {size}: a frame holds floats of {_FLOAT_BYTES} bytes",
                hint=f"pass {size - size % _FLOAT_BYTES + _FLOAT_BYTES}",
            )
    num_envs = num_envs or ((1, 64) if quick else (1, 64, 4096))
    waits = waits or (("adaptive",) if quick else ("adaptive", "block", "spin"))
    paths: list[str] = []
    for name in transports:
        paths += [path for path in (("grpc", "grpc-batch") if name == "grpc" else (name,)) if path not in paths]
    return BenchPlan(
        engine=engine,
        paths=tuple(paths),
        num_envs=tuple(num_envs),
        payloads=tuple(payloads or ()),
        peers=PEERS if peers else (),
        waits=tuple(waits),
        options=dict(options),
        rounds=1 if quick else rounds,
        effort=QUICK if quick else Effort(),
    )
