"""Dagster: a code location that `dagster api grpc` serves, and the client by which its web server and daemon ask it."""

import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._grpc.client import DagsterGrpcClient

_CODE = """
from dagster import Definitions, asset, job, op

@asset
def walk():
    return 1

@asset
def run(walk):
    return walk + 1

@op
def reach():
    return 1

@job
def arm():
    reach()

defs = Definitions(assets=[walk, run], jobs=[arm])
"""


@contextmanager
def server(port):
    """Serve a code location."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "code.py").write_text(_CODE)
        (Path(folder) / "home").mkdir()
        served_by = str(Path(sys.executable).with_name("dagster"))
        command = [served_by, "api", "grpc", "-p", str(port), "-h", "127.0.0.1", "-f", "code.py"]
        with subprocess.Popen(command, cwd=folder, stdout=sys.stderr) as served:
            yield
            served.kill()


@contextmanager
def client(port):
    """Ask what the location has."""
    asking = DagsterGrpcClient(port=port, host="127.0.0.1")
    for _ in range(600):
        try:
            asking.ping("")
            break
        except DagsterUserCodeUnreachableError:
            time.sleep(0.1)

    def equal():
        return {
            "ping": asking.ping("hello")["echo"],
            "pings": list(asking.streaming_ping(20, "again")),
            "repositories": asking.list_repositories()[:100],
            "health": asking.health_check_query(),
        }

    yield equal, lambda: asking.heartbeat("x"), lambda: asking.ping("x")
