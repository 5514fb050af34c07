"""Finding and loading a library; its spaces, and what it may not say of itself, which is refused by name."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import given
from hypothesis import strategies as st

from lucky_transport.errors import EngineFailed, SpecError, UnknownName
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport.spec.composite import pack
from lucky_transport_libenv.interface import Space, TensorType
from lucky_transport_libenv.library import Library, file_name, find
from lucky_transport_libenv.spaces import read_parts
from tests.plugins.libenv.conftest import made


class TellTale:
    """Stands for a library that says these tensors of every space."""

    path = "telltale.so"

    def __init__(self, *tensors: TensorType, count: int | None = None) -> None:
        self._tensors = tensors
        self._count = len(tensors) if count is None else count

    def get_tensortypes(self, handle: int, space: Space, into: Any) -> int:
        if into is not None:
            for i, tensor in enumerate(self._tensors):
                ctypes.memmove(ctypes.byref(into, i * ctypes.sizeof(TensorType)), ctypes.byref(tensor), 212)
        return self._count


def tensor(
    name: bytes = b"x",
    scalar_type: int = 2,
    dtype: int = 2,
    shape: tuple[int, ...] = (),
    ndim: int | None = None,
    **bounds: int,
) -> Any:
    made = TensorType(name=name, scalar_type=scalar_type, dtype=dtype, ndim=len(shape) if ndim is None else ndim)
    made.shape[: len(shape)] = shape
    made.low.int32, made.high.int32 = bounds.get("low", 0), bounds.get("high", 5)
    return made


def parts_of(*tensors: TensorType, count: int | None = None) -> Any:
    library: Any = TellTale(*tensors, count=count)
    return read_parts(library, 1, Space.OBSERVATION)


@pytest.fixture(scope="module")
def spec(sample: str) -> BatchSpec:
    """The sample's spec at 3 envs."""
    engine = made(sample, 3)
    engine.close()
    return engine.spec


def test_each_space_is_a_dict_in_the_librarys_order(spec: BatchSpec) -> None:
    assert [part.path for part in spec.observation_parts] == [("pixels",), ("position",), ("goal",)]
    assert [part.path for part in spec.action_parts] == [("push",), ("button",), ("aims",)]
    assert [part.path for part in spec.info_parts] == [("ticks",), ("won",), ("name",)]
    assert isinstance(spec.observation_space(), Dict)
    assert list(spec.observation_space()) == ["pixels", "position", "goal"]  # pyright: ignore[reportArgumentType]


def test_tensors_have_the_gymnasium_spaces_of_their_kind(spec: BatchSpec) -> None:
    observation, action = spec.observation_space(), spec.action_space()
    assert isinstance(observation, Dict)
    assert isinstance(action, Dict)
    assert observation["pixels"] == Box(0, 255, (3, 4, 2), np.uint8)
    assert observation["position"] == Box(-float("inf"), float("inf"), (2,), np.float32)
    assert _values(observation["goal"]) == 10
    assert action["push"] == Box(-1, 1, (2,), np.float32)
    assert _values(action["button"]) == 4
    assert action["aims"] == Box(0, 4, (2,), np.int32)


def _values(space: object) -> int:
    assert isinstance(space, Discrete)
    return int(space.n)


def test_rows_lie_on_64_byte_boundaries(spec: BatchSpec) -> None:
    assert spec.observation.size % 64 == spec.action.size % 64 == 0
    assert not [p for p in spec.observation_parts + spec.info_parts + spec.action_parts if p.offset % 64]


