"""Connections, streams, image streams, stubs and sessions, opened and left for as long as you like: what stays?

    python -m tests.endurance.leaks --minutes 10

Each round opens one kind of work, does some of it and leaves it, beside a connection that makes calls all the time. The
garbage collector is off, and no process may open more than --descriptors files. Exit code 0 means that this process and
the engines hold no more descriptors, threads, mappings and files than after the first rounds, and no round failed.
"""

import gc
import random
import resource
import secrets
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec

import click

from lucky_transport import api
from lucky_transport.process import EngineProcess, unique_name
from tests.endurance.workloads import ENGINE, SESSIONS_ENGINE, WORKLOADS, engine_of, work
from tests.support.resources import Resources, measure, released

#: Rounds of each kind before the first count: pools of threads fill up, caches too.
WARM_UP = 3
#: What was left has so long to be released; threads and peers end a moment later.
PATIENCE_S = 60.0
#: What an engine may still start and keep while it has clients: threads of its pools, and the timer of its guard.
POOL_THREADS, GUARDS = 40, 2
#: The connection beside makes its epoll at the first answer that it has to sleep for; that may be at any time.
BESIDE = 1
_OPTIONS = {ENGINE: {"width": 64, "height": 48}, SESSIONS_ENGINE: {}}


@dataclass(slots=True)
class LeakReport:
    """What one kind of work held: at the start, at most while it was open, and after it was left for the last time."""

    kind: str
    rounds: int
    start: Resources
    peak: Resources
    end: Resources
    failure: str = ""

    @property
    def is_left(self) -> bool:
        """True when something was not released, or a round failed."""
        return bool(self.failure) or self.end.exceeds(self.start)


def available() -> list[str]:
    """Return the kinds of work whose packages are installed."""
    return [kind for kind in WORKLOADS if kind not in ("stubs", "aio") or find_spec("grpc")]


def find_leaks(kinds: Sequence[str], seconds: float, seed: int, descriptors: int = 256) -> list[LeakReport]:
    """Work for so long and return what was found per kind, then per engine."""
    prefix = unique_name()
    names = {engine: f"{prefix}_{engine}" for engine in (ENGINE, SESSIONS_ENGINE)}
    with ExitStack() as stack:
        stack.enter_context(_limited(descriptors))
        processes = {
            engine: EngineProcess(engine, [f"shm://{name}"], options=_OPTIONS[engine]) for engine, name in names.items()
        }
        for process in processes.values():
            stack.callback(process.stop)
        places = {kind: f"shm://{names[engine_of(kind)]}" for kind in kinds}
        for kind in [*kinds] * WARM_UP:
            _round(kind, places[kind], 2)
        with api.connect(f"shm://{names[ENGINE]}"):  # it has the driver's place, which the rounds need
            stack.enter_context(_working_beside(f"shm://{names[ENGINE]}"))
        stack.enter_context(no_collector())
        rng = random.Random(seed)
        engines = {engine: settled(prefix, process.pid) for engine, process in processes.items()}
        start = settled(prefix)
        start = replace(start, descriptors=start.descriptors + BESIDE)
        found = {kind: LeakReport(kind, 0, start, start, start) for kind in kinds}
        until = time.monotonic() + seconds
        while time.monotonic() < until or not all(one.rounds for one in found.values()):
            kind = rng.choice(kinds)
            _play(found[kind], places[kind], rng, prefix)
        return [*found.values(), *_of_engines(engines, processes, prefix)]


def _play(found: LeakReport, endpoint: str, rng: random.Random, prefix: str) -> None:
    try:
        held = _round(found.kind, endpoint, rng.randint(1, 5), prefix)
    except Exception as error:  # whatever it is, it is what this run looks for
        found.failure = found.failure or f"round {found.rounds}: {type(error).__name__}: {error}"
        held = found.start
    found.rounds += 1
    found.peak = found.peak.peak(held)
    found.end = released(found.start, prefix, timeout_s=PATIENCE_S)


def _round(kind: str, endpoint: str, times: int, prefix: str = "") -> Resources:
    """Do some of the work, and return what was held before it was left."""
    with work(kind, endpoint) as once:
        for _ in range(times):
            once()
        return measure(prefix)


def _of_engines(starts: dict[str, Resources], processes: dict[str, EngineProcess], prefix: str) -> Iterator[LeakReport]:
    for engine, start in starts.items():
        allowed = allowed_engine(start)
        end = released(allowed, prefix, pid=processes[engine].pid)
        yield LeakReport(f"engine {engine}", 1, allowed, end, end)


def allowed_engine(start: Resources) -> Resources:
    """Return what an engine may hold at the end, by what it held at the start."""
    return Resources(start.descriptors + GUARDS, start.threads + POOL_THREADS, start.mappings, start.files)


def settled(prefix: str, pid: int | None = None) -> Resources:
    """Return what is held once it has not become less for a moment."""
    last = measure(prefix, pid)
    for _ in range(20):
        time.sleep(0.05)
        now = measure(prefix, pid)
        if not last.exceeds(now):
            return now
        last = now
    return last


@contextmanager
def _working_beside(endpoint: str) -> Generator[None]:
    """Have a thread make calls all the time, over a connection that stays."""
    stop = threading.Event()
    reads = threading.Event()

    def read() -> None:
        with work("calls", endpoint) as once:
            while not stop.wait(0.02):
                once()
                reads.set()

    thread = threading.Thread(target=read, name="beside")
    thread.start()
    reads.wait(30)
    yield
    stop.set()
    thread.join()


@contextmanager
def _limited(descriptors: int) -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(descriptors, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def no_collector() -> Generator[None]:
    """Have cycles of references stay, so that what they hold is seen."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@click.command(help=__doc__)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True)
@click.option("--descriptors", type=click.IntRange(64), default=256, show_default=True, help="RLIMIT_NOFILE.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(WORKLOADS)), help="Only this; may be repeated.")
@click.option("--seed", type=int, help="To play a run again.")
def main(minutes: float, descriptors: int, kinds: tuple[str, ...], seed: int | None) -> None:
    """Run the soak and print what it found."""
    seed = secrets.randbits(32) if seed is None else seed
    chosen = list(kinds) or available()
    click.echo(f"{minutes:g} minutes of {', '.join(chosen)}; seed {seed}, {descriptors} descriptors at most")
    found = find_leaks(chosen, minutes * 60, seed, descriptors)
    for one in found:
        click.echo(f"{one.kind}: {one.rounds} rounds{'; LEFT' if one.is_left else ''}")
        for when, held in (("start", one.start), ("peak", one.peak), ("end", one.end)):
            click.echo(f"    {when:6}{held}")
        if one.failure:
            click.echo(f"    FAILED {one.failure}")
    left = [one.kind for one in found if one.is_left]
    if left:
        raise click.ClickException(f"not released, or failed: {', '.join(left)}")
    click.echo(f"nothing is left after {sum(one.rounds for one in found)} rounds")


if __name__ == "__main__":
    main()
