"""What the C# kit's README says to write compiles, in place, and its programs run."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from tests.support.kit_engine import KitEngine, assert_second_program, blocks, compile_csharp, run_program

SCHEMA = method("AgentService/GetAgentSchema")


def with_commands(lift: str, commands: str) -> str:
    """Put the commands into the first engine; their Begin takes the place of the one there."""
    begin = re.compile(r"^    private void Begin\(int env\)\n    {\n.*?^    }\n\n", re.DOTALL | re.MULTILINE)
    without, count = begin.subn("", lift)
    assert count == 1
    main = without.index("    public static int Main()")
    return f"{without[:main]}{textwrap.indent(commands, '    ')}\n{without[main:]}"


def start(lift: str, folder: Path) -> KitEngine:
    """Start this engine, compiled with the README's other files."""
    name = unique_name()
    _, painter, _, main_thread = blocks("csharp", "csharp")
    (folder / "Lift.cs").write_text(lift.replace('"lift", new', f'"{name}", new'))
    (folder / "Painter.cs").write_text(painter)
    (folder / "MainThreadEngine.cs").write_text(main_thread)
    return KitEngine(compile_csharp(folder / "lift.exe", [f"{folder}/*.cs"]), name)


def test_the_first_engine_is_stepped_by_the_first_program(tmp_path: Path) -> None:
    with start(blocks("csharp", "csharp")[0], tmp_path) as engine:
        (printed,) = run_program(engine, "csharp", 0)
    assert printed.startswith("[0.3 0.3 0.3 0.3] [-0.71 -0.71 -0.71 -0.71]")


def test_the_engine_with_commands_answers_the_second_program(tmp_path: Path) -> None:
    lift, _, commands, _ = blocks("csharp", "csharp")
    with start(with_commands(lift, commands), tmp_path) as engine:
        assert_second_program(engine, "csharp", (16, 32))


def test_the_schema_of_an_agent_follows_from_the_spec_as_in_python(csharp_pendulum: list[str]) -> None:
    expected = InprocTransport(Host(PendulumEngine(4)))
    with KitEngine(csharp_pendulum, unique_name(), 4) as engine, engine.connect() as actual, expected:
        for agent in ("", "agent_3", "agent_9", "agent_-1", "nobody"):
            assert actual.call(SCHEMA, GetAgentSchemaRequest(agent)) == expected.call(
                SCHEMA, GetAgentSchemaRequest(agent)
            )
