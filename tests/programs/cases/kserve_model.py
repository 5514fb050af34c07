"""KServe's ModelServer as a program starts it, and its client of asyncio."""

import asyncio
import socket
import subprocess
import sys
from contextlib import contextmanager

import grpc
import numpy as np

_MODEL = """
import sys
from kserve import InferOutput, InferResponse, Model, ModelServer

class Doubler(Model):
    def __init__(self):
        super().__init__("doubler")
        self.ready = True

    async def predict(self, payload, headers=None, response_headers=None):
        (given,) = payload.inputs
        if given.shape[-1] == 3:
            raise ValueError("three columns")
        doubled = InferOutput("doubled", given.shape, given.datatype)
        doubled.set_data_from_numpy(given.as_numpy() * 2)
        return InferResponse(payload.id, self.name, [doubled])

ModelServer(http_port=int(sys.argv[2]), grpc_port=int(sys.argv[1])).start([Doubler()])
"""


@contextmanager
def server(port):
    """Run a ModelServer."""
    with socket.socket() as http:
        http.bind(("127.0.0.1", 0))
        command = [sys.executable, "-c", _MODEL, str(port), str(http.getsockname()[1])]
    with subprocess.Popen(command, stdout=sys.stderr) as served:
        yield
        served.kill()


@contextmanager
def client(port):
    """Double tensors."""
    from kserve import InferenceGRPCClient, InferInput, InferRequest

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    async def begin():
        asking = InferenceGRPCClient(f"127.0.0.1:{port}")
        for _ in range(600):
            try:
                if await asking.is_model_ready("doubler"):
                    return asking
            except grpc.RpcError:
                await asyncio.sleep(0.1)
        raise TimeoutError("kserve is not ready")

    asking = loop.run_until_complete(begin())

    async def double(values):
        given = InferInput("given", list(values.shape), "FP32")
        given.set_data_from_numpy(values)
        answer = await asking.infer(InferRequest("doubler", [given], request_id="one"))
        return answer.outputs[0].as_numpy()

    async def ask():
        try:
            await double(np.ones((1, 3), np.float32))
            refused = None
        except grpc.RpcError as error:
            refused = [error.code().name, error.details()]
        small = await asyncio.gather(*(double(np.full((2, 4), number, np.float32)) for number in range(10)))
        try:
            await asking.is_model_ready("none")
            missing = None
        except grpc.RpcError as error:
            missing = [error.code().name, error.details()]
        return {
            "small": [one.tolist() for one in small],
            "large": float((await double(large)).sum()),
            "refused": refused,
            "missing": missing,
            "live": await asking.is_server_live(),
        }

    large = np.arange(1 << 18, dtype=np.float32).reshape(1, -1)

    def run(function, *arguments):
        return loop.run_until_complete(function(*arguments))

    yield lambda: run(ask), lambda: run(double, np.ones((1, 4), np.float32)), lambda: run(double, large)
    run(asking.close)
