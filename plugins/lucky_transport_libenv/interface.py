"""The C interface of libenv, version 1, as ctypes.

    make -> tensortypes of the three spaces -> set_buffers, once -> observe, act, observe, act, ... -> close

These layouts are compiled into foreign libraries, so no size or offset changes.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

VERSION = 1
MAX_NAME_BYTES = 128  # with the NUL at the end
MAX_NDIM = 16


class Dtype(IntEnum):
    """Element types of the interface."""

    UINT8 = 1
    INT32 = 2
    FLOAT32 = 3


class ScalarType(IntEnum):
    """What the elements mean."""

    REAL = 1
    DISCRETE = 2


class Space(IntEnum):
    """The three spaces of a library; each is a sequence of named tensors."""

    OBSERVATION = 1
    ACTION = 2
    INFO = 3


#: Element types by NumPy's name.
DTYPES = {"uint8": Dtype.UINT8, "int32": Dtype.INT32, "float32": Dtype.FLOAT32}


class _Value(ctypes.Union):
    """One element, of whichever type the tensor has."""

    _fields_ = (
        ("uint8", ctypes.c_uint8),
        ("int32", ctypes.c_int32),
        ("float32", ctypes.c_float),
    )


class TensorType(ctypes.Structure):
    """One named tensor of a space: what a row of it looks like."""

    _fields_ = (
        ("name", ctypes.c_char * MAX_NAME_BYTES),
        ("scalar_type", ctypes.c_int),
        ("dtype", ctypes.c_int),
        ("shape", ctypes.c_int * MAX_NDIM),
        ("ndim", ctypes.c_int),
        ("low", _Value),
        ("high", _Value),
    )


class Option(ctypes.Structure):
    """One option; `data` is `count` elements, valid for as long as the env lives."""

    _fields_ = (
        ("name", ctypes.c_char * MAX_NAME_BYTES),
        ("dtype", ctypes.c_int),
        ("count", ctypes.c_int),
        ("data", ctypes.c_void_p),
    )


class Options(ctypes.Structure):
    """All options of one env; `libenv_make` takes it by value."""

    _fields_ = (("items", ctypes.POINTER(Option)), ("count", ctypes.c_int))


class LibenvBuffers(ctypes.Structure):
    """Where a library reads actions and writes all else.

    ob, info, ac: one pointer per tensor and env, env by env within a tensor. rew: float32, first: uint8, one per env.
    """

    _fields_ = (
        ("ob", ctypes.POINTER(ctypes.c_void_p)),
        ("rew", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("info", ctypes.POINTER(ctypes.c_void_p)),
        ("ac", ctypes.POINTER(ctypes.c_void_p)),
    )


#: What a library exports: name -> (result, arguments).
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "libenv_version": (ctypes.c_int, ()),
    "libenv_make": (ctypes.c_void_p, (ctypes.c_int, Options)),
    "libenv_get_tensortypes": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(TensorType))),
    "libenv_set_buffers": (None, (ctypes.c_void_p, ctypes.POINTER(LibenvBuffers))),
    "libenv_observe": (None, (ctypes.c_void_p,)),
    "libenv_act": (None, (ctypes.c_void_p,)),
    "libenv_close": (None, (ctypes.c_void_p,)),
}
