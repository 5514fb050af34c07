"""What the C# kit's README says to write compiles, in place, and its programs run."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

from lucky_transport.engines.pendulum import PendulumEngine
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.process import unique_name
from tests.support.kit_engine import KITS, KitEngine, compile_csharp

README = (KITS / "csharp" / "README.md").read_text()
SCHEMA = method("AgentService/GetAgentSchema")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", README, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(one) for one in found]


def with_commands(lift: str, commands: str) -> str:
    """Put the commands into the first engine; their Begin takes the place of the one there."""
    begin = re.compile(r"^    private void Begin\(int env\)\n    {\n.*?^    }\n\n", re.DOTALL | re.MULTILINE)
    without, count = begin.subn("", lift)
    assert count == 1
    main = without.index("    public static int Main()")
    return f"{without[:main]}{textwrap.indent(commands, '    ')}\n{without[main:]}"


def run_with(lift: str, program: str, folder: Path) -> str:
    """Return what a program of the README prints that steps this engine, compiled with the README's other files."""
    name = unique_name()
    _, painter, _, main_thread = blocks("csharp")
    (folder / "Lift.cs").write_text(lift.replace('"lift", new', f'"{name}", new'))
    (folder / "Painter.cs").write_text(painter)
    (folder / "MainThreadEngine.cs").write_text(main_thread)
    with KitEngine(compile_csharp(folder / "lift.exe", [f"{folder}/*.cs"]), name) as engine:
        program = program.replace("shm://lift", engine.endpoint).replace("make(", "make(connect_timeout_s=20, ")
        command = [sys.executable, "-W", "ignore", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_engine_is_stepped_by_the_first_program(tmp_path: Path) -> None:
    printed = run_with(blocks("csharp")[0], blocks("python")[0], tmp_path)
    assert "[0.3 0.3 0.3 0.3] [-0.71 -0.71 -0.71 -0.71]" in printed


def test_the_engine_with_commands_answers_the_second_program(tmp_path: Path) -> None:
    lift, _, commands, _ = blocks("csharp")
    lines = run_with(with_commands(lift, commands), blocks("python")[1], tmp_path).splitlines()
    assert len(lines) == 4
    assert lines[0] == lines[1]  # no step came between the call and the stream
    assert 0 < float(lines[0].strip("[]")) < 0.1  # drawn from the seed
    assert lines[2:] == ["(16, 32, 4)", "4 (64, 64, 3)"]


def test_the_schema_of_an_agent_follows_from_the_spec_as_in_python(csharp_pendulum: list[str]) -> None:
    expected = InprocTransport(Host(PendulumEngine(4)))
    with KitEngine(csharp_pendulum, unique_name(), 4) as engine, engine.connect() as actual, expected:
        for agent in ("", "agent_3", "agent_9", "agent_-1", "nobody"):
            assert actual.call(SCHEMA, GetAgentSchemaRequest(agent)) == expected.call(
                SCHEMA, GetAgentSchemaRequest(agent)
            )
