"""What the READMEs of the kits show: their code, and their programs."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap

from tests.support.kit_engine import KITS, KitEngine
from tests.support.waiting import PATIENCE_S

__all__ = ["assert_second_program", "blocks", "run_program"]


def blocks(kit: str, language: str) -> list[str]:
    """Return the code in that language of a kit's README."""
    text = (KITS / kit / "README.md").read_text(encoding="utf-8")
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(one) for one in found]


def run_program(engine: KitEngine, kit: str, number: int) -> list[str]:
    """Return the lines that the README's program of that number prints; it steps this engine."""
    engine.wait()
    program = blocks(kit, "python")[number].replace("shm://lift", engine.endpoint)
    program = program.replace("make(", f"make(connect_timeout_s={PATIENCE_S}, ")
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def assert_second_program(engine: KitEngine, kit: str, size: tuple[int, int]) -> None:
    """Assert that the README's engine answers its program of commands, with a streamed image of that size."""
    one, streamed, image, rendered = run_program(engine, kit, 1)
    assert one == streamed  # no step came between the call and the stream
    assert 0 < float(one.strip("[]")) < 0.1  # drawn from the seed
    assert (image, rendered) == (f"({size[0]}, {size[1]}, 4)", "4 (64, 64, 3)")
