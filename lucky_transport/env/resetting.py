"""The arguments of `reset(seed=..., options=...)`: checked, translated, and sent to the engine before the exchange.

Options with a meaning here: "reset_mask" (bool (num_envs,): only these envs are reset, the others hold still) and
"randomization" (a `SimulationContract` or a dict of its fields). All others go to the engine as they are.
`options` is never changed, because wrappers read the same dict afterwards.
"""

from __future__ import annotations

import json
import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from lucky_transport.engine import HOLD, RESET
from lucky_transport.errors import SpecError, SpecTypeError, Unimplemented
from lucky_transport.messages import SetResetOptionsRequest, SetSeedsRequest, SimulationContract
from lucky_transport.messages.fields import fields_of
from lucky_transport.messages.methods import Method, method
from lucky_transport.messages.values import EncodeError, message_from
from lucky_transport.spec.actions import Bounds, check_control
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import arrays
from lucky_transport.transport import Transport

#: One seed (env i gets seed + i), or one per env (None leaves that env's random stream as it is).
Seed = SupportsIndex | Sequence[SupportsIndex | None] | NDArray[np.integer[Any]]

_SEED_LIMIT = 1 << 64

_SET_SEEDS = method("/lucky_transport.v1.BatchService/SetSeeds")
_SET_RESET_OPTIONS = method("/lucky_transport.v1.BatchService/SetResetOptions")

#: What an engine without the method ignores.
_LOSSES = {
    _SET_SEEDS.name: "seeds: episodes are not reproducible",
    _SET_RESET_OPTIONS.name: "reset options: they have no effect",
}


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """`mask`: bool (num_envs,), the envs to reset. `control`: the exchange's bytes. The messages are None where
    nothing is to be sent.
    """

    mask: NDArray[np.bool_]
    control: NDArray[np.uint8]
    seeds: SetSeedsRequest | None
    options: SetResetOptionsRequest | None

    @property
    def partial(self) -> bool:
        """True when some envs hold still."""
        return not self.mask.all()


def read_reset(spec: BatchSpec, seed: Any, options: Any) -> ResetRequest:
    """Return what a reset with these arguments has to do: `seed` a `Seed` or None, `options` a mapping or None.

    Raises SpecError or SpecTypeError naming the offending value (for a mask also what Gymnasium's own vector envs
    raise), LocalProtocolError for a partial mask where the engine cannot hold envs.
    """
    if options is None:
        options = {}
    elif not isinstance(options, Mapping):
        raise SpecTypeError(f"options must be a dict, got {type(options).__name__}: {options!r}")
    known = cast("Mapping[Any, Any]", options)
    mask = _mask(spec.num_envs, known)
    control = check_control(spec, np.where(mask, np.uint8(RESET), np.uint8(HOLD)))
    return ResetRequest(mask, control, _seeds(spec.num_envs, seed, mask), _options(known))


def neutral_actions(spec: BatchSpec) -> NDArray[Any]:
    """Return actions for an exchange that ignores them, spec dtype (num_envs, *action shape), read-only: zeros, or the
    nearest values that are in bounds, so that they never count as out of bounds.
    """
    actions = np.zeros(spec.action_shape, spec.action.dtype)
    for _, array, values in arrays(actions, spec.action, spec.action_parts):
        bounds = Bounds(array)
        if bounds.low is not None:
            np.fmax(values, bounds.low, out=values)  # NaN bounds nothing
        if bounds.high is not None:
            np.fmin(values, bounds.high, out=values)
    actions.flags.writeable = False
    return actions


