"""Typed service clients over any transport, derived from the table of methods.

    client = lucky_transport.connect("shm://lucky_demo")
    client.scene.list_entities(include_transforms=True).entities
    for frame in client.camera.stream("front", fps=30): ...

    async with lucky_transport.connect_async("shm://lucky_demo") as client:
        await client.scene.list_entities(include_transforms=True)

Rule 1: nothing is written by hand per method; a row in `messages/methods.py` is a callable here. What editors and type
        checkers see is generated from the same rows: `python -m lucky_transport.client.stubs`.
Rule 2: a method's long name is its own in snake_case (`stream_camera`), its short one leaves out the words of its
        service (`camera.stream`); see `names.py`.
Rule 3: keywords are the request's fields; the first field may stand alone, and a ready request instead of all of them;
        see `arguments.py`.
"""

from __future__ import annotations

from lucky_transport.client.client import AsyncClient, Client
from lucky_transport.client.service import AsyncService, Service

__all__ = ["AsyncClient", "AsyncService", "Client", "Service"]
