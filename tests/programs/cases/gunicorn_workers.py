"""gunicorn with workers of uvicorn: a FastAPI application that makes channels before and after it is forked."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from serving import add_echo, until_listening

_APPLICATION = """
import os
from contextlib import asynccontextmanager

import grpc
from fastapi import FastAPI, HTTPException

where = os.environ["ECHO"]
say = grpc.insecure_channel(where).unary_unary("/lab.Echo/Say")  # made by gunicorn, used by its workers

@asynccontextmanager
async def life(app):
    async with grpc.aio.insecure_channel(where) as app.state.channel:
        yield

app = FastAPI(lifespan=life)

@app.get("/thread/{text}")
def thread(text: str):
    answer, call = say.with_call(text.encode(), metadata=(("asked", text),), timeout=30)
    return {"said": answer.decode(), "trailing": dict(call.trailing_metadata())}

@app.get("/loop/{text}")
async def loop(text: str):
    call = app.state.channel.unary_unary("/lab.Echo/Say")(text.encode(), metadata=(("asked", text),), timeout=30)
    return {"said": (await call).decode(), "trailing": dict(await call.trailing_metadata())}

@app.get("/count/{number}")
async def count(number: int):
    call = app.state.channel.unary_stream("/lab.Echo/Count")(b"%d" % number, timeout=30)
    return [one.decode() async for one in call]

@app.get("/fail")
async def fail():
    try:
        await app.state.channel.unary_unary("/lab.Echo/Fail")(b"x", timeout=30)
    except grpc.aio.AioRpcError as error:
        raise HTTPException(502, f"{error.code().name}: {error.details()}")

@app.get("/worker")
def worker():
    return os.getpid()
"""


register = add_echo


@contextlib.contextmanager
def _gunicorn(port):
    """Run gunicorn with two workers, and give the port at which it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        http_port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "application.py").write_text(_APPLICATION)
        command = [sys.executable, "-m", "gunicorn", "application:app", "--preload", "--workers", "2", "--bind"]
        command += [f"127.0.0.1:{http_port}", "--worker-class", "uvicorn_worker.UvicornWorker"]
        environment = os.environ | {"ECHO": f"127.0.0.1:{port}"}
        with subprocess.Popen(command, cwd=folder, stdout=sys.stderr, env=environment) as served:
            until_listening(http_port, served)
            yield http_port, served
            served.terminate()


@contextlib.contextmanager
def client(port):
    """Ask the workers over HTTP, and again those that take their place."""
    with _gunicorn(port) as (http_port, served):

        def get(path):
            asking = http.client.HTTPConnection("127.0.0.1", http_port, timeout=60)
            asking.request("GET", path)
            answer = asking.getresponse()
            said = [answer.status, json.loads(answer.read())]
            asking.close()
            return said

        def workers(but=()):
            """Return the two processes that answer, once those have ended."""
            found = set()
            for _ in range(10_000):
                with contextlib.suppress(OSError, http.client.HTTPException):  # one that was about to end
                    found |= {get("/worker")[1]} - set(but)
                if len(found) == 2 and not any(Path(f"/proc/{one}").exists() for one in but):
                    return found
            raise TimeoutError(f"two workers do not answer: {found}")

        def asked():
            paths = [f"/{kind}/{number}" for kind in ("thread", "loop", "count") for number in range(10)]
            with ThreadPoolExecutor(8) as pool:
                return list(pool.map(get, [*paths, "/fail"]))

        def equal():
            first = workers()
            before = asked()
            served.send_signal(signal.SIGHUP)
            workers(but=first)
            return {"before": before, "after": asked()}

        yield equal, lambda: get("/thread/x"), lambda: get("/loop/x")
