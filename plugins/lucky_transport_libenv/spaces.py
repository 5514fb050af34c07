"""The spaces of a library as parts of a batch, in the library's own order.

    REAL      float32, any shape       Box, bounds as given (none where they are not finite)
    DISCRETE  uint8 or int32, scalar   Discrete(high + 1)
    DISCRETE  uint8 or int32, shaped   Box from 0 to high (images are of this kind)

Names, shapes and bounds are checked before memory is laid out.
"""

from __future__ import annotations

import math
from typing import Any

from lucky_transport.errors import SpecError
from lucky_transport.spec.array_spec import ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import Part, pack
from lucky_transport_libenv.interface import MAX_NDIM, Dtype, ScalarType, Space, TensorType
from lucky_transport_libenv.library import Library

#: The one termination term: the interface says that an episode ended and never why.
FIRST = "first"

#: No space of an env has as many tensors; a library that says so is broken.
_MOST_TENSORS = 1024
_LARGEST_BYTES = 1 << 31

#: (meaning, element type) -> NumPy's name, which is also the name of the field of a bound.
_ELEMENTS = {
    (ScalarType.REAL, Dtype.FLOAT32): "float32",
    (ScalarType.DISCRETE, Dtype.UINT8): "uint8",
    (ScalarType.DISCRETE, Dtype.INT32): "int32",
}


def read_parts(library: Library, handle: int, space: Space) -> tuple[Part, ...]:
    """Return the tensors of a made env's space as parts without places yet; none for an empty space.

    Raises SpecError for a tensor that the interface does not allow, naming it.
    """
    count = library.get_tensortypes(handle, space, None)
    if not 0 <= count <= _MOST_TENSORS:
        raise SpecError(f"{library.path}: {count} tensors in its {space.name} space", backend="libenv")
    tensors = (TensorType * count)()
    if count:
        library.get_tensortypes(handle, space, tensors)
    parts: list[Part] = []
    for tensor in tensors:
        try:
            part = _part(tensor)
        except SpecError as error:
            raise SpecError(f"{library.path}: {space.name} space: {error}", backend="libenv") from error
        if any(part.path == other.path for other in parts):
            raise SpecError(f"{library.path}: {space.name} space has two tensors {part.path[0]!r}", backend="libenv")
        parts.append(part)
    return tuple(parts)


def _part(tensor: Any) -> Part:
    try:
        name = tensor.name.decode()
    except UnicodeDecodeError as error:
        raise SpecError(f"a tensor's name {tensor.name!r} is no UTF-8") from error
    if not name:
        raise SpecError("a tensor has no name")
    dtype = _ELEMENTS.get((tensor.scalar_type, tensor.dtype))
    if dtype is None:
        raise SpecError(f"tensor {name!r} has scalar_type {tensor.scalar_type} with dtype {tensor.dtype}")
    shape = tuple(tensor.shape[: max(0, min(tensor.ndim, MAX_NDIM))])
    if len(shape) != tensor.ndim or any(extent < 1 for extent in shape) or math.prod(shape) > _LARGEST_BYTES // 4:
        raise SpecError(f"tensor {name!r} has ndim {tensor.ndim} and shape {shape}")
    return Part((name,), _array(name, dtype, shape, getattr(tensor.low, dtype), getattr(tensor.high, dtype)))


def _array(name: str, dtype: str, shape: tuple[int, ...], low: float, high: float) -> ArraySpec:
    if dtype == "float32":
        if low > high and math.isfinite(low) and math.isfinite(high):
            raise SpecError(f"real tensor {name!r} goes from {low} to {high}")
        return ArraySpec(dtype, shape, low if math.isfinite(low) else None, high if math.isfinite(high) else None)
    if low != 0 or high < 0:
        raise SpecError(f"discrete tensor {name!r} goes from {low} to {high}, expected from 0")
    return ArraySpec(dtype, shape, 0, high, 0 if shape else int(high) + 1)


def batch_spec(library: Library, handle: int, name: str, num_envs: int, *, alone: bool) -> BatchSpec:
    """Return the spec of `num_envs` envs like the made one.

    alone: each env is one of its own in the library. If not, one that has ended starts again only while the others go
    on, and none can be held. Raises SpecError for spaces that the interface does not allow.
    """
    parts = {space: read_parts(library, handle, space) for space in Space}
    for space in (Space.OBSERVATION, Space.ACTION):
        if not parts[space]:
            raise SpecError(f"{library.path}: its {space.name} space is empty", backend="libenv")
    observation, observation_parts, info_parts = pack(parts[Space.OBSERVATION], parts[Space.INFO])
    action, action_parts, _ = pack(parts[Space.ACTION])
    return BatchSpec(
        engine=f"libenv:{name}",
        num_envs=num_envs,
        observation=observation,
        action=action,
        observation_parts=observation_parts,
        action_parts=action_parts,
        info_parts=info_parts,
        termination_terms=(FIRST,),
        reset_ticks=0 if alone else 1,
        hold=alone,
        resets_itself=True,
        attributes={
            "task": name,
            "task_description": f"the environment library {name}",
            "episode_ends": "the library says that an episode ended (first), never why: terminated is that, truncated "
            "is never set, and an ended env already shows its next episode",
        },
    )
