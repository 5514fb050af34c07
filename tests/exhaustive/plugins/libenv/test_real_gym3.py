"""The real gym3, in its own interpreter: it loads our libraries, and we load its.

LUCKY_PEER_GYM3 is the path of a Python that has it: python -m venv peer && peer/bin/pip install gym3==0.3.3

LUCKY_PEER_PROCGEN is the folder procgen/data of procgen 0.10.7, whose library needs no Python of a certain version:
pip download --no-deps --only-binary=:all: --python-version 3.10 --platform manylinux2014_x86_64 procgen==0.10.7
python -m zipfile -e procgen-0.10.7-*.whl procgen_files
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lucky_transport.spec.composite import views
from lucky_transport_libenv.engine import LibenvEngine
from tests.plugins.libenv.conftest import bound
from tests.support.command import execute, stdout_of

GYM3 = os.environ.get("LUCKY_PEER_GYM3", "")
PROCGEN = Path(os.environ.get("LUCKY_PEER_PROCGEN", ""))
HOST = Path(__file__).parents[3] / "plugins" / "libenv" / "gym3_host.py"
N, STEPS = 4, 40

pytestmark = pytest.mark.skipif(
    not GYM3,
    reason="LUCKY_PEER_GYM3 names no Python with gym3: python -m venv peer && peer/bin/pip install gym3==0.3.3",
)


def seen_by_gym3(
    library: Path, options: dict[str, Any], actions: dict[str, NDArray[Any]], file: Path, threads: int = 1
) -> list[dict[str, Any]]:
    """Return what each of `threads` envs showed; the actions go there in `file`."""
    np.savez(file, **actions)  # pyright: ignore[reportArgumentType]
    name = library.stem.removeprefix("lib")
    command = [GYM3, HOST, library.parent, name, json.dumps(options), file, threads]
    return json.loads(stdout_of(execute(*command, timeout=90)))


def seen_by_us(library: Path, options: dict[str, Any], actions: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Return the same of our own engine, which here never resets anything."""
    with bound(LibenvEngine(str(library), N, options)) as (engine, buffers):
        seen: list[dict[str, Any]] = []
        engine.step(np.full(N, 1, np.uint8))
        places = views(buffers.actions, engine.spec.action_parts)
        for step in range(len(next(iter(actions.values()))) + 1):
            if step:
                for name, array in actions.items():
                    places[name,][:] = array[step - 1]
                engine.step(None)
            first = buffers.terminated != 0 if step else np.ones(N, np.bool_)
            digest = hashlib.sha256(buffers.rewards.tobytes() + first.tobytes())
            for parts in (engine.spec.observation_parts, engine.spec.info_parts):
                for array in views(buffers.observations, parts).values():
                    digest.update(np.ascontiguousarray(array).tobytes())
            seen.append({"digest": digest.hexdigest(), "first": first.tolist(), "rew": buffers.rewards.tolist()})
    return seen


def plain(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: row[key] for key in ("digest", "first", "rew")} for row in seen]


def random_actions() -> dict[str, NDArray[Any]]:
    generator = np.random.default_rng(0)
    return {
        "push": generator.uniform(-1, 1, (STEPS, N, 2)).astype(np.float32),
        "button": generator.integers(0, 4, (STEPS, N)).astype(np.uint8),
        "aims": generator.integers(0, 5, (STEPS, N, 2)).astype(np.int32),
    }


def test_gym3_loads_an_engine_and_sees_what_we_see_of_it(toy: str, tmp_path: Path) -> None:
    options = {"episode_steps": 12, "seed": 3}
    actions = {"action": np.random.default_rng(1).uniform(-1, 1, (STEPS, N, 2)).astype(np.float32)}
    theirs, again = seen_by_gym3(Path(toy), options, actions, tmp_path / "actions.npz", threads=2)
    assert plain(theirs["seen"]) == seen_by_us(Path(toy), options, actions)
    assert again == theirs, "two envs in two threads differ"
    assert sum(any(row["first"]) for row in theirs["seen"]) > 3
    assert theirs["again"] == theirs["seen"][-1], "observing again shows something else"
    assert theirs["after_two"] != theirs["again"]


def test_our_engine_sees_of_a_library_what_gym3_sees(compile_sample: Any, tmp_path: Path) -> None:
    """Compiled against gym3's own header, with options of every type."""
    program = "from gym3.libenv import get_header_dir; print(get_header_dir())"
    folder = stdout_of(execute(GYM3, "-c", program)).strip()
    library = compile_sample("theirs", "-DSAMPLE_AGAINST_THE_REAL_HEADER", f"-I{folder}")
    options = {"seed": 7, "episode_steps": 9, "pace": 0.5, "name": "maze", "makes_nothing": False}
    (theirs,) = seen_by_gym3(library, options, random_actions(), tmp_path / "actions.npz")
    assert plain(theirs["seen"]) == seen_by_us(library, options, random_actions())
    assert theirs["seen"][0]["names"] == ["pixels", "position", "goal"]
    assert sum(any(row["first"]) for row in theirs["seen"]) > 5


#: Every option of procgen, each of the type that it insists on.
PROCGEN_OPTIONS: dict[str, Any] = {
    "env_name": "coinrun",
    "resource_root": f"{PROCGEN.absolute()}/assets/",
    **dict.fromkeys(("center_agent", "use_backgrounds"), True),
    **dict.fromkeys(("use_generated_assets", "use_monochrome_assets", "restrict_themes"), False),
    **dict.fromkeys(("paint_vel_info", "use_sequential_levels", "render_human"), False),
    "distribution_mode": 0,
    "num_levels": 0,
    "start_level": 0,
    "num_actions": 15,
    "debug_mode": 0,
    "rand_seed": 7,
    "num_threads": 2,
}


def test_our_engine_sees_of_procgen_what_gym3_sees(tmp_path: Path) -> None:
    procgen = PROCGEN / "prebuilt" / "libenv.so"
    if not procgen.exists():
        pytest.skip("LUCKY_PEER_PROCGEN names no folder procgen/data; see the top of this file")
    actions = {"action": np.random.default_rng(2).integers(0, 15, (400, N)).astype(np.int32)}
    (theirs,) = seen_by_gym3(procgen, PROCGEN_OPTIONS, actions, tmp_path / "actions.npz")
    assert plain(theirs["seen"]) == seen_by_us(procgen, PROCGEN_OPTIONS, actions)
    assert sum(any(row["first"]) for row in theirs["seen"]) > 1
