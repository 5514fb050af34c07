"""What the C# kit's README says to write compiles and runs; an engine that throws fails its call and goes on."""

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
JOINTS, STREAM_JOINTS = method("MujocoService/GetJointState"), method("MujocoService/StreamJointState")

SCHEMA = method("AgentService/GetAgentSchema")


def block(language: str, number: int = 0) -> str:
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", README, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(found[number])


def compile_engine(folder: Path, source: str, name: str) -> list[str]:
    """Compile one file of a user with a copy of the kit, as the README says."""
    (folder / "Lift.cs").write_text(source.replace('"lift", new', f'"{name}", new'))
    return compile_csharp(folder / "lift.exe", [f"{folder}/*.cs"])


def test_the_first_engine_of_the_readme_is_stepped_by_the_readmes_program(tmp_path: Path) -> None:
    name = unique_name()
    with KitEngine(compile_engine(tmp_path, block("csharp"), name), name) as engine:
        program = block("python").replace("shm://lift", f"{engine.endpoint}")
        program = program.replace("make(", "make(connect_timeout_s=20, ")
        command = [sys.executable, "-W", "ignore", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "[0.3 0.3 0.3 0.3] [-0.71 -0.71 -0.71 -0.71]" in done.stdout


def test_the_schema_of_an_agent_follows_from_the_spec_as_in_python(csharp_pendulum: list[str]) -> None:
    expected = InprocTransport(Host(PendulumEngine(4)))
    with KitEngine(csharp_pendulum, unique_name(), 4) as engine, engine.connect() as actual, expected:
        for agent in ("", "agent_3", "agent_9", "agent_-1", "nobody"):
            assert actual.call(SCHEMA, GetAgentSchemaRequest(agent)) == expected.call(
                SCHEMA, GetAgentSchemaRequest(agent)
            )
