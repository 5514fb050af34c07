"""Opens `staged:`, the transport of a program whose methods move one by one.

client = lucky_transport.connect("staged:")                      # endpoints from [stages] of lucky_transport.toml
connect("staged:?control=grpc://127.0.0.1:50051&candidate=shm://demo")      # or from here
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lucky_transport import api
from lucky_transport.config import Settings
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError
from lucky_transport.transport import Transport
from lucky_transport_migration.evidence.outcome import CANDIDATE, CONTROL
from lucky_transport_migration.routing.connection import RoutedConnection
from lucky_transport_migration.routing.router import process_router
from lucky_transport_migration.routing.staged_transport import StagedTransport
from lucky_transport_migration.stages.stage_plan import StagePlan

__all__ = ["open_staged"]

#: As long as gRPC answers too, no caller shall wait long for the candidate.
_CANDIDATE_CONNECT_S = 2.0


def open_staged(endpoint: Endpoint, settings: Settings) -> StagedTransport:
    """Return a transport over both sides of the nearest file of stages, by the decisions of this process's router.

    Raises ConfigError for a wrong file or one without the endpoint that steps, and what connecting to that raises.
    """
    plan = StagePlan.load()
    control = endpoint.option("control", plan.control)
    candidate = endpoint.option("candidate", plan.candidate)
    hasty = replace(settings, connect_timeout_s=min(settings.connect_timeout_s, _CANDIDATE_CONNECT_S))
    sides = (
        RoutedConnection(CONTROL, partial(_connect, "control", control, settings, plan)),
        RoutedConnection(CANDIDATE, partial(_connect, "candidate", candidate, hasty, plan)),
    )
    return StagedTransport(*sides, process_router(), control or candidate)


def _connect(key: str, endpoint: str, settings: Settings, plan: StagePlan) -> Transport:
    if not endpoint:
        example = "grpc://127.0.0.1:50051" if key == "control" else "shm://demo"
        raise ConfigError(f"{plan.path}: [stages] has no {key}", hint=f"write there {key} = '{example}'")
    return api.open_transport(endpoint, settings)
