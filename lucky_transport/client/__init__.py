"""Typed service clients over any transport, derived from the table of methods.

    client = lucky_transport.connect("shm://lucky_demo")
    client.scene.list_entities(include_transforms=True).entities
    for frame in client.camera.stream("front", fps=30): ...

    async with lucky_transport.connect_async("shm://lucky_demo") as client:
        await client.scene.list_entities(include_transforms=True)

The functions are made from the table of methods; `typed.pyi` shows them to editors and type checkers.
"""

from __future__ import annotations

from lucky_transport.client.client import AsyncClient, Client
from lucky_transport.client.service import AsyncService, Service

__all__ = ["AsyncClient", "AsyncService", "Client", "Service"]
