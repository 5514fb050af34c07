"""Limits that a page names are those in force."""

from __future__ import annotations

import importlib
from operator import attrgetter
from typing import Any

import pytest

from tests.support.pages import ROOT

#: Page, module, name of the limit there, and the sentence that says it.
LIMITS = [
    ("docs/reference/limits.md", "lucky_transport.shm.listener.listener", "MAX_CLIENTS", "takes {:,} clients at once"),
    ("docs/reference/limits.md", "lucky_transport.rpc.server", "MAX_CALLS", "while {:,} others of its connection"),
    (
        "docs/reference/limits.md",
        "lucky_transport_stubs.aio.subchannel",
        "MOST_CALLS",
        "another connection for calls beyond {}",
    ),
    (
        "plugins/lucky_transport_stubs/README.md",
        "lucky_transport.rpc.server",
        "MAX_CALLS",
        "takes {:,} calls at a time",
    ),
    ("docs/how-to/typed-calls.md", "lucky_transport.deadline", "NOTICE_AFTER_S", "more than {:g} s for an engine"),
    ("docs/how-to/sessions.md", "lucky_transport.sessions.session", "SessionLimits.sessions", "holds up to {:,} ind"),
    ("docs/how-to/sessions.md", "lucky_transport.sessions.session", "SessionLimits.idle_s", "it was idle for {:g} s"),
    ("docs/how-to/sessions.md", "lucky_transport.sessions.batch_advance", "MAX_IN_FLIGHT", "sends up to {} requests"),
    ("docs/how-to/top.md", "lucky_transport_migration.top.activity", "_HUNG_S", "not looked at its segment for {:g} s"),
    (
        "plugins/lucky_transport_grpc/README.md",
        "lucky_transport.host.driver_lease",
        "IDLE_S",
        "none has called for {:g} s",
    ),
    (
        "plugins/lucky_transport_grpc/README.md",
        "lucky_transport_grpc.typed_service",
        "MAX_STREAMS",
        "A server serves {} of",
    ),
    ("plugins/lucky_transport_grpc/README.md", "lucky_transport_grpc.streams", "KEPT", "it keeps the {} newest items"),
    ("plugins/lucky_transport_grpc/README.md", "lucky_transport_grpc.metadata", "WINDOW", "N is at most {}, because"),
    (
        "plugins/lucky_transport_stubs/README.md",
        "lucky_transport_stubs.words.metadata",
        "_MOST_BYTES",
        "has {:,} bytes at most",
    ),
    (
        "docs/how-to/migrate.md",
        "lucky_transport_migration.routing.router",
        "_THREADS",
        "At most {} shadows run at once",
    ),
    ("docs/how-to/migrate.md", "lucky_transport_migration.routing.router", "_ROOM", "there is room for {} in all"),
    (
        "docs/reference/evidence.md",
        "lucky_transport_migration.evidence.evidence_queue",
        "_ROOM",
        "At most {:,} calls and",
    ),
    (
        "docs/how-to/record-and-replay.md",
        "lucky_transport_migration.recording.entries",
        "KEPT_ITEMS",
        "Of a stream the first {} items",
    ),
]


@pytest.mark.parametrize(
    ("page", "module", "name", "sentence"), LIMITS, ids=[f"{at}-{name}" for at, _, name, _ in LIMITS]
)
def test_a_page_names_the_limit_that_is_in_force(page: str, module: str, name: str, sentence: str) -> None:
    if "grpc" in module or "stubs" in module:
        pytest.importorskip("grpc")
    owner, _, field = name.rpartition(".")
    holder: Any = importlib.import_module(module)
    limit = getattr(attrgetter(owner)(holder)() if owner else holder, field)
    assert sentence.format(limit) in " ".join((ROOT / page).read_text(encoding="utf-8").split())
