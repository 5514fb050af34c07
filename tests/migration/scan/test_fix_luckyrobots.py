"""LuckyEnv and LuckyEngineClient of luckyrobots become ours, where that is mechanical."""

from typing import Any

import pytest

import lucky_transport
from lucky_transport.process import unique_name
from lucky_transport_migration.scan.changes import rewrite_python


def rewritten(source: str, endpoint: str | None = None) -> str:
    after, refused = rewrite_python(source.encode(), endpoint)
    assert refused == []
    assert rewrite_python(after, endpoint)[0] == after, "a second time changes nothing"
    return after.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from luckyrobots import LuckyEnv\nLuckyEnv(robot='a', host='127.0.0.1', port=50051)\n",
         "from lucky_transport import LuckyEnv\nLuckyEnv(robot='a')\n"),
        ("from luckyrobots.lucky_env import LuckyEnv as Env  # env\nEnv('a', port=50051, timeout=1)\n",
         "from lucky_transport import LuckyEnv as Env  # env\nEnv('a', timeout=1)\n"),
        ("import luckyrobots\ndef f() -> luckyrobots.LuckyEnv:\n    return luckyrobots.LuckyEnv()\n",
         "from lucky_transport import LuckyEnv\ndef f() -> LuckyEnv:\n    return LuckyEnv()\n"),
        ("from luckyrobots import (\n    FPS,\n    LuckyEnv,\n)\nLuckyEnv()\n",
         "from luckyrobots import (\n    FPS,\n)\nfrom lucky_transport import LuckyEnv\nLuckyEnv()\n"),
        ("def f():\n    from luckyrobots import LuckyEnv\n    LuckyEnv(\n        robot='a', port=50051,\n    )\n",
         "def f():\n    from lucky_transport import LuckyEnv\n    LuckyEnv(\n        robot='a',\n    )\n"),
    ],
)  # fmt: skip
def test_an_env_is_taken_from_lucky_transport_without_grpcs_address(before: str, after: str) -> None:
    assert rewritten(before) == after


def test_an_env_gets_the_endpoint_that_was_given() -> None:
    source = "from luckyrobots import LuckyEnv\nLuckyEnv(\n    robot='a',\n    port=50051,\n)\nLuckyEnv()\n"
    assert rewritten(source, "shm://a") == (
        "from lucky_transport import LuckyEnv\nLuckyEnv(\n    robot='a',\n    endpoint=\"shm://a\",\n)\n"
        'LuckyEnv(endpoint="shm://a")\n'
    )


def test_an_endpoint_stands_in_a_line_of_its_own_where_the_others_do() -> None:
    source = "from luckyrobots import LuckyEnv\nLuckyEnv(\n    robot='a',\n    port=50051,\n    timeout=2.0,\n)\n"
    assert rewritten(source, "shm://a") == (
        "from lucky_transport import LuckyEnv\n"
        "LuckyEnv(\n    robot='a',\n    timeout=2.0,\n    endpoint=\"shm://a\",\n)\n"
    )


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("LuckyEnv(**options)", "pass them by name"),
        ("LuckyEnv('a', 'b', None, None, None, None, 'host')", "pass them by name"),
        ("class Mine(LuckyEnv): ...", "derives from LuckyEnv"),
        ("make = partial(LuckyEnv, robot='a')", "passed on as a value"),
        ("envs = list(map(LuckyEnv, robots))", "passed on as a value"),
        ("LuckyEnv()._client.get_mujoco_info()", "connect() has its calls"),
    ],
)
def test_an_env_whose_use_is_not_mechanical_is_left(use: str, why: str) -> None:
    source = f"from luckyrobots import LuckyEnv\n{use}\n"
    after, refused = rewrite_python(source.encode(), None)
    assert after.decode() == source
    assert [(line, why in text) for line, text in refused] == [(2, True)]


