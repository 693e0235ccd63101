"""Linking (CUDA Driver API, section "Module Management", ``cuLink...``): PTX with PTX.

The result is the concatenation of the PTX modules, which :mod:`.kernels` can load. The device
runtime (``libcudadevrt.a``) is left out, because the virtual GPU itself provides the functions that
grid barriers need.
"""

from __future__ import annotations

import ctypes
import itertools

from virtualgpu import devices
from virtualgpu.cuda.driver_api import DriverFailure
from virtualgpu.driver import kernels
from virtualgpu.driver.entries import Result, entry

_PTX, _LIBRARY = 1, 4  # CU_JIT_INPUT_PTX, CU_JIT_INPUT_LIBRARY
_DEVICE_RUNTIME = b"__CNPRT_VERSION_NUMBER__"  # a symbol of the device runtime
_handles = itertools.count(0xB000, 16)
_states: dict[int, list[str]] = {}
_images: dict[int, ctypes.Array] = {}  # the linked images, kept as long as their link state


@entry("I z z >z")
def cuLinkCreate(count: int, options: int, values: int) -> int:
    handle = next(_handles)
    _states[handle] = []
    return handle


@entry("z i z z z I z z")
def cuLinkAddData(state: int, kind: int, data: int, nbytes: int, *options: int) -> None:
    if kind == _LIBRARY and _DEVICE_RUNTIME in ctypes.string_at(data, nbytes):
        return
    if kind != _PTX:
        raise DriverFailure(
            Result.CUDA_ERROR_INVALID_IMAGE,
            "cuLinkAddData",
            "the virtual GPU links only PTX; cubins, fatbins, objects and libraries contain "
            "machine code for a real GPU",
        )
    _states[state].append(ctypes.string_at(data, nbytes).rstrip(b"\0").decode())


@entry("z >z >z")
def cuLinkComplete(state: int) -> tuple[int, int]:
    raw = kernels.joined(_states[state]).encode()
    kernels.Library(_states[state]).module(devices.current())  # report link errors now
    _images[state] = ctypes.create_string_buffer(raw)
    return ctypes.addressof(_images[state]), len(raw)


@entry("z")
def cuLinkDestroy(state: int) -> None:
    _states.pop(state, None)
    _images.pop(state, None)
