"""What ends a wait for an engine that lives and does not answer: a deadline, which a stream has where one is given."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lucky_transport import api
from lucky_transport.engines.toy import ToyEngine
from lucky_transport.errors import PeerTimeout
from lucky_transport.messages import ImageFrame
from lucky_transport.process import unique_name
from tests.support.waiting import PATIENCE_S

SCENE = "/hazel.rpc.SceneService/GetSceneInfo"
CAMERA = "/hazel.rpc.CameraService/StreamCamera"


class Silent(ToyEngine):
    """Neither its answer nor the first image of its stream comes before `release`."""

    def __init__(self) -> None:
        super().__init__(1)
        self.release = threading.Event()

    @property
    def services(self) -> Any:
        def answer(request: Any) -> Any:
            self.release.wait(PATIENCE_S)
            return super(Silent, self).services[SCENE](request)

        return {**super().services, SCENE: answer}

    @property
    def streams(self) -> Any:
        def images(request: Any, call: Any) -> Iterator[ImageFrame]:
            self.release.wait(PATIENCE_S)
            yield ImageFrame(b"", 1, 1, 4, request.name, frame_number=7)

        return {**super().streams, CAMERA: images}


@pytest.mark.parametrize("scheme", ["shm", "grpc"])
def test_a_call_ends_by_the_setting_and_a_stream_without_a_deadline_waits_on(scheme: str) -> None:
    if scheme == "grpc":
        pytest.importorskip("grpc")
    engine = Silent()
    place = "127.0.0.1:0" if scheme == "grpc" else unique_name()
    with (
        api.serve(engine, f"{scheme}://{place}") as serving,
        api.connect(str(serving.endpoints[0]), command_timeout_s=0.2) as client,
    ):
        waiting = client.camera.stream("one")
        limited = client.camera.stream("other", timeout_s=0.2)
        with pytest.raises(PeerTimeout):
            client.scene.get_scene_info()
        with pytest.raises(PeerTimeout):
            next(limited)
        engine.release.set()
        assert next(waiting).frame_number == 7
