"""Triton's client, also for asyncio, and a fake of its service with a model that doubles what it is given."""

import asyncio
import functools
import queue
import threading
from contextlib import contextmanager

import grpc
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc as protocol
from tritonclient.grpc.auth import BasicAuth
from tritonclient.utils import InferenceServerException


class Fake(protocol.GRPCInferenceServiceServicer):
    """A request "slow" is never answered; a stream answers each request twice, and what is wrong within an answer."""

    def ServerLive(self, request, context):
        return messages.ServerLiveResponse(live=True)

    def ModelMetadata(self, request, context):
        asked = dict(context.invocation_metadata())
        return messages.ModelMetadataResponse(name=request.name, platform=asked["authorization"] + asked["trace"])

    def ModelInfer(self, request, context):
        if request.model_name != "doubler":
            context.abort(grpc.StatusCode.NOT_FOUND, f"Request for unknown model: '{request.model_name}' is not found")
        if request.id == "slow":
            left = threading.Event()
            assert context.add_callback(left.set)
            left.wait(60)
        return _doubled(request)

    def ModelStreamInfer(self, requests, context):
        for request in requests:
            if request.id == "break":
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no more")
            if request.model_name != "doubler":
                yield messages.ModelStreamInferResponse(error_message=f"no model {request.model_name}")
                continue
            for _ in range(2):
                yield messages.ModelStreamInferResponse(infer_response=_doubled(request))


def _doubled(request):
    values = np.frombuffer(request.raw_input_contents[0], np.float32)
    answer = messages.ModelInferResponse(model_name=request.model_name, id=request.id)
    answer.outputs.add(name="doubled", datatype="FP32", shape=request.inputs[0].shape)
    answer.raw_output_contents.append((values * 2).tobytes())
    return answer


def register(server):
    """Serve the fake."""
    protocol.add_GRPCInferenceServiceServicer_to_server(Fake(), server)


def _inputs(values):
    (one := triton.InferInput("given", list(values.shape), "FP32")).set_data_from_numpy(values)
    return [one]


def _told(result=None, error=None):
    if error is not None:
        return [error.status(), error.message()]
    return [result.get_response().id, result.as_numpy("doubled").tolist()]


def _stream(asking, requests):
    told = queue.Queue()
    asking.start_stream(lambda result, error: told.put(_told(result, error)), stream_timeout=30)
    for model, name in requests:
        asking.async_stream_infer(model, _inputs(np.ones(2, np.float32)), request_id=name)
    asking.stop_stream()
    return list(told.queue)


async def _ask(port):
    def infer(model, name, **options):
        return asking.infer(model, _inputs(np.ones(2, np.float32)), request_id=name, **options)

    async def requests():
        for name in ("one", "two"):
            yield {"model_name": "doubler", "inputs": _inputs(np.ones(3, np.float32)), "request_id": name}

    async with triton_aio.InferenceServerClient(f"127.0.0.1:{port}") as asking:
        many = [infer("doubler", f"{number}") for number in range(20)]
        many += [infer("none", "one"), infer("doubler", "slow", client_timeout=0.3)]
        answers = await asyncio.gather(*many, return_exceptions=True)
        told = [_told(error=one) if isinstance(one, InferenceServerException) else _told(one) for one in answers]
        return told, [_told(*one) async for one in asking.stream_infer(requests(), stream_timeout=30)]


@contextmanager
def client(port):
    """Double tensors."""
    asking = triton.InferenceServerClient(f"127.0.0.1:{port}")
    asking.register_plugin(BasicAuth("someone", "secret"))
    small, large = np.arange(8, dtype=np.float32), np.arange(1 << 18, dtype=np.float32)

    def infer(values, model="doubler", **options):
        try:
            return _told(asking.infer(model, _inputs(values), **{"client_timeout": 30} | options))
        except InferenceServerException as error:
            return _told(error=error)

    def futures():
        told = queue.Queue()
        for name in ("one", "slow", "two"):
            put = functools.partial(lambda name, result, error: told.put([name, _told(result, error)]), name)
            begun = asking.async_infer("doubler", _inputs(small), put, request_id=name)
            if name == "slow":
                begun.cancel()
        return sorted(told.get(timeout=30) for _ in range(3))

    def equal():
        return {
            "answers": [infer(small, request_id="a", compression_algorithm="gzip"), sum(infer(large)[1])],
            "errors": [infer(small, "none"), infer(small, request_id="slow", client_timeout=0.3)],
            "metadata": asking.get_model_metadata("doubler", headers={"trace": "7"}, as_json=True),
            "futures": futures(),
            "stream": _stream(asking, [("doubler", "one"), ("none", "two"), ("doubler", "three")]),
            "broken": _stream(asking, [("doubler", "one"), ("doubler", "break")]),
            "async": asyncio.run(_ask(port)),
        }

    yield equal, lambda: infer(small), lambda: infer(large)
    asking.close()
