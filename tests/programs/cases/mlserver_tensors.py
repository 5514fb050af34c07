"""MLServer as its command starts it, and Triton's client of the KServe V2 protocol with tensors of 1 MB."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from serving import until_listening

_MODEL = """
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

class Adder(MLModel):
    async def predict(self, payload):
        first, second = (NumpyCodec.decode_input(one) for one in payload.inputs)
        if first.shape != second.shape:
            raise ValueError(f"shapes {first.shape} and {second.shape}")
        total = NumpyCodec.encode_output("sum", first + second)
        return InferenceResponse(model_name=self.name, outputs=[total])
"""


@contextmanager
def server(port):
    """Run `mlserver start` on a folder with one model."""
    with socket.socket() as http, socket.socket() as metrics, tempfile.TemporaryDirectory() as folder:
        for free in (http, metrics):
            free.bind(("127.0.0.1", 0))
        http_port, metrics_port = http.getsockname()[1], metrics.getsockname()[1]
        http.close()
        metrics.close()
        (Path(folder) / "adder.py").write_text(_MODEL)
        settings = {"host": "127.0.0.1", "http_port": http_port, "metrics_port": metrics_port, "grpc_port": port}
        settings |= {"parallel_workers": 0, "metrics_dir": folder, "grpc_max_message_length": 64 << 20}
        (Path(folder) / "settings.json").write_text(json.dumps(settings))
        model = {"name": "adder", "implementation": "adder.Adder"}
        (Path(folder) / "model-settings.json").write_text(json.dumps(model))
        command = [str(Path(sys.executable).with_name("mlserver")), "start", folder]
        with subprocess.Popen(command, cwd=folder, stdout=sys.stderr, env=os.environ) as served:
            until_listening(http_port, served)
            yield
            served.terminate()


@contextmanager
def client(port):
    """Add tensors."""
    from tritonclient import grpc as triton
    from tritonclient.utils import InferenceServerException

    asking = triton.InferenceServerClient(f"127.0.0.1:{port}")
    for _ in range(600):
        if asking.is_model_ready("adder", client_timeout=30):
            break
        time.sleep(0.1)

    def add(first, second):
        inputs = []
        for name, values in (("first", first), ("second", second)):
            one = triton.InferInput(name, list(values.shape), "FP32")
            one.set_data_from_numpy(values)
            inputs.append(one)
        return asking.infer("adder", inputs, client_timeout=60).as_numpy("sum")

    small, large = np.arange(8, dtype=np.float32), np.arange(1 << 18, dtype=np.float32)

    def refused():
        try:
            add(small, large)
        except InferenceServerException as error:
            return [error.status(), error.message()]

    def equal():
        return {
            "small": [add(small, small * number).tolist() for number in range(20)],
            "large": [float(add(large, large * number).sum()) for number in range(3)],
            "refused": refused(),
            "metadata": asking.get_model_metadata("adder", as_json=True),
            "live": asking.is_server_live(),
        }

    yield equal, lambda: add(small, small), lambda: add(large, large)
    asking.close()
