"""What services and methods are called in Python.

    hazel.rpc.MujocoSceneService    client.mujoco_scene
    CameraService/StreamCamera      camera.stream_camera   camera.stream
    CameraService/ListCameras       camera.list_cameras    camera.list
    SceneService/ListEntities       scene.list_entities

Rule 1: every method has its long name, the method's own in snake_case.
Rule 2: its short name is the long one without the words of the service's name, singular or plural. Where nothing would
        be left of it, or two methods of a service would share it, there is only the long name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from keyword import iskeyword

from lucky_transport.messages.methods import METHODS, Method

__all__ = ["SERVICES", "names_of", "service_name", "services_of"]


def service_name(method: Method) -> str:
    """Return the attribute of the client that holds the method: "hazel.rpc.MujocoSceneService" -> "mujoco_scene"."""
    word = method.service.rpartition(".")[2].removesuffix("Service")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", word).lower()


def names_of(methods: Iterable[Method]) -> dict[str, Method]:
    """Return the methods of one service by all their names, the preferred name of each before its long one."""
    rows = list(methods)
    taken = Counter(row.python_name for row in rows)
    taken.update(short for row in rows if (short := _without_service(row)) != row.python_name)
    named: dict[str, Method] = {}
    for row in rows:
        short = _without_service(row)
        if taken[short] == 1 and not iskeyword(short):
            named[short] = row
        named[row.python_name] = row
    return named


def _without_service(method: Method) -> str:
    words = service_name(method).split("_")
    left_out = {*words, *(f"{word}s" for word in words)}
    return "_".join(word for word in method.python_name.split("_") if word not in left_out) or method.python_name


def services_of(methods: Iterable[Method]) -> Mapping[str, Mapping[str, Method]]:
    """Return attribute of the client -> name -> method, in the order of the table."""
    groups: dict[str, list[Method]] = {}
    for row in methods:
        groups.setdefault(service_name(row), []).append(row)
    return {attribute: names_of(rows) for attribute, rows in groups.items()}


#: All services: attribute of the client -> name -> method.
SERVICES: Mapping[str, Mapping[str, Method]] = services_of(METHODS)