CLIENT = """
from luckyrobots import LuckyEngineClient

def main():
    client = LuckyEngineClient(host="localhost", port=50051, timeout=5.0)
    client.connect()
    client.wait_for_server(timeout=3)
    found = [
        client.get_agent_schema("agent_0", 2.0).schema.action_size,
        client.reset_agent(agent_name="agent_0", timeout=2.0).success,
        client.set_simulation_mode().success,
        len(client.get_joint_state("agent_0").state.positions),
    ]
    for frame in client.stream_telemetry():
        found.append(len(frame.observation_qpos))
        break
    client.close()
    return found
"""


def test_a_client_becomes_a_typed_one() -> None:
    assert rewritten(CLIENT, "shm://a") == (
        "\nimport lucky_transport\n\ndef main():\n"
        '    client = lucky_transport.connect("shm://a", command_timeout_s=5.0)\n'
        "    found = [\n"
        '        client.agent.get_schema("agent_0", timeout_s=2.0).schema.action_size,\n'
        '        client.agent.reset(agent_name="agent_0", timeout_s=2.0).success,\n'
        '        client.scene.set_simulation_mode(mode="fast").success,\n'
        '        len(client.mujoco.get_joint_state("agent_0").state.positions),\n'
        "    ]\n"
        "    for frame in client.telemetry.stream(target_fps=30):\n"
        "        found.append(len(frame.observation_qpos))\n        break\n    client.close()\n    return found\n"
    )


def test_every_rewritten_call_is_one_that_the_typed_client_has() -> None:
    pytest.importorskip("mujoco")
    program: dict[str, Any] = {}
    name = unique_name()
    source = CLIENT.replace("    client.close()", "    client.get_mujoco_info('agent_0')\n    client.get_model_info()\n"
                            "    client.reset_scene(True)\n    client.enter_play_mode()\n    client.exit_play_mode()\n"
                            "    client.close()")  # fmt: skip
    exec(compile(rewritten(source, f"inproc://{name}"), "program.py", "exec"), program)
    with lucky_transport.serve("mujoco:quadruped", f"inproc://{name}"):
        action_size, reset, mode, *_ = program["main"]()
    assert (action_size, reset, mode) == (12, True, True)


@pytest.mark.parametrize(
    "line",
    [
        *("class Mine(LuckyEngineClient): ...", "C = LuckyEngineClient", "f(LuckyEngineClient)"),
        *("self.client = LuckyEngineClient()", "use(LuckyEngineClient())", "c = LuckyEngineClient(robot_name='a')"),
        "client.step(actions=[0.0])",
        "keep(client)",
        "ok = client.wait_for_server()",
        "client.reset_agent(randomization_cfg=c)",
        "client.get_agent_schema(*a)",
        "client = None",
    ],
)
def test_a_client_that_cannot_be_followed_or_has_a_use_that_answers_otherwise_is_left_as_a_whole(line: str) -> None:
    made = "" if "LuckyEngineClient" in line else "client = LuckyEngineClient()\nclient.connect()\n"
    source = f"from luckyrobots import LuckyEngineClient\n{made}{line}\n"
    after, refused = rewrite_python(source.encode(), None)
    assert after.decode() == source
    assert len(refused) == 1
    assert made or refused[0][0] == 2


def test_an_env_that_only_types_name_is_rewritten() -> None:
    use = "def f(env: LuckyEnv | None, all: list[LuckyEnv]): return isinstance(env, LuckyEnv)\n"
    assert rewritten(f"from luckyrobots import LuckyEnv\n{use}") == f"from lucky_transport import LuckyEnv\n{use}"


def test_an_import_in_the_line_of_its_block_is_left_with_the_reason() -> None:
    source = b"if 1: import grpc; from luckyrobots import LuckyEnv as E\nE()\n"
    after, refused = rewrite_python(source, "shm://demo")
    assert after == source
    assert [(line, "line of its own" in why) for line, why in refused] == [(1, True)]
