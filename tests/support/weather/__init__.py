"""A service that is not LuckyEngine's, with a server and a client that import nothing of ours.

The fixture `weather` of tests/conftest.py gives the folder to run them in; its modules are made there by grpcio-tools.
"""

import importlib.resources
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.build_once import build_once, shared_folder

__all__ = ["SERVICE", "WeatherPrograms", "build"]

SERVICE = "weather.v1.Weather"

_HERE = Path(__file__).parent
_OF_A_TEAM = ("weather.proto", "server.py", "client.py")


@dataclass(frozen=True, slots=True)
class WeatherPrograms:
    """folder: holds weather.proto, the modules made of it, server.py and client.py. Tests write elsewhere."""

    folder: Path

    @property
    def proto(self) -> Path:
        """The service's own file."""
        return self.folder / "weather.proto"

    @property
    def descriptor_set(self) -> Path:
        """A FileDescriptorSet of the file and what it imports."""
        return self.folder / "weather.binpb"

    def server(self, port: int | str = 0, *options: str) -> list[str]:
        """Return the command of a server. Its first line on stdout is `weather serves port N`."""
        return [sys.executable, str(self.folder / "server.py"), "--port", str(port), *options]

    def client(self, target: str, *options: str) -> list[str]:
        """Return the command of a client; its last line on stdout is `weather total T`."""
        return [sys.executable, str(self.folder / "client.py"), "--target", target, *options]


def build(factory: pytest.TempPathFactory) -> WeatherPrograms:
    """Return the programs of this session, made once; skips where grpcio-tools is missing."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed: pip install 'lucky-transport[dev]'")
    folder = shared_folder(factory) / "weather"
    build_once(folder, lambda: _make(folder))
    return WeatherPrograms(folder)


def _make(folder: Path) -> None:
    making = folder.with_name("weather.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    for name in _OF_A_TEAM:
        shutil.copy(_HERE / name, making)
    known = importlib.resources.files("grpc_tools") / "_proto"
    outputs = ["--python_out=.", "--grpc_python_out=.", "--include_imports", "--descriptor_set_out=weather.binpb"]
    command = [sys.executable, "-m", "grpc_tools.protoc", "--proto_path=.", f"--proto_path={known}", *outputs]
    subprocess.run([*command, "weather.proto"], cwd=making, check=True)
    making.rename(folder)
