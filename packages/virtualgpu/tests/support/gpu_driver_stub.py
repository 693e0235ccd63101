"""A CUDA driver whose GPU is the virtual GPU: for trying code that talks to the driver.

``cuda.bindings`` loads the small library that :func:`start` builds and takes its functions from
here, so arguments are passed as to a real driver. Run in a process of its own, with the library's
folder in ``LD_LIBRARY_PATH`` from the start.
"""

from __future__ import annotations

import ctypes as C
import itertools
import os
import subprocess
from pathlib import Path

import numpy as np

from virtualgpu import errors
from virtualgpu.devices import VirtualDevice

OK, INVALID_VALUE, OUT_OF_MEMORY, INVALID_IMAGE, NOT_FOUND, ILLEGAL_ADDRESS, UNKNOWN = (
    0,
    1,
    2,
    200,
    500,
    700,
    999,
)
P, INT, U, S, D = C.c_void_p, C.c_int, C.c_uint, C.c_size_t, C.c_ulonglong

machine = VirtualDevice(1 << 31)
calls: list[str] = []
sick = False  # after an illegal address nothing works any more, as on a GPU
code_to_texts: dict[bytes, tuple[str, ...]] = {}
_handles: dict[int, object] = {}
_numbers = itertools.count(0x1000)
_held: list = []
_library = None


def build(folder: Path) -> Path:
    """Compile the library into ``folder``."""
    target = folder / "libcuda.so.1"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", target, "-Wl,-soname,libcuda.so.1", source], check=True
    )
    return target


def start() -> None:
    """Be the driver of this process. The library is found in ``LD_LIBRARY_PATH``."""
    global _library
    folders = os.environ["LD_LIBRARY_PATH"].split(os.pathsep)
    path = next(Path(f) / "libcuda.so.1" for f in folders if (Path(f) / "libcuda.so.1").exists())
    _library = C.CDLL(str(path), mode=C.RTLD_GLOBAL)
    for name, types, function in _functions:
        pointer = C.CFUNCTYPE(C.c_int, *types)(_guarded(name, function))
        _held.append(pointer)
        assert _library.stub_set(name.encode(), C.cast(pointer, P)) == 0


_functions: list[tuple] = []


def _driver(*types):
    def register(function):
        _functions.append((function.__name__, types, function))
        return function

    return register


def _guarded(name, function):
    def call(*arguments) -> int:
        global sick
        calls.append(name)
        if sick:
            return ILLEGAL_ADDRESS
        try:
            return function(*arguments) or OK
        except errors.LaunchError:
            return INVALID_VALUE
        except errors.OutOfMemory:
            return OUT_OF_MEMORY
        except errors.MemoryAccessError:
            sick = True
            return OK if name.startswith("cuLaunch") else ILLEGAL_ADDRESS
        except Exception:
            return UNKNOWN

    return call


def _put(pointer, kind, value) -> None:
    C.cast(pointer, C.POINTER(kind))[0] = value


def _host(pointer, nbytes) -> np.ndarray:
    return np.frombuffer((C.c_uint8 * nbytes).from_address(pointer), np.uint8)


def _new(thing: object) -> int:
    number = next(_numbers)
    _handles[number] = thing
    return number


@_driver(U)
def cuInit(flags):
    pass


@_driver(P)
def cuDriverGetVersion(version):
    _put(version, INT, 13000)


@_driver(P)
def cuDeviceGetCount(count):
    _put(count, INT, 1)


@_driver(P, INT)
def cuDeviceGet(device, ordinal):
    _put(device, INT, ordinal)


@_driver(P, INT, INT)
def cuDeviceGetName(name, length, device):
    C.memmove(name, b"Stub GPU\0", 9)


@_driver(P, INT)
def cuDeviceTotalMem(nbytes, device):
    _put(nbytes, S, machine.total_memory)


@_driver(P, INT, INT)
def cuDeviceGetAttribute(value, attribute, device):
    _put(value, INT, {75: 9, 76: 0}[attribute])  # compute capability 9.0


@_driver(P, INT)
def cuDevicePrimaryCtxRetain(context, device):
    _put(context, P, 1)


@_driver(P)
def cuCtxSetCurrent(context):
    pass


@_driver()
def cuCtxSynchronize():
    pass


@_driver(P, S)
def cuMemAlloc(address, nbytes):
    _put(address, D, machine.allocate(nbytes))


@_driver(D)
def cuMemFree(address):
    machine.free(address)


@_driver(D, P, S)
def cuMemcpyHtoD(target, origin, nbytes):
    machine.write(target, _host(origin, nbytes))


@_driver(P, D, S)
def cuMemcpyDtoH(target, origin, nbytes):
    _host(target, nbytes)[:] = machine.read(origin, nbytes)


@_driver(D, D, S)
def cuMemcpyDtoD(target, origin, nbytes):
    machine.copy(target, origin, nbytes)


@_driver(D, C.c_ubyte, S)
def cuMemsetD8(target, byte, nbytes):
    machine.fill(target, byte, nbytes)


@_driver(P, P)
def cuModuleLoadData(module, image):
    for code, texts in code_to_texts.items():
        if C.string_at(image, len(code)) == code:
            _put(module, P, _new(machine.load(list(texts))))
            return OK
    return INVALID_IMAGE


@_driver(P)
def cuModuleUnload(module):
    _handles.pop(module)


@_driver(P, P, C.c_char_p)
def cuModuleGetFunction(function, module, name):
    loaded = _handles[module]
    if name.decode() not in loaded.functions:
        return NOT_FOUND
    _put(function, P, _new((loaded, name.decode())))
    return OK


@_driver(P, P, P, C.c_char_p)
def cuModuleGetGlobal(address, nbytes, module, name):
    loaded = _handles[module]
    if name.decode() not in loaded.variables:
        return NOT_FOUND
    place, size = machine.symbol(loaded, name.decode())
    _put(address, D, place)
    _put(nbytes, S, size)
    return OK


@_driver(P, INT, INT)
def cuFuncSetAttribute(function, attribute, value):
    pass


def _launch(function, grid, block, shared, parameters, cooperative) -> None:
    loaded, name = _handles[function]
    pointers = C.cast(parameters, C.POINTER(C.c_void_p))
    values = [
        C.string_at(pointers[number], variable.size)
        for number, variable in enumerate(loaded.functions[name].parameters)
    ]
    machine.launch(loaded, name, grid, block, values, shared, cooperative)


@_driver(P, U, U, U, U, U, U, U, P, P, P)
def cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
    _launch(f, (gx, gy, gz), (bx, by, bz), shared, parameters, False)


@_driver(P, U, U, U, U, U, U, U, P, P)
def cuLaunchCooperativeKernel(f, gx, gy, gz, bx, by, bz, shared, stream, parameters):
    _launch(f, (gx, gy, gz), (bx, by, bz), shared, parameters, True)
