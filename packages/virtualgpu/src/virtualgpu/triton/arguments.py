"""Conversion of Triton's arguments to the parameters of PTX."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from virtualgpu import devices
from virtualgpu.devices.host_tensors import is_host_tensor

# Triton's names of scalar types → format characters of `struct`.
FORMATS = {
    "i1": "b",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u1": "B",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "fp16": "e",
    "fp32": "f",
    "f32": "f",
    "fp64": "d",
}


def on_device(argument: Any, address: Callable[[Any], int]) -> Any:
    """Return an argument with ``address(tensor)`` in place of each CPU tensor of PyTorch."""
    if isinstance(argument, tuple):
        return tuple(on_device(one, address) for one in argument)
    return address(argument) if is_host_tensor(argument) else argument


def pack(types: Iterable[Any], arguments: Iterable[Any]) -> list[bytes]:
    """Return one entry for each parameter of the kernel, in its own size.

    Parameters
    ----------
    types : iterable of str or of tuples of them
        Triton's names: ``*fp32``, ``i32``, ``constexpr``; a tuple for an argument that is one.
    arguments : iterable
        Pointers (objects with ``data_ptr()``, addresses or None) and Python numbers.

    Raises
    ------
    ValueError
        If a pointer is not to device memory; the message begins as Triton's does.
    """
    return list(_packed(types, arguments))


def _packed(types: Iterable[Any], arguments: Iterable[Any]) -> Iterator[bytes]:
    for number, (kind, value) in enumerate(zip(types, arguments, strict=True)):
        if isinstance(kind, tuple):
            yield from _packed(kind, value)
        elif kind == "constexpr":
            continue
        elif kind.startswith("*"):
            yield struct.pack("<Q", _address(number, value))
        elif kind == "bf16":
            yield struct.pack("<f", value)[2:]  # the upper half, as Triton's launcher truncates it
        else:
            yield struct.pack("<" + FORMATS[kind], value)


def _address(number: int, value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    address = value.data_ptr()
    memory = devices.shared(devices.owner(address))
    if address and memory is not None and memory.extent(address) is None:
        raise ValueError(
            f"Pointer argument (at {number}) cannot be accessed from Triton (cpu tensor?): "
            f"there is no live allocation of the virtual GPU at {address:#x}. Make the array "
            "with CuPy, cupy.asarray(...), or PyTorch, and keep a reference"
        )
    return address
