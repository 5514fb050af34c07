"""The walk of the page on routing: a call with a shadow enters each function that it names, in that order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lucky_transport_migration.routing as routing
from lucky_transport.messages import GetAgentSchemaRequest
from lucky_transport.messages.methods import method
from lucky_transport.routing import Decision
from tests.support.walks import Recorder, check_walk, walk_of, watched_threads

PAGE = Path(routing.__file__).parent / "README.md"
WALK = walk_of(PAGE, "One call with a shadow")
SCHEMA = method("AgentService/GetAgentSchema")


def test_the_walk_is_short_and_its_files_have_what_it_names() -> None:
    check_walk(PAGE, WALK)


def test_a_call_with_a_shadow_goes_the_way_that_the_page_shows(
    open_staged: Callable[..., Any], new_policy: Callable[..., Any], serve: Callable[..., str]
) -> None:
    recorder, endpoint, policy = Recorder(), serve("toy"), new_policy(Decision("grpc", "shm", "shadow"))

    def call() -> None:
        staged.call(SCHEMA, GetAgentSchemaRequest("agent_1"))
        policy.wait_for(SCHEMA.name)

    with watched_threads(recorder):
        staged = open_staged(policy, endpoint, endpoint)
        assert recorder.missing(WALK, call) is None
