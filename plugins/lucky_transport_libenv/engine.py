"""The engine `libenv:<path or name>`: any library with the libenv C interface.

    make -> bind -> step(RESET) shows the first episode -> step(None) is act and observe

The library reads actions from, and writes observations and infos into, the rows that the engine is bound to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET, Buffers, Engine, Handler
from lucky_transport.engine_options import answer_seeds
from lucky_transport.errors import SpecError
from lucky_transport.messages import (
    GetStateRequest,
    GetStateResponse,
    SetSeedsRequest,
    SetSeedsResponse,
    SetStateRequest,
    SetStateResponse,
)
from lucky_transport.messages.methods import method
from lucky_transport_libenv.env_slice import EnvOperation, EnvSlice, Places
from lucky_transport_libenv.library import GET_STATE, SET_STATE, Library, StateFunctions
from lucky_transport_libenv.options import LibenvSettings
from lucky_transport_libenv.spaces import batch_spec

_NO_ROWS = np.empty(0, np.intp)

SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_LARGEST = np.iinfo(np.int32).max


class Seeds:
    """The options of each env of the library, with its seed among them; the interface itself has none.

    A seed that was set is used by the next reset, once. An env that is made again without a new one gets a seed that
    follows from the last one, so that it plays other episodes; without any seed it is made as before.
    """

    def __init__(self, option: str, options: Mapping[str, Any], num_envs: int, seed: int | None) -> None:
        """`option`: the name of the library's seed, "" for none.

        Raises SpecError for a seed where the library has none, and for one that is no int32 from 0.
        """
        self._option = option
        self._options = options
        self._seeds: dict[int, int] = {}  # by first row
        self._uses: Counter[int] = Counter()  # of the present seed
        self._waiting: set[int] = set()
        if seed is None:
            return
        if not option:
            raise SpecError(
                f"seed {seed!r}: the libenv interface has no seeds",
                backend="libenv",
                hint='name the library\'s option that is one, be it "seed" itself: '
                'options={"libenv": {"seed_option": "seed"}}',
            )
        if type(seed) is not int or not 0 <= seed <= _LARGEST - num_envs:
            raise SpecError(f"seed {seed!r}: expected an int from 0 to {_LARGEST - num_envs}", backend="libenv")
        self._seeds = {env: seed + env for env in range(num_envs)}

    def options(self, start: int) -> Mapping[str, Any]:
        """Return what the next env of the library whose first row is `start` is to be made with."""
        self._waiting.discard(start)
        if start not in self._seeds:
            return self._options
        seed, uses = self._seeds[start], self._uses[start]
        self._uses[start] += 1
        return {**self._options, self._option: _following(seed, uses) if uses else seed}

    def wait(self, rows: slice) -> bool:
        """True while a seed for these rows was set and not used."""
        return rows.start in self._waiting

    def take(self, seeds: Mapping[int, int], blocks: Sequence[slice]) -> None:
        """Keep the seeds for the next reset: rows that are one env in the library take that of the first of them.

        Raises SpecError for seeds that cannot be kept, and then keeps none.
        """
        chosen: dict[int, int] = {}
        for rows in blocks:
            given = seeds.keys() & range(rows.start, rows.stop)
            if given and len(given) < rows.stop - rows.start:
                raise SpecError(
                    f"envs {rows.start} to {rows.stop - 1} are one in the library: seed all of them or none"
                )
            if given:
                chosen[rows.start] = seeds[rows.start]
        for seed in chosen.values():
            if not seed <= _LARGEST:
                raise SpecError(f"seed {seed}: an option has 32 bits, 0 to {_LARGEST}")
        for start in chosen:
            del self._uses[start]
        self._seeds |= chosen
        self._waiting |= chosen.keys()


def _following(seed: int, uses: int) -> int:
    """Return the seed of an env that was made `uses` times with `seed` before."""
    return int(np.random.SeedSequence([seed, uses]).generate_state(1)[0]) & _LARGEST


class LibenvEngine(Engine):
    """A library in this very process; one that ends its process ends this one.

    `first` is all that the interface says of an episode's end: it is reported as terminated, and that frame shows the
    next episode already. A reset of that env then changes nothing, except that an env which is not alone in its handle
    takes a step with a resting action while the others step (`reset_ticks` 1).
    """

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        options: Mapping[str, Any] | None = None,
        settings: LibenvSettings | None = None,
        seed: int | None = None,
    ) -> None:
        """`options` go to the library. With a `seed`, handle i gets seed + the number of its first env.

        Raises UnknownName, SpecError (options, settings, spaces, version), EngineFailed (no library, no env).
        """
        self._settings = settings = settings or LibenvSettings()
        settings.check(num_envs)
        self._seeds = Seeds(settings.seed_option, dict(options or {}), num_envs, seed)
        self._library = Library(name)
        size = num_envs // settings.handles
        self._slices: list[EnvSlice] = []
        self._pool = ThreadPoolExecutor(settings.threads, "libenv") if settings.threads > 1 else None
        try:
            for start in range(0, num_envs, size):
                rows = slice(start, start + size)
                self._slices.append(EnvSlice(self._library, rows, self._seeds.options(start)))
            self.spec = batch_spec(self._library, self._slices[0].handle, name, num_envs, alone=size == 1)
        except BaseException:
            self.close()
            raise
        self._rest = [_resting(part.array.low, part.array.high) for part in self.spec.action_parts]
        self._rewards = np.zeros(num_envs, np.float32)
        self._first = np.zeros(num_envs, np.uint8)
        self._state = StateFunctions(self._library)
        self._places: Places | None = None
        self._buffers: Buffers

    @property
    def services(self) -> Mapping[str, Handler]:
        handlers: dict[str, Handler] = {GET_STATE.name: self._get_state, SET_STATE.name: self._set_state}
        return {**handlers, SEEDS.name: self._set_seeds} if self._settings.seed_option else handlers

    def bind(self, buffers: Buffers) -> None:
        self._buffers = buffers
        buffers.truncated.fill(0)
        if self._places is None or not self._places.is_memory_of(buffers):
            self._places = next(
                (b.places for b in self._slices if b.places is not None and b.places.is_memory_of(buffers)),
                Places(self.spec, buffers),
            )

    def step(self, control: NDArray[np.uint8] | None) -> None:
        self._attach()
        if control is None:
            self._each(lambda env_slice: env_slice.step(self._bound, _NO_ROWS, self._rest), self._slices)
            self._publish(slice(None))
            return
        moves = [
            env_slice.plan(control, self._first, renews=self._seeds.wait(env_slice.rows)) for env_slice in self._slices
        ]
        reset = (control & RESET) != 0
        steps = ~reset & ((control & HOLD) == 0)
        for env_slice, move in zip(self._slices, moves, strict=True):
            if move is EnvOperation.RENEW:
                env_slice.options = self._seeds.options(env_slice.rows.start)
                env_slice.make()
            elif move is EnvOperation.STAY:
                env_slice.show(self._bound)
        self._attach()
        stepping = [env_slice for env_slice, move in zip(self._slices, moves, strict=True) if move is EnvOperation.STEP]
        self._each(lambda env_slice: env_slice.step(self._bound, _inside(env_slice.rows, reset), self._rest), stepping)
        self._publish(np.flatnonzero(steps))

    @property
    def _bound(self) -> Places:
        assert self._places is not None, "bind() comes before step()"
        return self._places

    def _attach(self) -> None:
        """Give every env that was made the bound rows."""
        for env_slice in self._slices:
            if env_slice.places is None:
                env_slice.attach(self._bound, self._rewards, self._first)
                env_slice.show(self._bound)

    def _each(self, move: Callable[[EnvSlice], None], slices: list[EnvSlice]) -> None:
        if self._pool is None:
            for env_slice in slices:
                move(env_slice)
        else:
            for done in [self._pool.submit(move, env_slice) for env_slice in slices]:
                done.result()

    def _publish(self, rows: slice | NDArray[np.intp]) -> None:
        """Copy the outcome of those rows: a frame has reward and first twice, and any byte of `first` may be true."""
        out = self._buffers
        out.rewards[rows] = out.signals[0, rows] = self._rewards[rows]
        out.terminated[rows] = out.signals[1, rows] = self._first[rows] != 0

    def get_state(self, env: int) -> bytes:
        """Return the state of an env, by the library's `get_state`; between steps only.

        Raises Unimplemented when the library has none, EngineFailed when it gives none.
        """
        env_slice, index = self._place_of(env)
        return self._state.get(env_slice.handle, index)

    def set_state(self, env: int, state: bytes) -> None:
        """Put an env into a state that `get_state` returned, and show what it sees; between steps only.

        Raises Unimplemented when the library has no `set_state`.
        """
        env_slice, index = self._place_of(env)
        self._attach()
        self._state.set(env_slice.handle, index, state)
        env_slice.observe(self._bound)

    def _get_state(self, request: GetStateRequest) -> GetStateResponse:
        return GetStateResponse(self.get_state(request.env))

    def _set_state(self, request: SetStateRequest) -> SetStateResponse:
        self.set_state(request.env, request.state)
        return SetStateResponse(self._buffers.observations[request.env].tobytes())

    def _place_of(self, env: int) -> tuple[EnvSlice, int]:
        if not 0 <= env < self.spec.num_envs:
            raise SpecError(f"env {env}: expected 0 to {self.spec.num_envs - 1}", backend="libenv")
        env_slice = next(env_slice for env_slice in self._slices if env_slice.rows.stop > env)
        return env_slice, env - env_slice.rows.start

    def _set_seeds(self, request: SetSeedsRequest) -> SetSeedsResponse:
        rows = [env_slice.rows for env_slice in self._slices]
        return answer_seeds(request, self.spec.num_envs, lambda seeds: self._seeds.take(seeds, rows))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        for env_slice in self._slices:
            env_slice.close()


def _inside(rows: slice, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    return np.flatnonzero(chosen[rows]) + rows.start


def _resting(low: Any, high: Any) -> Any:
    """Return the value nearest to zero within bounds."""
    value = 0 if low is None else np.maximum(0, low)
    return value if high is None else np.minimum(value, high)


def make_engine(
    variant: str = "", num_envs: int = 1, *, seed: int | None = None, libenv: Any = None, **options: Any
) -> Engine:
    """Return an engine of the library `variant`; `options` go to it, `libenv` holds our own (`LibenvSettings`).

    The library runs in this process. Raises as `LibenvEngine`.
    """
    return LibenvEngine(variant, num_envs, options, LibenvSettings.of(libenv), seed)
