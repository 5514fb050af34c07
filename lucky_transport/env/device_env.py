"""`make(observations="device")`: an env whose observations stay in the engine's device memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from gymnasium.vector import AutoresetMode
from numpy.lib.mixins import NDArrayOperatorsMixin

from lucky_transport.env.autoreset import parse_mode
from lucky_transport.env.resetting import Seed
from lucky_transport.env.results import StepResults
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ConfigError, LocalProtocolError, SpecError
from lucky_transport.transport import Frame, Transport

__all__ = ["DeviceVectorEnv", "OnDevice"]


class DeviceVectorEnv(VectorEnv):
    """A `VectorEnv` over an engine that computes observations on a GPU and writes them for the host on demand.

    `observations_torch` returns them. What `step` returns in their place is an `OnDevice`. `reset` asks for the host's
    too and returns them as every env does; rewards, flags and infos are always on the host.
    """

    def __init__(self, transport: Transport, **given: Any) -> None:
        """Take what `VectorEnv` takes.

        Raises ConfigError where the engine's observations are always written for the host, and for SAME_STEP, whose
        final observations are the host's; SpecError for observations or infos with parts.
        """
        spec = transport.spec
        if spec.observation_parts or spec.info_parts:
            raise SpecError(
                f"observations='device': the observations of engine {spec.engine!r} have parts, which are taken apart "
                "on the host",
                hint="drop observations='device'",
            )
        mode = parse_mode(given.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        if mode is AutoresetMode.SAME_STEP and not spec.resets_itself:
            raise ConfigError(
                "observations='device': the final observations of autoreset mode SAME_STEP are the host's",
                hint="use NEXT_STEP or DISABLED",
            )
        if not transport.leave_on_device(True):
            raise ConfigError(
                f"observations='device': engine {spec.engine!r} over transport {transport.name!r} writes every "
                "observation for the host",
                backend=transport.name,
                hint="drop it; or connect over shm, without interceptors, to an engine whose DeviceObservations have a "
                "to_host",
            )
        super().__init__(transport, **given)
        self._left_seq = -1  # of the last frame that was left on the device
        self._results = self._device_results = _DeviceResults(
            spec, copy=self.copy, reward_fn=given.get("reward_fn"), backend=transport.name
        )
        self._plain_result = self._results.plain

    @property
    def observations(self) -> str:
        """Where the next steps' observations are written: "device", or "host" as well. May be set between steps."""
        return "host" if self._device_results.on_host else "device"

    @observations.setter
    def observations(self, place: str) -> None:
        if place not in ("host", "device"):
            raise ConfigError(f"observations {place!r}: expected 'host' or 'device'")
        self._read(on_host=place == "host")

    def _read(self, *, on_host: bool) -> None:
        if not self._on_host and self._frame is not None:
            self._left_seq = self._frame.seq
        self.transport.leave_on_device(not on_host)
        self._device_results.on_host = on_host

    def reset(
        self, *, seed: Seed | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """As `VectorEnv.reset`; the observations are the host's."""
        place = self.observations
        self._read(on_host=True)
        try:
            return super().reset(seed=seed, options=options)
        finally:
            if not self.closed:
                self._read(on_host=place == "host")

    @property
    def _on_host(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._device_results.on_host and (self._frame is None or self._frame.seq != self._left_seq)


class _DeviceResults(StepResults):
    """on_host: the present frame's observations are in it."""

    on_host = False

    def __init__(self, *given: Any, backend: str, **named: Any) -> None:
        super().__init__(*given, **named)
        self._on_device = OnDevice(backend)

    def observations(self, frame: Frame) -> Any:
        return super().observations(frame) if self.on_host else self._on_device


class OnDevice(NDArrayOperatorsMixin):
    """Stands where the observations of a step would: reading it in any way raises LocalProtocolError."""

    __slots__ = ("_backend",)

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise LocalProtocolError(
            "the observations of this step are on the device alone",
            backend=self._backend,
            hint="read env.observations_torch(), or set env.observations = 'host' before the step",
        )

    __array_ufunc__ = __array__ = __getattr__ = __getitem__ = __setitem__ = __len__ = __iter__ = _refuse
    __bool__ = __int__ = __float__ = __complex__ = __index__ = __round__ = __reduce_ex__ = _refuse
    __hash__ = _refuse  # pyright: ignore[reportAssignmentType]
