"""`VectorEnv.render` and `VectorEnv.client`: what they give, and what is refused."""

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from lucky_transport import api
from lucky_transport.client import Client
from lucky_transport.env.vector_env import VectorEnv
from lucky_transport.errors import ClosedError, ConfigError, SpecError, TransportError, Unimplemented, UnknownName
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import ImageFrame, ListCamerasResponse
from lucky_transport.process import unique_name
from lucky_transport.testing.images_contract import ImageEngine, pixels
from lucky_transport.transport import Capabilities

pytestmark = pytest.mark.usefixtures("forked_engines")


def _env(engine: ImageEngine | None = None, **arguments: Any) -> VectorEnv:
    return VectorEnv(InprocTransport(Host(engine or ImageEngine())), **arguments)


def test_an_image_is_what_gymnasium_wants_of_it() -> None:
    with _env(ImageEngine(3, width=6, height=4), render_mode="rgb_array") as env:
        env.reset(seed=0)
        images = env.render()
    assert (env.render_mode, env.metadata["render_modes"]) == ("rgb_array", ["rgb_array"])
    assert type(images) is tuple
    for index, image in enumerate(images):
        assert (image.dtype, image.shape) == (np.uint8, (4, 6, 3))
        assert image.tobytes() == pixels(index, 6, 4)[:, :, :3].tobytes()
        image[:] = 0  # it is the caller's


def test_one_env_has_the_camera_under_its_plain_name() -> None:
    with _env(ImageEngine(1), render_mode="rgb_array", camera="lens", render_size=(1, 1)) as env:
        env.reset()
        (image,) = env.render()
    assert image.tobytes() == pixels(0, 1, 1)[:, :, :3].tobytes()


def test_without_a_render_mode_it_warns_and_gives_nothing() -> None:
    with _env() as env:
        assert (env.render_mode, env.metadata["render_modes"]) == (None, ["rgb_array"])
        for render in (env.render, lambda: env.call("render")):
            with pytest.warns(UserWarning, match=r"pass make\(..., render_mode='rgb_array'\)"):
                assert render() == (None, None)


def test_where_nobody_knows_of_a_camera_it_warns_of_both() -> None:
    endpoint = f"shm://{unique_name()}"
    with api.serve(ImageEngine(), endpoint), api.make(endpoint=endpoint) as env:
        assert env.metadata["render_modes"] == []
        with pytest.warns(UserWarning, match=r"pass make\(..., render_mode='rgb_array'\).* is not carried"):
            assert env.render() == (None, None)


def test_a_pickled_env_renders_again() -> None:
    endpoint = f"inproc://{unique_name()}"
    with api.serve(ImageEngine(2), endpoint):
        env = api.make(endpoint=endpoint, render_mode="rgb_array", camera="lens", render_size=(3, 2))
        packed = pickle.dumps(env)
        env.close()
        with pickle.loads(packed) as again:
            assert [image.shape for image in again.render()] == [(2, 3, 3)] * 2


@pytest.mark.parametrize(("transport", "text"), [("inproc", "has no camera"), ("shm", "does not answer ListCameras")])
def test_an_engine_without_a_camera_is_refused_when_the_env_is_made(transport: str, text: str) -> None:
    with pytest.raises(Unimplemented, match=f"render_mode 'rgb_array': engine 'toy' {text}") as refused:
        api.make("toy", transport=transport, render_mode="rgb_array")
    assert refused.value.hint.startswith("leave render_mode out")
    with api.make("toy", transport=transport) as env:
        assert env.metadata["render_modes"] == []


def test_a_transport_without_streams_is_refused_when_the_env_is_made() -> None:
    transport = InprocTransport(Host(ImageEngine()))
    transport.capabilities = Capabilities(streams=False)
    with transport, pytest.raises(Unimplemented, match="transport 'inproc' carries no streams"):
        VectorEnv(transport, render_mode="rgb_array")


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"render_mode": "human"}, ConfigError, "render_mode 'human': expected 'rgb_array' or None"),
        ({"render_mode": "rgb_array", "camera": "lense"}, UnknownName, "no camera 'lense'.*did you mean 'lens'"),
        ({"camera": "lens"}, ConfigError, "camera='lens', render_size=None without a render mode"),
        ({"render_mode": "rgb_array", "render_size": (0, 5)}, ConfigError, r"render_size \(0, 5\): expected"),
        ({"render_mode": "rgb_array", "render_size": 320}, ConfigError, "render_size 320: expected"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], kind: type[TransportError], text: str) -> None:
    with pytest.raises(kind, match=text):
        _env(**arguments)


LISTING = "/hazel.rpc.CameraService/ListCameras"


@pytest.mark.parametrize(
    ("listing", "text"),
    [
        ({}, f"does not answer {LISTING.rpartition('/')[2]}, by which its cameras"),
        ({LISTING: lambda _: ListCamerasResponse()}, "has no camera"),
    ],
    ids=["not answered", "empty"],
)
def test_an_engine_whose_cameras_are_not_listed_is_refused(
    listing: Mapping[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {name: handler for name, handler in ImageEngine().services.items() if name != LISTING}
    monkeypatch.setattr(ImageEngine, "services", {**others, **listing})
    with pytest.raises(Unimplemented, match=text):
        _env(render_mode="rgb_array")


def test_images_without_colour_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    depth = ImageFrame(bytes(8), 2, 2, 1, "raw", depth_scale=0.5)
    streams = {"/hazel.rpc.CameraService/StreamCamera": lambda request, call: iter([depth])}
    monkeypatch.setattr(ImageEngine, "streams", streams)
    with _env(render_mode="rgb_array") as env, pytest.raises(SpecError, match="expected colour"):
        env.render()


# --- client ---


def test_the_client_is_the_one_that_connect_gives() -> None:
    with _env() as env:
        assert type(env.client) is Client
        assert env.client is env.client
        assert env.client.transport is env.transport
        assert [camera.name for camera in env.client.camera.list().cameras] == ["lens"]
        env.reset(seed=0)
        env.step(np.zeros((2, 2), np.float32))


def test_a_call_after_the_env_was_closed_says_so() -> None:
    with api.make("toy", transport="shm") as env:
        client = env.client
        assert client.agent.get_schema().schema is not None
    with pytest.raises(ClosedError):
        client.agent.get_schema()


def test_closing_the_client_closes_the_env() -> None:
    with api.make("toy", transport="shm") as env:
        env.reset(seed=0)
        env.client.close()
        with pytest.raises(ClosedError):
            env.step(env.action_space.sample())
