"""Interceptors: code of yours around every typed call, stream and step, on every transport and on either side."""

from __future__ import annotations

from lucky_transport.interceptors.interceptor import (
    CallDetails,
    InterceptedCall,
    InterceptionPoint,
    Interceptor,
    Side,
    StepDetails,
    StreamEnd,
)

__all__ = ["CallDetails", "InterceptedCall", "InterceptionPoint", "Interceptor", "Side", "StepDetails", "StreamEnd"]
