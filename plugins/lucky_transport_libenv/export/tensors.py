"""An engine's spec as libenv tensors, told to the shared object line by line.

    tensor SPACE REGION OFFSET DTYPE SCALAR_TYPE LIBENV_DTYPE SHIFT LOW HIGH NDIM EXTENT... NAME

What would lose a value is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lucky_transport.errors import SpecError
from lucky_transport.spec.array_spec import DTYPES, ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Part
from lucky_transport_libenv.interface import MAX_NAME_BYTES, MAX_NDIM, Dtype, ScalarType, Space


class TensorRegion:
    """Where a tensor's rows are in the segment, as the C side counts."""

    ROW, TERMINATED, TRUNCATED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: `source` is our dtype, `dtype` libenv's; an element of libenv's is ours minus `shift`."""

    space: Space
    region: int
    offset: int
    source: str
    scalar_type: ScalarType
    dtype: Dtype
    shift: int
    low: float
    high: float
    shape: tuple[int, ...]
    name: str

    @property
    def line(self) -> str:
        """What the shared object is told."""
        numbers = (self.space, self.region, self.offset, DTYPES.index(self.source), self.scalar_type, self.dtype)
        bounds = f"{self.shift} {self.low!r} {self.high!r}"
        extents = " ".join(map(str, (len(self.shape), *self.shape)))
        return f"tensor {' '.join(str(int(number)) for number in numbers)} {bounds} {extents} {self.name}"


def tensors_of(spec: BatchSpec) -> list[Tensor]:
    """Return the tensors of all three spaces, in the order of the spec's parts.

    What libenv has (float32, uint8, int32 from 0) is copied; float64 and other integers are converted, a Discrete that
    starts elsewhere is shifted to 0. The flags terminated and truncated, and info parts, go along as infos.

    Raises SpecError for an engine that libenv cannot carry: it cannot hold envs (then one that ended could not start
    again at once, as the interface wants it), or a part has no place among its types.
    """
    if spec.num_envs > 1 and not spec.hold:
        raise SpecError(
            f"engine {spec.engine!r} cannot reset one env while the others hold, which libenv needs of {spec.num_envs}",
            hint="make its library with num=1 and join several by gym3's ConcatEnv; export-libenv --no-check writes it",
        )
    return [
        *_space(Space.OBSERVATION, spec.observation_parts or (Part(("observation",), spec.observation),)),
        *_space(Space.ACTION, spec.action_parts or (Part(("action",), spec.action),)),
        *_space(Space.INFO, spec.info_parts),
        *_flags({part.path for part in spec.info_parts}),
    ]


def _flags(taken: set[tuple[str | int, ...]]) -> Iterator[Tensor]:
    for name, region in (("terminated", TensorRegion.TERMINATED), ("truncated", TensorRegion.TRUNCATED)):
        if (name,) not in taken:
            yield Tensor(Space.INFO, region, 0, "uint8", ScalarType.DISCRETE, Dtype.UINT8, 0, 0, 1, (), name)


def _space(space: Space, parts: tuple[Part, ...]) -> Iterator[Tensor]:
    for part in parts:
        name = "/".join(map(str, part.path)) or space.name.lower()
        if len(name.encode()) >= MAX_NAME_BYTES or "\n" in name or len(part.array.shape) > MAX_NDIM:
            raise SpecError(f"{space.name.lower()} {name!r} with shape {part.array.shape} is too much for libenv")
        yield _tensor(space, name, part.array, part.offset)


def _tensor(space: Space, name: str, array: ArraySpec, offset: int) -> Tensor:
    def tensor(scalar_type: ScalarType, dtype: Dtype, shift: int, low: float, high: float) -> Tensor:
        return Tensor(space, 0, offset, array.dtype, scalar_type, dtype, shift, low, high, array.shape, name)

    kind = np.dtype(array.dtype).kind
    if kind == "f":
        low = -math.inf if array.low is None else float(np.min(array.low))
        high = math.inf if array.high is None else float(np.max(array.high))
        return tensor(ScalarType.REAL, Dtype.FLOAT32, 0, low, high)
    floor, ceiling = (0, 1) if kind == "b" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    low = int(floor if array.low is None else np.min(array.low))
    high = int(ceiling if array.high is None else np.max(array.high))
    shift = low if array.n or array.kind else 0  # a choice among values: which number stands for one does not matter
    if low - shift < 0 or high - shift > np.iinfo(np.int32).max:
        raise SpecError(
            f"{space.name.lower()} {name!r} has {array.dtype} from {low} to {high}; libenv's go from 0 to 2**31-1",
            hint="have the engine say narrower bounds, or give it as float32",
        )
    dtype = Dtype.UINT8 if array.dtype in ("uint8", "bool") else Dtype.INT32
    return tensor(ScalarType.DISCRETE, dtype, shift, 0, high - shift)
