"""What valid actions are, and values of others in the dtype that travels: what is wrong is named by its first place."""

from __future__ import annotations

import base64
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport import api
from lucky_transport.errors import LocalProtocolError, SpecError, SpecTypeError
from lucky_transport.spec.actions import Bounds, check_actions, check_control
from lucky_transport.spec.array_spec import DTYPES, fitting
from lucky_transport.spec.batch_spec import ArraySpec, BatchSpec


def _spec(**changes: Any) -> BatchSpec:
    plain = {"engine": "e", "num_envs": 2, "observation": ArraySpec(), "action": ArraySpec("float32", (3,), -1, 1)}
    return BatchSpec(**plain | changes)


DISCRETE, FLAGS = ArraySpec("int64", (), 0, 2, 3), ArraySpec("bool", ())


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", 128), ("int8", -129), ("uint8", -1), ("uint8", 256), ("uint32", 1 << 32), ("int64", 1 << 63)],
)
def test_integers_that_the_dtype_cannot_hold_are_refused_and_not_wrapped(dtype: str, value: int) -> None:
    spec = _spec(action=ArraySpec(dtype, (3,)))
    actions = np.zeros((2, 3), np.uint64 if value >= 1 << 63 else np.int64)
    actions[1, 2] = value
    with pytest.raises(SpecError, match=rf"^actions do not fit {dtype}: {value} at \[1, 2\] \(env 1\); nothing was"):
        check_actions(spec, actions)
    actions[1, 2] = 1
    assert check_actions(spec, actions).dtype == dtype


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint64", "bool"])
def test_real_numbers_are_cast(dtype: str) -> None:
    checked = check_actions(_spec(), np.ones((2, 3), dtype))
    assert checked.dtype == np.float32
    assert (checked == 1).all()


@pytest.mark.parametrize(
    "actions", [np.frombuffer(bytes(25), np.float32, 6, 1).reshape(2, 3), np.ones((3, 4), np.float32).T[::2]]
)
def test_any_memory_layout_becomes_contiguous_and_aligned(actions: Any) -> None:
    assert not actions.flags.carray
    assert check_actions(_spec(), actions).flags.carray


