"""Evidence as Prometheus metrics, in the process's own registry: what scrapes the program sees them too.

    lucky_transport_calls_total          method, stage, transport, code         what callers got
    lucky_transport_compared_total       method, stage, verdict, aspect         what came of it
    lucky_transport_call_seconds         method, transport, role                durations; role: authority or shadow
    lucky_transport_demotions_total      method, to

Nothing listens unless a port is asked for, and then on this machine only.
"""

from __future__ import annotations

from functools import cache, partial

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, start_http_server

from lucky_transport_migration.evidence.record import Evidence, SideResult

_BUCKETS_S = (2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.5, 1, 5, 10)


class Metrics:
    """The metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "lucky_transport_calls", "calls", ["method", "stage", "transport", "code"], registry=registry
        )
        self._compared = Counter(
            "lucky_transport_compared", "comparisons", ["method", "stage", "verdict", "aspect"], registry=registry
        )
        self._seconds = Histogram(
            "lucky_transport_call_seconds",
            "durations",
            ["method", "transport", "role"],
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._demotions = Counter("lucky_transport_demotions", "demotions", ["method", "to"], registry=registry)

    def add(self, one: Evidence) -> None:
        """Count a call."""
        self._calls.labels(one.method, one.stage, one.primary.transport, one.primary.code).inc()
        self._compared.labels(one.method, one.stage, one.verdict, one.aspect).inc()
        self._observe(one.method, one.primary, "authority")
        if one.shadow is not None:
            self._observe(one.method, one.shadow, "shadow")

    def add_demotion(self, method: str, to: str) -> None:
        """Count a demotion."""
        self._demotions.labels(method, to).inc()

    def _observe(self, method: str, side: SideResult, role: str) -> None:
        self._seconds.labels(method, side.transport, role).observe(side.us / 1e6)


def open_metrics(port: int) -> Metrics:
    """Return the metrics of the process's own registry, served at 127.0.0.1 unless `port` is 0.

    Raises OSError when the port is taken.
    """
    if port:
        _serve(port)
    return _shared()


_serve = cache(lambda port: start_http_server(port, addr="127.0.0.1"))
_shared = cache(partial(Metrics, REGISTRY))
