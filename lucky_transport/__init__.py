"""Move a training stack off gRPC: one env API over interchangeable transports.

    env = lucky_transport.make("mujoco:quadruped", num_envs=16)      # LUCKY_TRANSPORT=grpc|shm|inproc|auto
    client = lucky_transport.connect("shm://lucky_demo")             # typed service calls
    async with lucky_transport.connect_async("shm://lucky_demo") as client: ...   # the same for asyncio
    with lucky_transport.serve("toy", "shm://lucky_demo"): ...       # the engine's side
    env = lucky_transport.LuckyEnv(robot="quadruped")                # luckyrobots' own, over any transport
    array = lucky_transport.image_array(frame)                       # an image as a NumPy array
    @lucky_transport.inline                                          # a fast gRPC handler: no change of threads

What is not passed comes from `LUCKY_*` variables, lucky_transport.toml or the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lucky_transport.env import registration
from lucky_transport.errors import TransportError

if TYPE_CHECKING:
    from lucky_transport.api import connect, connect_async, make, serve
    from lucky_transport.handler_options import inline
    from lucky_transport.lucky_env import LuckyEnv
    from lucky_transport.messages.images import image_array

__all__ = ["LuckyEnv", "TransportError", "connect", "connect_async", "image_array", "inline", "make", "serve"]

registration.install()


def __getattr__(name: str) -> Any:
    """Load the API at its first use, so that `import lucky_transport` and the command line's help stay fast."""
    if name in ("connect", "connect_async", "make", "serve"):
        from lucky_transport import api

        return getattr(api, name)
    if name == "image_array":
        from lucky_transport.messages.images import image_array

        return image_array
    if name == "LuckyEnv":
        from lucky_transport.lucky_env import LuckyEnv

        return LuckyEnv
    if name == "inline":
        from lucky_transport.handler_options import inline

        return inline
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
