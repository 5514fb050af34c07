"""What an endpoint of ray says; these tests need no Ray."""

import pytest

from lucky_transport import api
from lucky_transport.endpoint import Endpoint
from lucky_transport.errors import ConfigError, Unimplemented
from lucky_transport_ray.options import RayOptions, ray_options


def test_an_endpoint_names_the_cluster_the_engine_and_the_shares() -> None:
    text = 'ray://10.0.0.1:6379?engine=toy:composite&actors=2&num_envs=8&seed=7&options={"a":[1]}&cpus=0.5&restarts=0'
    assert ray_options(Endpoint.parse(text)) == RayOptions(
        "toy:composite", "10.0.0.1:6379", 2, 8, 7, {"a": [1]}, cpus=0.5, restarts=0
    )
    assert ray_options(Endpoint.parse("ray:?engine=toy")) == RayOptions("toy")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "names no engine; write ray:"),
        ("engine=toy&actor=2", "unknown option 'actor'; did you mean 'actors'"),
        ("engine=toy&actors=0", "actors=0; expected a number of actors, at least 1"),
        ("engine=toy&actors=3&num_envs=2", "3 actors for 2 envs"),
        ("engine=toy&options=3", "expected a JSON object"),
        ("engine=toy&placement=moon", "expected one of spread, pack, strict"),
    ],
)
def test_what_makes_no_sense_is_told_with_the_remedy(query: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ray_options(Endpoint.parse(f"ray:?{query}" if query else "ray:"))


def test_make_without_an_endpoint_says_which_one_to_write() -> None:
    with pytest.raises(ConfigError, match=r"pass make\(endpoint='ray:\?engine=\.\.\.'\)"):
        api.make("toy", transport="ray")


def test_it_cannot_be_served() -> None:
    with pytest.raises(Unimplemented, match="'ray' has no server; a client starts its engines itself"):
        api.serve("toy", "ray:?engine=toy")
