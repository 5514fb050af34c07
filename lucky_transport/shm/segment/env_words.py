"""The words by which envs are stepped on their own: a region of a segment whose engine has `Feature.ENVS`.

    0      128      256       384       512
    │sends│park     │frames   │park     │sent u32│done u32│status u32│control u8│   the last four [num_envs]
    │wake │of engine│         │of client│

For an env that is idle, `sent` equals `done`. The client writes the env's actions and control, adds 1 to `sent` of the
env, then to `sends`, and wakes the engine. The engine writes the env's rows and its status, stores what it found in
`sent` as `done`, and adds 1 to `frames`. So an env's rows belong to one side at a time, whatever the other envs do.

The engine wakes the client where `frames` reaches `wake`, and for an env that failed. A client that it wakes too late
looks by itself after a slice of its wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucky_transport import native
from lucky_transport.errors import RemoteProtocolError, TransportError
from lucky_transport.shm.segment.layout import ENV_WORDS_HEAD
from lucky_transport.shm.segment.segment import Segment, view
from lucky_transport.shm.wait import PEER_WAKES

_SENDS, _WAKE, _PARK_ENGINE, _FRAMES, _PARK_CLIENT, _FENCE = 0, 64, 128, 256, 384, 448
_LIMIT = 1 << 32


class _EnvWords:
    """Both sides' view of the region."""

    def __init__(self, segment: Segment, strategy: int) -> None:
        self._mapping, self._strategy = segment.mapping, strategy
        self._at = at = segment.layout["envs"].offset
        n = segment.spec.num_envs
        self._arrays = at + ENV_WORDS_HEAD
        self._sent, self._done, self._status = (
            view(self._mapping, self._arrays + 4 * n * row, "uint32", (n,)) for row in range(3)
        )
        self._control = view(self._mapping, self._arrays + 12 * n, "uint8", (n,))

    def _word(self, row: int, env: int) -> int:
        """Return the byte of an env's word: row 0 sent, 1 done."""
        return self._arrays + 4 * (self._sent.size * row + env)

    def _wait(self, word: int, park: int, old: int, timeout_ns: int) -> int:
        return native.wait32(
            self._mapping,
            self._at + word,
            old,
            park=self._at + park,
            strategy=self._strategy,
            peer=PEER_WAKES,
            timeout_ns=timeout_ns,
        )

    def _count(self, word: int) -> int:
        """Add 1 to a count that only this side writes, and return it."""
        value = (native.load32(self._mapping, self._at + word) + 1) % _LIMIT
        native.store32(self._mapping, self._at + word, value)
        return value


class ClientEnvWords(_EnvWords):
    """The client's end. mask: bool (num_envs,), the envs under way."""

    def __init__(self, segment: Segment, strategy: int, mask: NDArray[np.bool_]) -> None:
        super().__init__(segment, strategy)
        self._mask = mask
        self._numbers = self._sent.copy()
        self.is_seen = False  # the engine has answered once
        self._is_announced = True  # False: a signal handler may have raised before all was said

    def send(self, ids: NDArray[np.int32], codes: NDArray[np.uint8]) -> None:
        """Announce these envs, whose actions are written."""
        self._control[ids] = codes
        self._is_announced = False
        self._mask[ids] = True
        self._numbers[ids] += np.uint32(1)  # until then the env is idle, as one that has ended
        self._announce(ids)

    def _announce(self, ids: NDArray[Any]) -> None:
        """Say that these envs were sent; once more where that was interrupted, which the engine does not notice."""
        for env in ids.tolist():
            native.store32(self._mapping, self._word(0, env), int(self._numbers[env]))
        self._count(_SENDS)
        native.wake(self._mapping, self._at + _PARK_ENGINE)
        self._is_announced = True

    def count(self) -> int:
        """Return the number that `wait` waits to leave."""
        return native.load32(self._mapping, self._at + _FRAMES)

    def wait(self, count: int, more: int, timeout_ns: int) -> int:
        """Wait until more envs have ended, about so many: 1 or Result.TIMED_OUT."""
        if not self._is_announced:
            self._announce(np.flatnonzero(self._mask))
        native.store32(self._mapping, self._at + _WAKE, (count + more) % _LIMIT)
        return self._wait(_FRAMES, _PARK_CLIENT, count, timeout_ns)

    def ended(self) -> NDArray[np.int32]:
        """Return the envs under way that have ended, int32 (k,), ascending.

        Raises RemoteProtocolError for a word that the engine cannot have written.
        """
        done = self._done.copy()
        ids = np.flatnonzero(self._mask & (done == self._numbers)).astype(np.int32)
        for env in ids.tolist():  # from here on its rows are what the engine wrote before
            native.load32(self._mapping, self._word(1, env))
        wrong = np.flatnonzero(self._mask & (self._numbers - done > 1))
        if wrong.size:
            at = wrong[0]
            raise RemoteProtocolError(
                f"the engine's count of env {at} is {done[at]}, the client has sent {self._numbers[at]}", backend="shm"
            )
        self.is_seen = self.is_seen or ids.size > 0
        return ids

    def failed(self, ids: NDArray[np.int32]) -> int | None:
        """Return the first of these envs whose step failed, None if none did."""
        return next((env for env in ids.tolist() if self._status[env]), None)


class EngineEnvWords(_EnvWords):
    """The engine's end; `sent` is called by one thread, `publish` by one thread at a time."""

    def __init__(self, segment: Segment, strategy: int) -> None:
        super().__init__(segment, strategy)
        self._segment = segment
        self._numbers = self._done.copy()  # of what was begun
        self._busy = np.zeros(segment.spec.num_envs, np.bool_)
        self._failed = False  # the error region has the text of a failure that the client may not have read

    @property
    def is_asked(self) -> bool:
        """True once the client has sent an env on its own."""
        return native.load32(self._mapping, self._at + _SENDS) != 0

    def wait(self, seen: int, timeout_ns: int) -> int:
        """Wait until the number of sends leaves `seen`, and return it."""
        self._wait(_SENDS, _PARK_ENGINE, seen, timeout_ns)
        return native.load32(self._mapping, self._at + _SENDS)

    def sent(self) -> list[tuple[int, int]]:
        """Return the idle envs that the client has sent, with their control bytes; they are busy from now on."""
        found: list[tuple[int, int]] = []
        if not self._busy.any():
            self._failed = False
        for env in np.flatnonzero(~self._busy & (self._sent != self._numbers)).tolist():
            self._numbers[env] = native.load32(self._mapping, self._word(0, env))
            self._busy[env] = True
            found.append((env, int(self._control[env])))
        return found

    def publish(self, env: int, failure: TransportError | None) -> None:
        """Announce that a busy env has ended its step, or failed; of several failures at once the first is told."""
        if failure is not None and not self._failed:
            self._failed = True
            self._segment.write_error(failure)
        self._status[env] = 0 if failure is None else failure.wire_code
        self._busy[env] = False
        native.store32(self._mapping, self._word(1, env), int(self._numbers[env]))
        frames = self._count(_FRAMES)
        native.wake(self._mapping, self._at + _FENCE)  # of a word that is always 0: the client stores WAKE, then looks
        due = frames - native.load32(self._mapping, self._at + _WAKE)
        if failure is not None or due % _LIMIT < _LIMIT // 2:
            native.wake(self._mapping, self._at + _PARK_CLIENT)

    def clear(self) -> None:
        """Make all envs idle, for the next client; none may be attached."""
        region = self._segment.layout["envs"]
        view(self._mapping, region.offset, "uint8", (region.size,))[:] = 0
        self._numbers[:] = 0
