"""Prometheus sees what became of calls, where somebody asks for it."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lucky_transport.version import install_command
from lucky_transport_migration.evidence import metrics
from lucky_transport_migration.evidence.metrics import Metrics
from lucky_transport_migration.evidence.outcome import Comparison
from tests.support.fixtures.migration_evidence import JOINTS, OTHER_JOINTS, READ
from tests.support.waiting import PATIENCE_S

Both = Callable[..., Comparison]


def test_metrics_count_calls_verdicts_durations_and_demotions(project: Any, both: Both) -> None:
    registry = CollectorRegistry()
    policy = project.policy(metrics=Metrics(registry))
    policy.note(both([JOINTS], [JOINTS]))
    policy.note(both([JOINTS], [OTHER_JOINTS]))
    policy.close()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"method": READ, **labels})

    compared = {"stage": "shadow", "verdict": "different", "aspect": "item"}
    assert value("lucky_transport_calls_total", stage="shadow", transport="grpc", code="OK") == 2
    assert value("lucky_transport_compared_total", **compared) == 1
    assert value("lucky_transport_call_seconds_count", transport="shm", role="shadow") == 2
    assert value("lucky_transport_call_seconds_sum", transport="shm", role="shadow") == pytest.approx(2e-4)
    assert value("lucky_transport_demotions_total", to="grpc") == 1


def test_metrics_are_served_where_a_port_is_given(
    project: Any, both: Both, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    start = metrics.start_http_server
    monkeypatch.setattr(metrics, "start_http_server", lambda *args, **named: started.append(start(*args, **named)))
    project.write(rest=f"metrics_port = {unused_port}")
    policy = project.policy(metrics=None)
    again = project.policy(metrics=None)
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    again.close()
    assert project.told[0].startswith("1 of 1 call of 1 method")
    ((server, thread),) = started
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{unused_port}/metrics", timeout=10) as page:
            text = page.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)
    assert f'lucky_transport_compared_total{{aspect="",method="{READ}",stage="shadow",verdict="equal"}} 1.0' in text


def test_a_port_that_is_taken_is_said_and_the_policy_works(project: Any, both: Both, taken_port: int) -> None:
    project.write(rest=f"metrics_port = {taken_port}")
    policy = project.policy(metrics=None)
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    assert project.told[0].startswith(f"no metrics at port {taken_port}: ")
    assert len(project.evidence) == 1


def test_without_prometheus_client_nothing_is_counted_and_only_a_port_makes_that_worth_saying(
    project: Any, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, metrics.__name__)
    project.policy(metrics=None).close()
    assert project.told == []
    project.write(rest="metrics_port = 9")
    policy = project.policy(metrics=None)
    policy.note(both([JOINTS], [JOINTS]))
    policy.close()
    assert project.told[0].startswith("no metrics at port 9: ")
    assert project.told[0].endswith(install_command("metrics"))
    assert len(project.evidence) == 1
