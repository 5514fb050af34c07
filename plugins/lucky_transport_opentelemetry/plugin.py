"""What this package contributes; imports nothing heavy."""

from __future__ import annotations

from lucky_transport.hookspecs import InterceptorInfo, hookimpl


@hookimpl
def lucky_transport_interceptors() -> list[InterceptorInfo]:
    return [
        InterceptorInfo(
            name="opentelemetry",
            factory="lucky_transport_opentelemetry.interceptor:make_interceptor",
            summary="spans and metrics of calls, streams and steps",
            variants=("metrics",),
            extra="metrics",
        )
    ]
