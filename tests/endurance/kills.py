"""Clients and engines killed at random moments: is it noticed in time, and is anything left?

    python -m tests.endurance.kills --kills 1000
    python -m tests.endurance.kills --deed kill --deed stop --command "./pendulum {name}"

Each round takes one kind of work, and sends SIGKILL to the client or to the engine at a random moment, while they meet
too. A killed client's engine must let go of all it held for it, and serve the next client. A killed engine's client
must get an error of its API that says so, within LIMIT_S, and must find the next engine of that name. With
`--deed stop` the process stands still for a moment, and nothing may fail. With `--command` the steps' engine is another
program, such as one of another language: `{name}` is its segment, and it ends at SIGTERM. Exit code 0 means that every
kill was noticed in time and named, nothing hung, and no descriptor, thread, mapping or file in shared memory is left.
"""

import random
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import click

from tests.endurance.children import LIMIT_S, client_process, resume
from tests.endurance.engine_pool import EnginePool
from tests.endurance.leaks import available, no_collector
from tests.endurance.workloads import ENGINE, WORKLOADS, ClientThread, checked, engine_of
from tests.support.waiting import suspend

#: kill: SIGKILL. stop: SIGSTOP, and SIGCONT a moment later: nothing may fail.
DEEDS = ("kill", "stop")
#: A kill comes up to so long after the work has begun.
_LATEST_S = 0.03
#: What each process imports where grpcio is; the fork server passes over what it cannot import.
_STUBS = ("lucky_transport_stubs.client.channel", "lucky_transport_stubs.aio.channel")
#: How long a process stands still.
_PAUSE_S = 0.05
#: Part of the processes that are killed from their peer's start on, so that some die while they meet.
_EARLY = 0.25


@dataclass(slots=True)
class KillReport:
    """What was found. noticed_s: by kind and victim, how long it took each survivor. stops: which nothing failed of."""

    noticed_s: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    stops: int = 0
    errors: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])


class KillRun:
    """KillReport in one process tree; `close` ends what still runs and looks for what is left."""

    def __init__(
        self,
        kinds: Sequence[str],
        seed: int,
        deeds: Sequence[str] = ("kill",),
        commands: Mapping[str, str] | None = None,
    ) -> None:
        """commands: of engines that a command line starts, by the name of the engine whose place they take."""
        self.found = KillReport()
        self._kinds, self._deeds = list(kinds), list(deeds)
        self._rng = random.Random(seed)
        self._engines = EnginePool(*_STUBS, commands=commands)
        self._engines.begin(self._kinds)

    def play(self, kills: int) -> None:
        """Kill, or stop, so often."""
        for number in range(kills):
            kind, deed = self._rng.choice(self._kinds), self._rng.choice(self._deeds)
            victim = self._rng.choice(("client", "engine"))
            title = f"{kind}, {victim} {deed}"
            try:
                seconds = self._client(kind, deed) if victim == "client" else self._engine(kind, deed)
            except Exception as error:  # whatever it is, it is what this run looks for
                self.found.failures.append(f"{number}: {title}: {type(error).__name__}: {error}")
                self._engines.start_again(engine_of(kind))
                continue
            if seconds is None:
                self.found.stops += 1
            else:
                self.found.noticed_s.setdefault(title, []).append(seconds)

    def _client(self, kind: str, deed: str) -> float | None:
        """Return how long after its client was killed the engine held no more than before."""
        engine, engines = engine_of(kind), self._engines
        with ExitStack() as stack:
            victim = engines.child(client_process, kind, engines.endpoint(engine), {}, None, False, None)
            stack.callback(victim.end)
            if deed == "stop" or self._rng.random() >= _EARLY:
                victim.expect("round")
            time.sleep(self._rng.uniform(0, _LATEST_S))
            if deed == "stop":
                suspend(victim.pid)
                time.sleep(_PAUSE_S)
                resume(victim.pid)
            start = time.monotonic()
        engines.check_engine(engine)
        seconds = time.monotonic() - start
        engines.use(kind)
        return seconds if deed == "kill" else None

    def _engine(self, kind: str, deed: str) -> float | None:
        """Return how long after its engine was killed the client got its error."""
        engine, engines = engine_of(kind), self._engines
        # So long it waits where its engine's files are removed already; stubs have a timeout of their own.
        settings = {} if kind in ("stubs", "aio") else {"connect_timeout_s": LIMIT_S / 2}
        client = ClientThread(kind, engines.endpoint(engine), settings, LIMIT_S, operations=None)
        with ExitStack() as stack:
            stack.callback(client.stop)
            if deed == "stop" or self._rng.random() >= _EARLY:
                client.await_rounds(1)
            time.sleep(self._rng.uniform(0, _LATEST_S))
            if deed == "stop":
                suspend(engines.pid(engine))
                time.sleep(_PAUSE_S)
                resume(engines.pid(engine))
                client.await_rounds(client.rounds + 2)
                client.stop()
                if client.error is not None:
                    raise client.error
                engines.check_client()
                return None
            start = time.monotonic()
            engines.retire(engine, killed=True)
            client.join()
            if client.error is None:
                raise AssertionError("the client goes on without its engine")
            seconds = client.ended_s - start
            self.found.errors[checked(client.error)] += 1
        engines.start(engine)
        engines.use(kind)
        engines.check_client()
        return max(0.0, seconds)

    def close(self) -> None:
        """End the engines; what they leave is a failure."""
        try:
            self._engines.close()
        except Exception as error:
            self.found.failures.append(str(error))


def _line(title: str, seconds: Sequence[float]) -> str:
    times = sorted(1000 * each for each in seconds)
    median, late = times[len(times) // 2], times[min(len(times) - 1, int(0.99 * len(times)))]
    return f"{title:24}{len(times):6}{median:10.1f}{late:10.1f}{times[-1]:10.1f}"


@click.command(help=__doc__)
@click.option("--kills", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(WORKLOADS)), help="Only this; may be repeated.")
@click.option("--deed", "deeds", multiple=True, type=click.Choice(DEEDS), default=["kill"], show_default=True)
@click.option("--command", help="Starts the engine of the steps; alone, only steps are done.")
@click.option("--seed", type=int, help="To play a run again.")
def main(kills: int, kinds: tuple[str, ...], deeds: tuple[str, ...], command: str | None, seed: int | None) -> None:
    """Kill, and print what was found."""
    seed = secrets.randbits(32) if seed is None else seed
    chosen = list(kinds) or (available() if command is None else ["steps"])
    click.echo(f"{kills} kills over {', '.join(chosen)}; seed {seed}")
    run = KillRun(chosen, seed, deeds, None if command is None else {ENGINE: command})
    try:
        with no_collector():
            run.play(kills)
    finally:
        run.close()
    found = run.found
    click.echo(f"{'noticed after, ms':24}{'kills':>6}{'median':>10}{'p99':>10}{'max':>10}")
    for title, seconds in sorted(found.noticed_s.items()):
        click.echo(_line(title, seconds))
    if every := [each for seconds in found.noticed_s.values() for each in seconds]:
        click.echo(_line("all", every))
    if found.stops:
        click.echo(f"{found.stops} stops, of which nothing failed")
    for name, count in found.errors.most_common():
        click.echo(f"{count:>6}  {name}")
    for failure in found.failures:
        click.echo(f"FAILED {failure}")
    if found.failures:
        raise click.ClickException(f"{len(found.failures)} of {kills} kills failed")
    click.echo("nothing is left, and nothing hung")


if __name__ == "__main__":
    main()
