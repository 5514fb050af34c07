"""OpenTelemetry spans and metrics of typed calls, streams and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lucky_transport_opentelemetry.interceptor import OpenTelemetryInterceptor

__all__ = ["OpenTelemetryInterceptor"]


def __getattr__(name: str) -> Any:
    """Import what is asked for: what this package offers is known without OpenTelemetry."""
    if name == "OpenTelemetryInterceptor":
        from lucky_transport_opentelemetry.interceptor import OpenTelemetryInterceptor

        return OpenTelemetryInterceptor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
