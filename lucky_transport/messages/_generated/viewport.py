"""Images of the editor's viewport, as it is shown at the engine.

Generated from proto/viewport.proto by schema/generate.py; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lucky_transport.messages.scalars import U32, no_items

__all__ = ["GetViewportInfoRequest", "GetViewportInfoResponse", "StartViewportStreamRequest", "ViewportStreamConfig"]


@dataclass(slots=True)
class StartViewportStreamRequest:
    """Asks for a viewport's images; "" means the only one.

    target_fps: images per second of wall clock, as a wish (0 = the engine's default). width, height: pixels, 0 = the
    viewport's own. format: "raw" or "jpeg"; engines always send raw.
    """

    viewport_name: str = ""
    target_fps: U32 = 0
    width: U32 = 0
    height: U32 = 0
    format: str = ""


@dataclass(slots=True)
class ViewportStreamConfig:
    """The stream as it runs now: images per second of wall clock, pixels."""

    streaming: bool = False
    viewport_name: str = ""
    fps: U32 = 0
    width: U32 = 0
    height: U32 = 0


@dataclass(slots=True)
class GetViewportInfoRequest:
    """Asks for the viewports."""


@dataclass(slots=True)
class GetViewportInfoResponse:
    """Names of the viewports, and the stream that runs now."""

    available_viewports: list[str] = field(default_factory=no_items)
    current_config: ViewportStreamConfig | None = None