def test_the_spec_says_that_ends_are_not_told_apart(spec: BatchSpec) -> None:
    assert spec.termination_terms == ("first",)
    assert spec.timeout_terms == ()
    assert "never why" in spec.attributes["episode_ends"]


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ([tensor(dtype=0)], "tensor 'x' has scalar_type 2 with dtype 0"),
        ([tensor(scalar_type=1)], "scalar_type 1 with dtype 2"),
        ([tensor(dtype=3)], "scalar_type 2 with dtype 3"),
        ([tensor(shape=(2, 0))], r"shape \(2, 0\)"),
        ([tensor(shape=(-1,))], r"shape \(-1,\)"),
        ([tensor(shape=(1 << 20, 1 << 20))], "has ndim 2"),
        ([tensor(low=1)], "goes from 1 to 5, expected from 0"),
        ([tensor(high=-1)], "goes from 0 to -1"),
        ([tensor(scalar_type=1, dtype=3, low=0, high=-0x40800000)], "real tensor 'x' goes from 0.0 to -1.0"),
        ([tensor(name=b"")], "has no name"),
        ([tensor(name=b"\xff")], "is no UTF-8"),
        ([tensor(), tensor()], "two tensors 'x'"),
        *(([tensor(shape=(2,), ndim=ndim)], f"has ndim {ndim}") for ndim in (-1, 17, 1 << 30)),
        *((count, f"{count} tensors") for count in (-1, 1 << 30)),
    ],
)
def test_a_tensor_that_the_interface_does_not_allow_is_refused(tensors: list[TensorType] | int, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parts_of(count=tensors) if isinstance(tensors, int) else parts_of(*tensors)


@st.composite
def tensors(draw: st.DrawFn) -> TensorType:
    """Tensors that are nearly right: numbers in range, bounds of any bits."""
    made = TensorType.from_buffer_copy(draw(st.binary(min_size=212, max_size=212)))
    made.name = draw(st.binary(max_size=127))
    made.scalar_type, made.dtype = draw(st.sampled_from([(1, 3), (2, 1), (2, 2), (0, 0)]))
    made.ndim = draw(st.integers(-1, 4))
    made.shape[:4] = draw(st.tuples(*[st.integers(0, 9)] * 4))
    made.low.int32 = draw(st.sampled_from([0, 0, 1, -1, 0x7FC00000]))
    return made


@given(tensors())
def test_whatever_a_tensor_says_is_understood_or_refused(made: TensorType) -> None:
    try:
        (part,) = parts_of(made)
    except SpecError:
        return
    row, parts, _ = pack([part])
    spec = BatchSpec("libenv:x", 2, row, row, observation_parts=parts, action_parts=parts)
    assert BatchSpec.from_json(spec.to_json()) == spec
    assert spec.observation_space() is not None


def test_a_library_with_a_space_that_is_not_allowed_is_refused_by_tensor(compile_sample: Any) -> None:
    with pytest.raises(SpecError, match=r"OBSERVATION space: discrete tensor 'goal' goes from 1 to 9"):
        made(str(compile_sample("low", "-DSAMPLE_LOW=1")))


def test_a_library_without_observations_is_refused(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(library: Library, handle: int, space: Space) -> tuple[()]:
        return ()

    monkeypatch.setattr("lucky_transport_libenv.spaces.read_parts", nothing)
    with pytest.raises(SpecError, match="OBSERVATION space is empty"):
        made(sample)


# finding and loading


@pytest.mark.parametrize(
    ("platform", "name"), [("linux", "libmaze.so"), ("darwin", "libmaze.dylib"), ("win32", "maze.dll")]
)
def test_a_library_is_called_as_each_system_calls_it(platform: str, name: str) -> None:
    assert file_name("maze", platform) == name


def test_a_library_is_found_by_its_path_and_by_folder_and_name(sample: str) -> None:
    assert find(sample) == sample
    assert find(str(Path(sample).parent / "sample")) == sample


def test_a_relative_path_becomes_an_absolute_one(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(sample).parent)
    assert find("libsample.so") == find("./sample") == find("sample") == sample


def test_a_bare_name_is_left_to_the_systems_loader() -> None:
    assert find("nobody_has_this") == file_name("nobody_has_this")


@pytest.mark.parametrize("name", ["", "/nowhere/libmaze.so", "nowhere/maze", "nobody_has_this"])
def test_a_library_that_is_nowhere_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownName, match=name or "needs a library"):
        Library(name)


def test_a_file_that_is_no_library_does_not_load(tmp_path: Path) -> None:
    path = tmp_path / "libtext.so"
    path.write_text("not an ELF file, though it has the name of one")
    with pytest.raises(EngineFailed, match="does not load"):
        Library(str(path))


def test_a_library_of_something_else_is_refused_by_what_it_lacks(compile_sample: Any, tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int answer(void) { return 42; }")
    with pytest.raises(SpecError, match="exports no libenv_version"):
        Library(str(compile_sample("other", source=source)))


def test_another_version_is_refused_with_both_numbers(compile_sample: Any) -> None:
    with pytest.raises(SpecError, match="version 2 of libenv, expected 1"):
        Library(str(compile_sample("newer", "-DSAMPLE_VERSION=2")))


def test_a_function_that_a_library_lacks_is_refused_by_name(sample: str) -> None:
    with pytest.raises(SpecError, match="exports no fly"):
        Library(sample).function("fly", None)
