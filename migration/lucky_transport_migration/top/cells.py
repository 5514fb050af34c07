"""The texts of `top`: the same on the screen and in the table of `--once`."""

from __future__ import annotations

from collections.abc import Iterator

from lucky_transport.errors import plural
from lucky_transport_migration.top.activity import EngineActivity, ProcessReading, ServerActivity

#: The first eight fit into 80 characters.
COLUMNS = (
    *("engine", "envs", "steps/s", "p50", "p99", "busy", "clients", "state"),
    *("pid", "cpu s", "memory", "services", "client", "endpoints"),
)
SERVER_COLUMNS = ("server", "calls", "calls/s", "peers", "state", "transport", "pid", "services")

_NONE = "-"
_LONGEST_NAME = 18


def seconds(value: float | None) -> str:
    """Return a duration with three digits: "12.3 us", "4.56 ms", "1.20 s"; "-" for none."""
    if value is None:
        return _NONE
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if value * factor < 999.5:
            return f"{_three(value * factor)} {unit}"
    return f"{_three(value)} s"


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def size(nbytes: float) -> str:
    """Return a number of bytes: "512 B", "1.5 KiB", "70 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 10 else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"


def engine_cells(engine: EngineActivity) -> tuple[str, ...]:
    """Return one row of COLUMNS."""
    steps, server = engine.steps, engine.server
    share = None if steps is None or engine.state == "stale" or not engine.client else steps.engine_share
    return (
        _short(engine.name),
        f"{engine.num_envs:,}" if engine.num_envs else _NONE,
        _NONE if steps is None else rate(steps.rate),
        seconds(None if steps is None else steps.p50_s),
        seconds(None if steps is None else steps.p99_s),
        _NONE if share is None else f"{share:.0%}",
        _clients(engine),
        "no shm" if engine.state == "no segment" else engine.state,
        _NONE if server is None else str(server.pid),
        _NONE if server is None else f"{server.cpu_s:,.1f}",
        _NONE if server is None else size(server.rss_bytes),
        _services(engine),
        engine.client or _NONE,
        " ".join(engine.endpoints) or _NONE,
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def rate(value: float) -> str:
    """Return a number a second, with a digit behind the point where it is small."""
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def _clients(engine: EngineActivity) -> str:
    """Return "1+2": one that steps, and two more; "?" where the others cannot be counted."""
    if engine.steps is None or engine.state == "stale":
        return _NONE
    others = "?" if engine.commanding is None else str(engine.commanding)
    stepping = "1" if engine.client else "0"
    return stepping if others == "0" else f"{stepping}+{others}"


def _services(engine: EngineActivity) -> str:
    """Return "12", "10 of 12" where two are off; "*" behind it: streams have limits."""
    offer = engine.offer
    if offer is None:
        return _NONE
    count, limited = len(offer.services), "*" if offer.limited else ""
    return f"{count - len(offer.off)} of {count}{limited}" if offer.off else f"{count}{limited}"


def details(engine: EngineActivity) -> Iterator[tuple[str, str]]:
    """Yield what is shown of the engine that is selected: a name and a text each."""
    if engine.num_envs:
        kind = engine.engine or "unknown"
        yield "engine", f"{kind}, {plural(engine.num_envs, 'env')}, {engine.frame_seq:,} frames"
    if engine.problem:
        yield "problem", engine.problem
    yield "served at", "  ".join(engine.endpoints) or _NONE
    if engine.offer is not None:
        yield "services", f"{engine.offer.summary}; `lucky-transport services` changes them"
    gone = "gone; `lucky-transport doctor --fix` removes what it left"
    yield "process", _process(engine.server) or (gone if engine.state == "stale" else "not to be seen from here")
    if engine.state == "stale":
        return
    if engine.steps is not None:
        yield "driver", _process(engine.driver) or engine.client or "none: no client steps it"
    if engine.commanding is not None:
        yield "others", plural(engine.commanding, "client that sends commands", "clients that send commands")
    if engine.steps is not None and engine.steps.engine_share is not None and engine.client:
        share = engine.steps.engine_share
        yield "time", f"{share:.0%} in the engine, {1 - share:.0%} in its client, seen for {engine.steps.seen_s:.0f} s"
    for ring in engine.rings:
        side = {"ring_c2s": "to engine", "ring_s2c": "to client"}[ring.name]
        yield f"ring {side}", f"{ring.filled / ring.size:.0%} of {size(ring.size)} filled, {size(ring.rate)}/s"


def server_cells(server: ServerActivity) -> tuple[str, ...]:
    """Return one row of SERVER_COLUMNS."""
    one = server.report
    return (
        _short(one.name),
        _NONE if one.total is None else f"{one.total:,}",
        _NONE if server.rate is None else rate(server.rate),
        _NONE if one.peers is None else str(one.peers),
        one.state,
        one.transports,
        str(one.pid),
        " ".join(one.services) or _NONE,
    )


def _process(process: ProcessReading | None) -> str:
    if process is None:
        return ""
    return f"pid {process.pid}, {process.cpu_s:,.1f} s of CPU, {size(process.rss_bytes)}: {process.command}"
