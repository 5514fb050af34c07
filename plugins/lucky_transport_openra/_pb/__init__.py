"""The protobuf messages of `rl_bridge.proto`, in a descriptor pool of their own.

Nothing here touches protobuf's default pool, where OpenRA-RL's own generated code registers the same names. No
generated Python, so no version of a generator has to match the installed protobuf.
"""

from __future__ import annotations

from importlib import resources

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "openra.rl."


def _load() -> DescriptorPool:
    pool = DescriptorPool()
    committed = resources.files(__name__) / "descriptors.binpb"
    for file in FileDescriptorSet.FromString(committed.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_pool = _load()


def _message(name: str) -> type[Message]:
    return GetMessageClass(_pool.FindMessageTypeByName(_PACKAGE + name))


#: The service, with its methods and their messages.
SERVICE = _pool.FindServiceByName(_PACKAGE + "RLBridge")

AgentAction = _message("AgentAction")
Command = _message("Command")
CreateSessionRequest = _message("CreateSessionRequest")
CreateSessionResponse = _message("CreateSessionResponse")
DestroySessionRequest = _message("DestroySessionRequest")
DestroySessionResponse = _message("DestroySessionResponse")
FastAdvanceRequest = _message("FastAdvanceRequest")
GameObservation = _message("GameObservation")
GameState = _message("GameState")
StateRequest = _message("StateRequest")
