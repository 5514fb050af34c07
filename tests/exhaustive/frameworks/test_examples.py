"""The pages' examples give the same numbers over both transports, and `RecordVideo` writes films of our env."""

import importlib
from pathlib import Path
from typing import Any

import pytest

import lucky_transport
from tests.support.pages import DOCS, blocks

#: Example -> the packages it needs, and arguments that make it short.
EXAMPLES: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "train_sb3": (("stable_baselines3",), (512, 8)),
    "train_rsl_rl": (("rsl_rl",), (1, 4)),
    "train_torchrl": (("torchrl",), (2, 4)),
    "train_skrl": (("skrl",), (64, 4)),
    "evaluate_lerobot": ((), (3, 2)),
    "train_rllib": (("ray",), (1, 2)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_the_same_numbers_over_both_transports(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, arguments = EXAMPLES[name]
    for package in ("mujoco", "grpc", *packages):
        pytest.importorskip(package, reason=f"{package} is not installed")
    if packages:
        request.getfixturevalue("torch")
    monkeypatch.syspath_prepend(DOCS / "examples")
    run: Any = getattr(importlib.import_module(name), name.partition("_")[0])
    over_shm, over_grpc = (run(*arguments, transport=transport) for transport in ("shm", "grpc"))
    assert over_shm == over_grpc
    assert len(over_shm) >= 2
    assert len(set(over_shm)) > 1


def test_the_page_on_rsl_rl_shows_the_config_that_its_example_runs_with() -> None:
    example = (DOCS / "examples/train_rsl_rl.py").read_text()
    config = example[example.index("NETWORK = ") : example.index("def train(")].strip()
    assert config in (DOCS / "how-to/training-libraries.md").read_text()


def test_the_training_of_the_readme_ends_alike_over_every_transport(
    torch: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("mujoco", "grpc", "rsl_rl"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.syspath_prepend(DOCS / "examples")
    walk = importlib.import_module("walk")
    assert walk.compare(1, 4, 0, 20)
    printed = capsys.readouterr().out
    assert "EQUAL over grpc, shm, inproc" in printed
    assert printed.count("times what standing still earns") == 3
    seeds = iter((0, 0, 1))
    monkeypatch.setattr(walk, "train", lambda *_, transport: [float(next(seeds))] * 20)
    assert not walk.compare(1, 4, 0, 20)
    assert "DIFFERENT" in capsys.readouterr().out


def test_the_example_of_the_guide_writes_a_film(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    moviepy = pytest.importorskip("moviepy", reason="MoviePy is not installed: pip install moviepy")
    guide = blocks(DOCS / "how-to" / "images.md", "python")
    (example,) = (block.text for block in guide if "RecordVideo" in block.text)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"lucky_transport": lucky_transport}
    exec(example.replace("100", "10").replace("101", "12"), namespace)
    (film,) = (tmp_path / "films").glob("*.mp4")
    clip = moviepy.VideoFileClip(str(film))
    assert clip.size == [640, 480]  # the images of four envs
    assert clip.fps == 50
    assert clip.n_frames >= 10
    assert clip.get_frame(0).std() > 10  # it shows something
    clip.close()
