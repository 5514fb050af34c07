"""What of an engine's spec is a libenv tensor, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from lucky_transport.errors import SpecError
from lucky_transport.spec.array_spec import DTYPES, ArraySpec
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_libenv.export.tensors import Tensor, tensors_of
from lucky_transport_libenv.interface import Dtype, ScalarType


def spec_of(observation: ArraySpec, **fields: Any) -> BatchSpec:
    return BatchSpec("x", 2, observation, ArraySpec(), **fields)


def observation_of(array: ArraySpec) -> Tensor:
    return tensors_of(spec_of(array))[0]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (ArraySpec("float32", (3,)), (ScalarType.REAL, Dtype.FLOAT32, 0, -float("inf"), float("inf"))),
        (ArraySpec("float64", (3,), -1, [1, 2, 3]), (ScalarType.REAL, Dtype.FLOAT32, 0, -1, 3)),
        (ArraySpec("uint8", (2, 2)), (ScalarType.DISCRETE, Dtype.UINT8, 0, 0, 255)),
        (ArraySpec("bool"), (ScalarType.DISCRETE, Dtype.UINT8, 0, 0, 1)),
        (ArraySpec("uint16"), (ScalarType.DISCRETE, Dtype.INT32, 0, 0, 65535)),
        (ArraySpec("int32", (), 0, 9), (ScalarType.DISCRETE, Dtype.INT32, 0, 0, 9)),
        (ArraySpec("int64", (), 0, 4, 5), (ScalarType.DISCRETE, Dtype.INT32, 0, 0, 4)),
        (ArraySpec("int64", (), -2, 2, 5), (ScalarType.DISCRETE, Dtype.INT32, -2, 0, 4)),
    ],
)
def test_a_dtype_has_one_place_among_libenvs(array: ArraySpec, expected: tuple[Any, ...]) -> None:
    found = observation_of(array)
    assert (found.scalar_type, found.dtype, found.shift, found.low, found.high) == expected
    assert found.source == array.dtype


@pytest.mark.parametrize("dtype", sorted(set(DTYPES) - {"float32", "float64", "uint8", "uint16", "bool"}))
def test_integers_that_libenv_has_not_are_refused_by_name(dtype: str) -> None:
    with pytest.raises(SpecError, match=f"observation 'observation' has {dtype} from"):
        observation_of(ArraySpec(dtype, (2,)))


def test_flags_go_along_as_infos() -> None:
    names = [(tensor.space.name, tensor.name) for tensor in tensors_of(spec_of(ArraySpec()))]
    assert names == [
        ("OBSERVATION", "observation"),
        ("ACTION", "action"),
        ("INFO", "terminated"),
        ("INFO", "truncated"),
    ]


def test_several_envs_of_an_engine_that_cannot_hold_are_refused() -> None:
    with pytest.raises(SpecError, match="cannot reset one env while the others hold"):
        tensors_of(spec_of(ArraySpec(), hold=False))
    assert tensors_of(BatchSpec("x", 1, ArraySpec(), ArraySpec(), hold=False))


def test_a_name_that_is_too_long_is_refused() -> None:
    from lucky_transport.spec.composite import Part, pack

    row, parts, _ = pack([Part(("x" * 128,), ArraySpec())])
    with pytest.raises(SpecError, match="is too much for libenv"):
        tensors_of(spec_of(row, observation_parts=parts))
