"""Agents of an engine with parts: a Step carries one row of numbers, so it is refused by what it lacks."""

from __future__ import annotations

from lucky_transport.api import make_engine
from lucky_transport.host.host import Host
from lucky_transport.inproc import InprocTransport
from lucky_transport.messages import GetAgentSchemaRequest, StepRequest
from lucky_transport.messages.methods import method


def test_a_step_of_one_agent_is_refused_and_steps_nothing() -> None:
    with InprocTransport(Host(make_engine("toy:composite", 2))) as client:
        answer = client.call(method("AgentService/Step"), StepRequest("agent_1", [0.0] * client.spec.action.size))
        assert not answer.success
        assert answer.message.startswith("engine 'toy' has observations or actions with parts, and a Step carries one")
        assert answer.message.endswith("step it as a batch, which carries every part as it is")
        assert not client.call(method("AgentService/Step"), StepRequest("agent_1")).success


def test_the_other_methods_of_an_agent_answer() -> None:
    with InprocTransport(Host(make_engine("toy:composite", 2))) as client:
        schema = client.call(method("AgentService/GetAgentSchema"), GetAgentSchemaRequest("agent_1")).schema
        assert schema.agent_name == "agent_1"
