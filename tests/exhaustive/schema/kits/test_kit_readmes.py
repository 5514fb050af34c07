"""What the READMEs of the native kits say to write compiles, in place, and their programs run."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from lucky_transport.errors import SpecError
from lucky_transport.messages import SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from tests.support.kit_engine import KitEngine, assert_second_program, blocks, compile_c, compile_cpp, run_program

SEEDS = method("BatchService/SetSeeds")


def first_engine(kit: str) -> str:
    return blocks(kit, kit)[0]


def without_begin(lift: str) -> str:
    """Take the function `begin` out of the first engine, for that of the commands."""
    without, count = re.subn(
        r"^( *)(static )?void begin\(.*?^\1}\n\n", "", lift, count=1, flags=re.DOTALL | re.MULTILINE
    )
    assert count == 1
    return without


def with_commands(kit: str) -> str:
    """Return the first engine with the README's handlers where it says that they go."""
    lift = without_begin(first_engine(kit))
    if kit == "c":
        whole = lift.replace("} lift;\n", f"}} lift;\n\n{blocks('c', 'c')[1]}", 1)
        return whole.replace(".user = &all}", ".user = &all, .handlers = HANDLERS, .num_handlers = 5}")
    _, constructor, members = blocks("cpp", "cpp")
    whole = lift.replace("ticks_(num_envs) {}", f"ticks_(num_envs) {{\n{constructor}}}")
    return whole.replace("private:\n", f"private:\n{textwrap.indent(members, '    ')}\n", 1)


def start(kit: str, lift: str, folder: Path) -> KitEngine:
    name, source = unique_name(), folder / f"lift.{kit}"
    lift = lift.replace('puts("serving shm://lift");', 'puts("serving shm://lift"), fflush(stdout);')
    source.write_text(
        lift.replace('"lift", &engine', f'"{name}", &engine').replace('server("lift"', f'server("{name}"')
    )
    compiled = compile_c if kit == "c" else compile_cpp
    return KitEngine(compiled(folder / "lift", str(source), level="-O1"), name)


@pytest.mark.parametrize("kit", ["c", "cpp"])
def test_the_first_engine_is_stepped_by_the_first_program(kit: str, tmp_path: Path) -> None:
    with start(kit, first_engine(kit), tmp_path) as engine:
        (printed,) = run_program(engine, kit, 0)
    assert printed.startswith("[0.3 0.3 0.3 0.3] [-0.71 -0.71 -0.71 -0.71]")


@pytest.mark.parametrize("kit", ["c", "cpp"])
def test_the_engine_with_commands_answers_the_second_program(kit: str, tmp_path: Path) -> None:
    with start(kit, with_commands(kit), tmp_path) as engine:
        assert_second_program(engine, kit, (64, 64))
        with engine.connect() as client, pytest.raises(SpecError, match="expected a seed for each of 4 envs"):
            client.call(SEEDS, SetSeedsRequest([0] * 5))
