"""pytest-xdist: tests in two workers, each with a channel of its own."""

import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import grpc
from serving import add_echo, ask_echo

_TESTS = """
import grpc, pytest

@pytest.fixture(scope="session")
def say():
    with grpc.insecure_channel("127.0.0.1:{port}") as channel:
        yield channel.unary_unary("/lab.Echo/Say")

@pytest.mark.parametrize("number", range(20))
def test_echo(say, number):
    assert say(b"%d" % number, timeout=30) == (b"%d" % number if number != 7 else b"other")
"""


register = add_echo


@contextmanager
def client(port):
    """Run the tests."""
    with tempfile.TemporaryDirectory() as folder, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        (Path(folder) / "test_echo.py").write_text(_TESTS.replace("{port}", str(port)))

        def workers():
            command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "no:cacheprovider", folder]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=200, check=False)
            return re.sub(r" in .*", "", done.stdout.strip().splitlines()[-1])

        answers, small = ask_echo(channel)
        yield lambda: {"echo": answers(), "workers": workers()}, small, workers
