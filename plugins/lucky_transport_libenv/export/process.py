"""The engine's process behind an exported library: `python -m lucky_transport_libenv.export.process ENGINE OPTIONS`.

    shared object -> stdin:   u32 envs · u32 options · per option: char[128] name, i32 dtype, i32 count, its elements
    stdout -> shared object:  tensor ..., tensor ..., ready SEGMENT        or: error TEXT

Numbers are little-endian; an option's C type says what it is in Python. The process ends with the one that started it,
and on SIGTERM.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from typing import Any, BinaryIO

import numpy as np

from lucky_transport import api
from lucky_transport.cli.shutdown import Shutdown
from lucky_transport.errors import RemoteProtocolError, TransportError
from lucky_transport.nesting import json_object
from lucky_transport.process import unique_name
from lucky_transport.spec.batch_spec import BatchSpec
from lucky_transport_libenv.export.tensors import tensors_of
from lucky_transport_libenv.interface import DTYPES, MAX_NAME_BYTES, Dtype

_HEAD = struct.Struct("<II")
_OPTION = struct.Struct(f"<{MAX_NAME_BYTES}sii")
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
#: What no text has: control characters but tab, line feed and carriage return.
_CONTROLS = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_MOST_OPTIONS = 4096
_MOST_ELEMENTS = 1 << 24


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


def read_request(stream: BinaryIO) -> tuple[int, dict[str, Any]]:
    """Return the number of envs and the options, as Python values: UINT8[1] of 0 or 1 is a bool, other UINT8 a text
    where it is one and else bytes, INT32 and FLOAT32 a number, several of them a list.

    Raises RemoteProtocolError when the stream ends early or says impossible numbers.
    """
    num_envs, count = _HEAD.unpack(_read(stream, _HEAD.size))
    if count > _MOST_OPTIONS:
        raise RemoteProtocolError(f"{count} options", backend="libenv")
    options: dict[str, Any] = {}
    for _ in range(count):
        name, code, elements = _OPTION.unpack(_read(stream, _OPTION.size))
        name = name.partition(b"\0")[0].decode(errors="replace")
        dtype = _NAMES.get(code)
        if dtype is None or not 0 <= elements <= _MOST_ELEMENTS:
            raise RemoteProtocolError(f"option {name!r} has dtype {code}, {elements} elements", backend="libenv")
        data = _read(stream, elements * np.dtype(dtype).itemsize)
        options[name] = _value(Dtype(code), np.frombuffer(data, dtype))
    return num_envs, options


def _read(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise RemoteProtocolError(f"the library's request ended after {len(data)} of {size} bytes", backend="libenv")
    return data


def _value(dtype: Dtype, elements: Any) -> Any:
    if dtype is Dtype.UINT8:
        if elements.size == 1 and elements[0] <= 1:
            return bool(elements[0])
        data = elements.tobytes()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        return data if _CONTROLS.search(text) else text
    # a float32 as the shortest number that is it: 0.1 stays 0.1
    values = [int(e) if dtype is Dtype.INT32 else float(str(e)) for e in elements]
    return values[0] if len(values) == 1 else values


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
