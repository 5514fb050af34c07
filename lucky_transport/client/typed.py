"""The classes of the services, one per service and kind: `client.mujoco_scene` is a `MujocoSceneService`.

Editors and type checkers read typed.pyi, which is generated from the same table of methods.
"""

from __future__ import annotations

from typing import Any

from lucky_transport.client.service import SERVICES, AsyncLink, AsyncService, Service
from lucky_transport.transport import Transport


def _classes(base: type[Any], prefix: str) -> dict[str, type[Any]]:
    """Return the class of each service, by its attribute."""
    made: dict[str, type[Any]] = {}
    for attribute, methods in SERVICES.items():
        name = f"{prefix}{attribute.title().replace('_', '')}Service"
        service = next(iter(methods.values())).service
        space = {"__module__": __name__, "__doc__": f"The methods of {service}.", "_attribute": attribute}
        made[attribute] = type(name, (base,), space | {"_methods": methods})
    return made


_SYNC, _ASYNC = _classes(Service, ""), _classes(AsyncService, "Async")
globals().update({made.__name__: made for made in (*_SYNC.values(), *_ASYNC.values())})


class Services:
    """One attribute per service."""

    def __init__(self, transport: Transport) -> None:
        for attribute, made in _SYNC.items():
            setattr(self, attribute, made(transport))


class AsyncServices:
    """One attribute per service, for asyncio."""

    def __init__(self, link: AsyncLink) -> None:
        for attribute, made in _ASYNC.items():
            setattr(self, attribute, made(link))
