"""What the READMEs of the kits say to write compiles, in place, and their programs run."""

import re
import textwrap
from pathlib import Path

import pytest

from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.errors import SpecError
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import GetAgentSchemaRequest, SetSeedsRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from tests.support.kit_engine import (
    KitEngine,
    assert_second_program,
    blocks,
    compile_c,
    compile_cpp,
    compile_csharp,
    run_program,
)

SEEDS, SCHEMA = method("BatchService/SetSeeds"), method("AgentService/GetAgentSchema")
#: The function of the first engine that the commands replace, in each language.
_BEGIN = {
    "csharp": r"^    private void Begin\(int env\)\n    {\n.*?^    }\n\n",
    **dict.fromkeys(("c", "cpp"), r"^( *)(static )?void begin\(.*?^\1}\n\n"),
}


def with_commands(kit: str) -> str:
    """Return the first engine with the README's handlers where it says that they go."""
    lift, *others = blocks(kit, kit)
    lift, count = re.subn(_BEGIN[kit], "", lift, count=1, flags=re.DOTALL | re.MULTILINE)
    assert count == 1
    if kit == "csharp":
        main = lift.index("    public static int Main()")
        return f"{lift[:main]}{textwrap.indent(others[1], '    ')}\n{lift[main:]}"
    if kit == "c":
        whole = lift.replace("} lift;\n", f"}} lift;\n\n{others[0]}", 1)
        return whole.replace(".user = &all}", ".user = &all, .handlers = HANDLERS, .num_handlers = 5}")
    constructor, members = others
    whole = lift.replace("ticks_(num_envs) {}", f"ticks_(num_envs) {{\n{constructor}}}")
    return whole.replace("private:\n", f"private:\n{textwrap.indent(members, '    ')}\n", 1)


def start(kit: str, lift: str, folder: Path) -> KitEngine:
    """Start this engine, in C# compiled with the README's other files."""
    name = unique_name()
    if kit == "csharp":
        _, painter, _, main_thread = blocks(kit, kit)
        (folder / "Lift.cs").write_text(lift.replace('"lift", new', f'"{name}", new'))
        (folder / "Painter.cs").write_text(painter)
        (folder / "MainThreadEngine.cs").write_text(main_thread)
        return KitEngine(compile_csharp(folder / "lift.exe", [f"{folder}/*.cs"]), name)
    source = folder / f"lift.{kit}"
    lift = lift.replace('puts("serving shm://lift");', 'puts("serving shm://lift"), fflush(stdout);')
    source.write_text(
        lift.replace('"lift", &engine', f'"{name}", &engine').replace('server("lift"', f'server("{name}"')
    )
    compiled = compile_c if kit == "c" else compile_cpp
    return KitEngine(compiled(folder / "lift", str(source), level="-O1"), name)


@pytest.mark.parametrize("kit", ["csharp", "c", "cpp"])
def test_the_first_engine_is_stepped_by_the_first_program(kit: str, tmp_path: Path) -> None:
    with start(kit, blocks(kit, kit)[0], tmp_path) as engine:
        (printed,) = run_program(engine, kit, 0)
    assert printed.startswith("[0.3 0.3 0.3 0.3] [-0.71 -0.71 -0.71 -0.71]")


@pytest.mark.parametrize(("kit", "shown"), [("csharp", (16, 32)), ("c", (64, 64)), ("cpp", (64, 64))])
def test_the_engine_with_commands_answers_the_second_program(kit: str, shown: tuple[int, int], tmp_path: Path) -> None:
    with start(kit, with_commands(kit), tmp_path) as engine:
        assert_second_program(engine, kit, shown)
        if kit != "csharp":
            with engine.connect() as client, pytest.raises(SpecError, match="expected a seed for each of 4 envs"):
                client.call(SEEDS, SetSeedsRequest([0] * 5))


def test_the_schema_of_an_agent_follows_from_the_spec_as_in_python(csharp_pendulum: list[str]) -> None:
    expected = InprocTransport(Host(PendulumEngine(4)))
    with KitEngine(csharp_pendulum, unique_name(), 4) as engine, engine.connect() as actual, expected:
        for agent in ("", "agent_3", "agent_9", "agent_-1", "nobody"):
            assert actual.call(SCHEMA, GetAgentSchemaRequest(agent)) == expected.call(
                SCHEMA, GetAgentSchemaRequest(agent)
            )
