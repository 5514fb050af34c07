"""The engine's process behind an exported library: `python -m lucky_transport_libenv.export.process ENGINE OPTIONS`.

    shared object -> stdin:   the request (`requests`)
    stdout -> shared object:  tensor ..., tensor ..., ready SEGMENT        or: error TEXT

It ends with the process that started it, and on SIGTERM.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from lucky_transport import api
from lucky_transport.cli.shutdown import Shutdown
from lucky_transport.errors import TransportError
from lucky_transport.nesting import json_object
from lucky_transport.process import unique_name
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_libenv.export.requests import read_request
from lucky_transport_libenv.export.tensors import tensors_of


def main(engine: str, options_json: str, parent_pid: int) -> int:
    """Serve `engine` to the shared object at the other end of stdin and stdout; return the exit status."""
    answers = os.fdopen(os.dup(1), "w")  # what an engine prints goes to stderr
    os.dup2(2, 1)
    with Shutdown(parent_pid) as shutdown:
        try:
            num_envs, given = read_request(sys.stdin.buffer)
            options: dict[str, Any] = {**json_object(options_json, "options"), **given}
            endpoint = f"shm://{unique_name()}"
            with api.serve(engine, endpoint, num_envs=num_envs, options=options) as serving:
                answers.write(_greeting(serving.host.spec, serving.endpoints[0].address))
                answers.close()
                shutdown.wait()
        except TransportError as error:
            if not answers.closed:
                answers.write(f"error {' '.join(str(error).split())}\n")
                answers.close()
            return 1
    return 0


def _greeting(spec: BatchSpec, segment: str) -> str:
    lines = [tensor.line for tensor in tensors_of(spec)]
    return "\n".join([*lines, f"ready {segment}", ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
