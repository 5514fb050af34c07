"""Registers the planted transport for the tests of this folder; proofs of the desk."""

import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.planted import tools


@pytest.fixture(scope="module", autouse=True)
def registered(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch, tools.site(tmp_path_factory.mktemp("site"), patch):
        tools.engines_in_this_process(patch)
        yield


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The desk's descriptor set."""
    pytest.importorskip("grpc_tools")
    file = tmp_path_factory.mktemp("desk") / "desk.binpb"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--include_imports", f"--descriptor_set_out={file}"]
    subprocess.run([*command, "desk.proto"], cwd=Path(__file__).parent, check=True)
    return file


@pytest.fixture
def prove(described: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Proves the desk, in whose calls a plant or an answer is put."""
    from lucky_transport_migration.parity import service_pair
    from lucky_transport_migration.parity.service_proof import ServiceProof
    from lucky_transport_migration.parity.service_servers import ServerCommand
    from tests.planted.desk import Answer, Desk, Plant

    monkeypatch.setattr(service_pair, "RunningServer", Desk)
    monkeypatch.setattr(service_pair, "_REST_S", 0.0)

    def prove(plant: Plant = Desk.plant, method: str = "Desk/*", answer: Answer = Desk.answer, **given: Any) -> Any:
        monkeypatch.setattr(Desk, "plant", staticmethod(plant))
        monkeypatch.setattr(Desk, "answer", staticmethod(answer))
        command = ServerCommand("x {port}", metadata=given.pop("metadata", ()))
        return ServiceProof(command, [described], pattern=method, **given).prove()

    return prove