class ResetNegotiator:
    """Sends the seeds and options of resets over one transport; a method that the engine lacks is tried once."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._unimplemented: set[str] = set()

    def send(self, request: ResetRequest) -> None:
        """Send the seeds and options of `request`, if it has any; the next exchange resets with them.

        Raises SpecError when the engine refuses them, PeerTimeout, PeerDied, EngineFailed.
        """
        for message, row in ((request.options, _SET_RESET_OPTIONS), (request.seeds, _SET_SEEDS)):
            if message is None or row.name in self._unimplemented:
                continue
            try:
                response = self._transport.call(row, message)
            except Unimplemented:
                self._warn_without(row)
                continue
            if not response.success:
                raise SpecError(f"engine {self._transport.spec.engine!r} refused {row.python_name}: {response.message}")

    def _warn_without(self, row: Method) -> None:
        self._unimplemented.add(row.name)
        text = f"engine {self._transport.spec.engine!r} takes no {_LOSSES[row.name]}"
        warnings.warn(text, UserWarning, stacklevel=4)


def _mask(num_envs: int, options: Mapping[Any, Any]) -> NDArray[np.bool_]:
    if "reset_mask" not in options:
        return np.ones(num_envs, np.bool_)
    given: Any = options["reset_mask"]
    if not isinstance(given, np.ndarray):
        raise SpecTypeError(f"options['reset_mask'] must be a numpy array, got {type(given).__name__}: {given!r}")
    mask = cast("NDArray[Any]", given)
    if mask.shape != (num_envs,):
        raise SpecError(f"options['reset_mask'] must have shape ({num_envs},), got {mask.shape}")
    if mask.dtype != np.bool_:
        raise SpecTypeError(f"options['reset_mask'] must have dtype bool, got {mask.dtype}")
    if not mask.any():
        raise SpecError(f"options['reset_mask'] must have at least one True, got {mask}")
    return mask.copy()


def _seeds(num_envs: int, seed: Any, mask: NDArray[np.bool_]) -> SetSeedsRequest | None:
    if seed is None:
        return None
    if isinstance(seed, (Sequence, np.ndarray)) and not (isinstance(seed, np.ndarray) and seed.ndim == 0):
        seeds = [None if one is None else _index(one) for one in cast("Sequence[Any]", seed)]
        if len(seeds) != num_envs:
            raise SpecError(f"{len(seeds)} seeds for {num_envs} envs: pass one per env, or a single integer")
    else:
        first = _index(seed)
        seeds = [first + i for i in range(num_envs)]
    for i, one in enumerate(seeds):
        if one is not None and not 0 <= one < _SEED_LIMIT:
            raise SpecError(f"seed {one} of env {i}: expected 0 <= seed < 2**64")
    given = mask & np.array([one is not None for one in seeds])
    if not given.any():
        return None
    return SetSeedsRequest([one or 0 for one in seeds], b"" if given.all() else given.tobytes())


def _index(seed: Any) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise SpecTypeError(f"seed {seed!r}: expected an integer, a list of integers (one per env) or None") from None


def _options(options: Mapping[Any, Any]) -> SetResetOptionsRequest | None:
    randomization = options.get("randomization")
    contract = None if randomization is None else _contract(randomization)
    rest = {key: value for key, value in options.items() if key not in ("reset_mask", "randomization")}
    if contract is None and not rest:
        return None
    return SetResetOptionsRequest(contract, _json(rest) if rest else "")


def _json(options: Mapping[Any, Any]) -> str:
    parts: list[str] = []
    for key, value in options.items():
        if not isinstance(key, str):
            raise SpecTypeError(f"options[{key!r}]: keys must be strings, got {type(key).__name__}")
        try:
            parts.append(f"{json.dumps(key)}:{json.dumps(value, default=_json_value, allow_nan=False)}")
        except (TypeError, ValueError) as error:
            raise SpecTypeError(f"options[{key!r}] = {value!r} cannot go to the engine as JSON: {error}") from error
        except RecursionError:
            raise SpecError(
                f"options[{key!r}] is nested too deeply to go to the engine as JSON", hint="pass flatter options"
            ) from None
    return f"{{{','.join(parts)}}}"


def _json_value(value: Any) -> Any:
    """Return NumPy numbers and arrays as JSON values."""
    if isinstance(value, (np.ndarray, np.generic)):
        return cast("Any", value).tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _contract(randomization: Any) -> SimulationContract:
    if isinstance(randomization, SimulationContract):
        randomization = {field.name: getattr(randomization, field.name) for field in fields_of(SimulationContract)}
    if not isinstance(randomization, Mapping):
        raise SpecTypeError(
            f"options['randomization'] must be a SimulationContract or a dict of its fields, "
            f"got {type(randomization).__name__}"
        )
    try:
        return message_from(SimulationContract, cast("Mapping[Any, Any]", randomization))
    except EncodeError as error:
        raise (SpecTypeError if isinstance(error, TypeError) else SpecError)(
            str(error.within("options['randomization']"))
        ) from None