@pytest.mark.parametrize(
    ("actions", "kind", "text"),
    [
        ([[1], [1, 2]], SpecError, "actions are no array"),
        (np.zeros((3, 3)), SpecError, r"shape \(3, 3\), expected \(2, 3\): axis 0 has 3 instead of 2"),
        (np.zeros((2, 4)), SpecError, r"shape \(2, 4\), expected \(2, 3\): axis 1 has 4 instead of 3"),
        (np.zeros(6), SpecError, r"shape \(6,\), expected \(2, 3\): 1 axes instead of 2"),
        (np.full((2, 3), "left"), SpecTypeError, r"dtype <U4, expected real numbers that cast to float32"),
        (np.zeros((2, 3), complex), SpecTypeError, r"dtype complex128, expected real numbers"),
        (np.full((2, 3), None), SpecTypeError, r"dtype object, expected real numbers"),
        (None, SpecTypeError, r"dtype object, expected real numbers"),
    ],
)
def test_a_wrong_batch_is_refused_with_its_values(actions: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        check_actions(_spec(), actions)


@given(
    at=st.tuples(st.integers(0, 1), st.integers(0, 2)),
    value=st.sampled_from([np.nan, np.inf, -np.inf, 1e300]),
)
def test_the_first_value_that_is_not_finite_is_named(at: tuple[int, int], value: float) -> None:
    actions = np.zeros((2, 3))
    actions[at] = value
    actions[1, 2] = np.nan
    with pytest.raises(SpecError, match=rf"at \[{at[0]}, {at[1]}\] \(env {at[0]}\); nothing was sent"):
        check_actions(_spec(), actions)


@pytest.mark.parametrize(
    ("action", "actions", "kind", "text"),
    [
        (DISCRETE, [0.0, 0.0], TypeError, r"dtype float64, expected integers \(int64\): the action space is discrete"),
        (FLAGS, [0.0, 0.7], TypeError, r"dtype float64, expected integers \(bool\)"),
        (FLAGS, [0, 2], ValueError, r"do not fit bool: 2 at \[1\]"),
        (FLAGS, [-1, 0], ValueError, r"do not fit bool: -1 at \[0\]"),
    ],
)
def test_actions_that_are_no_choice_are_refused_and_not_made_one(
    action: ArraySpec, actions: list[float], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        check_actions(_spec(action=action), np.array(actions))
    assert check_actions(_spec(action=action), np.array([0, 1])).tolist() == [0, 1]


@pytest.mark.parametrize("control", [np.zeros(3, np.uint8), np.zeros((2, 1), np.uint8), np.zeros(2, np.int32), [0, 0]])
def test_wrong_control_bytes_are_refused_with_their_form(control: Any) -> None:
    with pytest.raises(ValueError, match=r"expected uint8 \(2,\): one byte per env"):
        check_control(_spec(), control)


def test_hold_needs_an_engine_that_can() -> None:
    with pytest.raises(LocalProtocolError, match=r"engine 'e' cannot hold envs .*; use autoreset_mode=NEXT_STEP"):
        check_control(_spec(hold=False), np.array([0, 2], np.uint8))
    assert check_control(_spec(hold=False), np.array([0, 1], np.uint8)).tolist() == [0, 1]


def test_values_outside_the_bounds_are_counted_on_both_sides() -> None:
    actions = np.array([[-1.5, -1, 0], [1, 1.5, 99]], np.float32)
    assert Bounds(ArraySpec("float32", (3,), -1, 1)).count_outside(actions) == 3
    assert Bounds(ArraySpec("float32", (3,), -1, None)).count_outside(actions) == 1
    assert Bounds(ArraySpec("float32", (3,), None, [1, 2, 3])).count_outside(actions) == 1
    assert Bounds(ArraySpec("float32", (3,))).count_outside(actions) == 0


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-1, 1, r"-1\.5 at \[0, 0\] \(env 0\), expected -1\.0 to 1\.0; nothing was sent"),
        (None, [1, 2, 3], r"99\.0 at \[1, 2\] \(env 1\), expected -inf to 3\.0"),
        (-1, None, r"-1\.5 at \[0, 0\] \(env 0\), expected -1\.0 to inf"),
    ],
)
def test_the_strict_check_names_the_first_value_outside(low: Any, high: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Bounds(ArraySpec("float32", (3,), low, high)).check(np.array([[-1.5, -1, 0], [1, 1.5, 99]], np.float32))


@pytest.mark.parametrize(
    ("array", "least", "most"),
    [
        (ArraySpec("int64", (), n=3), 0, 2),
        (ArraySpec("int8", (), 5, n=3), 5, 7),
        (ArraySpec.from_plain({"dtype": "int32", "shape": [], "n": 3}), 0, 2),  # as C, C++ and C# write it
        (ArraySpec.of_space(Discrete(3, start=-1)), -1, 1),
        (ArraySpec.of_space(MultiDiscrete([3, 3])), 0, 2),
        (ArraySpec.of_space(MultiBinary(2)), 0, 1),
    ],
)
def test_choices_have_bounds_whether_their_spec_says_them_or_not(array: ArraySpec, least: int, most: int) -> None:
    bounds, actions = Bounds(array), np.full((2, *array.shape), least, array.dtype)
    for value, outside in ((least, 0), (most, 0), (least - 1, actions.size), (most + 1, actions.size)):
        assert bounds.count_outside(np.full_like(actions, value)) == outside
    with pytest.raises(SpecError, match=f"out of bounds: {most + 1} at .*expected {least} to {most}"):
        bounds.check(np.full_like(actions, most + 1))
    assert array.space().contains(np.full_like(actions, most)[0])


class _OnGpu:
    """Values that NumPy cannot read, as those of PyTorch and CuPy are; PyTorch's has a gradient's history as well."""

    __cuda_array_interface__: Any = None

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


class _OfTorch(_OnGpu):
    def detach(self) -> _OfTorch:
        self.detached = True
        return self

    def cpu(self) -> Any:
        assert self.detached
        return self

    def numpy(self) -> Any:
        return self._values


class _OfCupy(_OnGpu):
    def get(self) -> Any:
        return self._values


class _OfJax(_OnGpu):
    def __array__(self, *_: Any, **__: Any) -> Any:
        return self._values


@pytest.mark.exhaustive
@pytest.mark.usefixtures("forked_engines")
@pytest.mark.parametrize("on_gpu", [_OfTorch, _OfCupy, _OfJax])
@pytest.mark.parametrize("transport", ["shm", "inproc", "grpc"])
def test_actions_on_a_gpu_are_copied_to_the_host_over_every_transport(on_gpu: type[_OnGpu], transport: str) -> None:
    rows = np.full((2, 2), 0.3, np.float32)
    with api.make("toy", 2, transport=transport) as env, api.make("toy", 2, transport=transport) as other:
        env.reset(seed=1)
        other.reset(seed=1)
        np.testing.assert_array_equal(env.step(on_gpu(rows))[0], other.step(rows)[0])
        with pytest.raises(ValueError, match=r"have shape \(3, 2\), expected \(2, 2\)"):
            env.step(on_gpu(np.zeros((3, 2), np.float32)))


@pytest.mark.parametrize(
    ("value", "dtype", "said"),
    [
        (np.array([0.0, 254.7, 300.0]), "uint8", "254.7 (float64) at [1]"),
        (np.array([0.0, -3.0]), "uint8", "-3.0 (float64) at [1]"),
        (np.array([[1.0], [np.nan]]), "int64", "nan (float64) at [1, 0]"),
        (np.array([1.0, 2.0]), "uint8", "1.0 (float64) at [0]"),
        (254.7, "int64", "254.7 (float64)"),
        ([1, 2.5], "int64", "2.5 (float64) at [1]"),
        ([1, 300], "uint8", "300 (int64) at [1]"),
        (-3, "uint8", "-3 (int64)"),
        (2**70, "int64", f"{2**70} (object)"),
        (np.array([1, 2]), "uint8", "1 (int64) at [0]"),
        (np.array([1, 300]), "int8", "300 (int64) at [1]"),
        (np.int64(300), "int8", "300 (int64)"),
        (np.array([1, 2**63], np.uint64), "int64", "9223372036854775808 (uint64) at [1]"),
        (np.array([0, 2]), "bool", "2 (int64) at [1]"),
        (0.5, "bool", "0.5 (float64)"),
        (np.array([1j]), "float32", "1j (complex128) at [0]"),
        ("1.5", "float32", "1.5 (<U3)"),
        (None, "float32", "None (object)"),
        (Decimal("1.5"), "float32", "1.5 (object)"),
        (1e39, "float32", "1e+39 (float64)"),
        (np.array([np.inf, -1e39]), "float32", "-1e+39 (float64) at [1]"),
        ([1, 70000], "float16", "70000 (int64) at [1]"),
    ],
)
def test_what_would_become_another_value_is_refused_by_value_dtype_and_place(value: Any, dtype: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        fitting(value, dtype)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array([0.1, 1e30]), "float32"),
        (np.array([np.nan, -np.inf]), "float32"),
        ([1, 255], "uint8"),
        (7, "int64"),
        (np.array([1, 127]), "int8"),
        (np.array([], np.float64), "float32"),
        (np.arange(3), "float32"),
        (True, "int64"),
        ([True, False], "bool"),
        (2**63, "uint64"),
        ([], "uint8"),
    ],
)
def test_what_stays_the_value_it_is_or_loses_precision_only_is_taken(value: Any, dtype: str) -> None:
    written = np.zeros(np.shape(value), dtype)
    written[...] = fitting(value, dtype)
    assert np.array_equal(written, np.asarray(value).astype(dtype), equal_nan=dtype[0] == "f")


@given(st.integers(-(2**65), 2**65), st.sampled_from([name for name in DTYPES if "int" in name]))
def test_an_integer_of_pythons_is_taken_exactly_where_the_dtype_has_it(value: int, dtype: str) -> None:
    limits = np.iinfo(dtype)
    if limits.min <= value <= limits.max:
        assert int(fitting(value, dtype)) == value
    else:
        with pytest.raises(ValueError, match=str(value)):
            fitting(value, dtype)


def test_actions_on_a_gpu_are_recorded(tmp_path: Path) -> None:
    rows = np.full((2, 2), 0.3, np.float32)
    with api.make("toy", 2, transport="shm", record=str(tmp_path / "run.jsonl")) as env:
        env.reset(seed=1)
        env.step(_OfTorch(rows))
    assert base64.b64encode(rows.tobytes()) in (tmp_path / "run.jsonl").read_bytes()
