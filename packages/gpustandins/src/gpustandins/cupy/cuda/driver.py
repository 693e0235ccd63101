"""``cupy.cuda.driver``: the error class of failed launches."""

from __future__ import annotations

from .._errors import CUDADriverError
from .._missing import missing

__all__ = ["CUDADriverError"]

_INSTEAD = {
    "ctxGetDevice": "cupy.cuda.runtime.getDevice",
    "deviceGetAttribute": "cupy.cuda.runtime.deviceGetAttribute",
    "driverGetVersion": "cupy.cuda.runtime.driverGetVersion",
    "get_build_version": "cupy.cuda.runtime.runtimeGetVersion",
}


def __getattr__(name: str):
    raise missing(__name__, name, _INSTEAD.get(name, "cupy.cuda.runtime"))
