"""Messages between the oracle and the student's process: JSON and plain arrays.

A message consists of ``GPC2``, the length of a JSON header, the header, and the bytes of the
arrays, whose types and shapes the header announces. Nothing else is ever decoded: no pickle, no
classes, no code. (The ``.npy`` format would announce arrays as Python text, which the oracle would
have to parse.) The receiver limits its waiting time and the size of a message.

Values (arguments and results) are trees of tagged JSON objects, so that an ``int`` arrives as an
``int`` and a ``float32`` scalar as a ``float32`` scalar.
"""

from __future__ import annotations

import json
import math
import re
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gpucourse.adapters.awkward_arguments import take_apart
from virtualgpu.api import is_awkward

MAGIC = b"GPC2"
HEAD = struct.Struct("<4sI")
# Limits on the depth and the number of items of one value tree. No honest result exceeds them.
MAX_DEPTH = 8
MAX_ITEMS = 10_000
MAX_DIMENSIONS = 8
# Number of bytes that are read or written at a time.
PIECE = 1 << 20
# Interval in seconds between checks of the time left.
ASK_SECONDS = 0.25
# Number types that are the same on every machine, as numpy.dtype.str writes them: byte order, kind,
# bytes. The 80-bit floats of x86 are excluded, because some of their bit patterns are not numbers.
NUMBER_TYPE = re.compile(r"[<>|](b1|[iu][1248]|f[248]|c(8|16))")


def is_number_type(dtype: np.dtype) -> bool:
    """Return True if arrays of this type may be sent: plain numbers, no records or objects."""
    return NUMBER_TYPE.fullmatch(dtype.str) is not None


def describe_array(array: np.ndarray) -> dict:
    """Return an array's entry in the header: ``{"dtype": "<f8", "shape": [3, 4]}``.

    Raises TypeError unless the array consists of plain numbers.
    """
    if not is_number_type(array.dtype):
        raise TypeError(f"an array of {array.dtype}")
    return {"dtype": array.dtype.str, "shape": list(array.shape)}


def announced(described: object) -> tuple[np.dtype, tuple[int, ...], int]:
    """Return the type, shape and bytes of an announced array. Raises ProtocolError."""
    if not isinstance(described, dict) or set(described) != {"dtype", "shape"}:
        raise ProtocolError("an array without a type and a shape")
    name, shape = described["dtype"], described["shape"]
    try:
        dtype = np.dtype(name) if isinstance(name, str) and NUMBER_TYPE.fullmatch(name) else None
    except TypeError:
        dtype = None
    if dtype is None:
        raise ProtocolError("an array that does not hold plain numbers")
    if (
        not isinstance(shape, list)
        or len(shape) > MAX_DIMENSIONS
        or not all(type(length) is int and length >= 0 for length in shape)
        # NumPy's own limit, which an array without elements can exceed too.
        or math.prod(filter(None, shape)) * dtype.itemsize > np.iinfo(np.intp).max
    ):
        raise ProtocolError("an array with an impossible shape")
    return dtype, tuple(shape), math.prod(shape) * dtype.itemsize


def numbers(raw: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return bytes as a read-only array of plain numbers; non-zero bools become 1."""
    if dtype.kind != "b":
        return raw.view(dtype).reshape(shape)
    truths = raw.astype(bool).reshape(shape)
    truths.setflags(write=False)
    return truths


def encode(
    value: object,
    arrays: list[np.ndarray],
    device_array: Callable[[object], dict | None] | None = None,
    depth: int = 0,
) -> dict:
    """Return a value as a tree for JSON; append its arrays to `arrays` and refer to their indices.

    `device_array(value)` returns the description of an array in device memory, or None for any
    other value. Raises TypeError, naming the type, for values that cannot be sent.
    """
    if depth > MAX_DEPTH:
        raise TypeError("a result nested more than eight levels deep")
    if value is None or isinstance(value, (bool, str)):
        return {"t": "plain", "v": value}
    if device_array is not None and (described := device_array(value)) is not None:
        return {"t": "device", "v": described}
    if is_awkward(value):
        described, buffers = take_apart(value)
        named = encode(buffers, arrays, None, depth + 1)
        return {"t": "awkward", "v": described | {"buffers": named}}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if not is_number_type(array.dtype):
            raise TypeError(f"an array of {array.dtype}")
        arrays.append(array)
        tag = "array" if isinstance(value, np.ndarray) else "scalar"
        return {"t": tag, "v": len(arrays) - 1}
    if isinstance(value, int):
        return {"t": "int", "v": hex(value)}
    if isinstance(value, float):
        return {"t": "float", "v": float(value).hex()}
    if isinstance(value, (list, tuple)):
        items = [encode(item, arrays, device_array, depth + 1) for item in value]
        return {"t": "list" if isinstance(value, list) else "tuple", "v": items}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        named = {key: encode(item, arrays, device_array, depth + 1) for key, item in value.items()}
        return {"t": "dict", "v": named}
    raise TypeError(f"a value of type {type(value).__name__}")


def decode(
    tree: object,
    arrays: list[np.ndarray],
    device_array: Callable[[Any], object] | None = None,
    _count: list[int] | None = None,
    *,
    awkward_array: Callable[[Any, Any], object] | None = None,
    _depth: int = 0,
) -> Any:
    """Return the value that :func:`encode` described, or raise ProtocolError.

    `device_array(description)` converts a description of device memory to a value; without it such
    a description is refused. In the same way, an Awkward Array is refused without
    `awkward_array(description, buffers)`. The oracle accepts none, because an array with false
    offsets reads outside its memory.
    """
    _count = [0] if _count is None else _count
    _count[0] += 1
    if _count[0] > MAX_ITEMS or _depth > MAX_DEPTH + 1:
        raise ProtocolError("a value with too many parts")
    if not isinstance(tree, dict) or set(tree) != {"t", "v"}:
        raise ProtocolError("a value without a tag")
    tag, value = tree["t"], tree["v"]
    try:
        if tag == "plain" and (value is None or isinstance(value, (bool, str))):
            return value
        if tag == "int" and isinstance(value, str) and len(value) < 100:
            return int(value, 16)
        if tag == "float" and isinstance(value, str) and len(value) < 100:
            return float.fromhex(value)
        if tag in ("array", "scalar") and type(value) is int and 0 <= value < len(arrays):
            array = arrays[value]
            if tag == "array" or array.ndim == 0:
                return array if tag == "array" else array[()]
        if tag in ("list", "tuple") and isinstance(value, list):
            items = [
                decode(
                    item,
                    arrays,
                    device_array,
                    _count,
                    awkward_array=awkward_array,
                    _depth=_depth + 1,
                )
                for item in value
            ]
            return items if tag == "list" else tuple(items)
        if tag == "dict" and isinstance(value, dict):
            return {
                key: decode(
                    item,
                    arrays,
                    device_array,
                    _count,
                    awkward_array=awkward_array,
                    _depth=_depth + 1,
                )
                for key, item in value.items()
            }
        if tag == "awkward" and awkward_array is not None:
            return awkward_array(value, decode(value["buffers"], arrays, None, _count))
        if tag == "device" and device_array is not None:
            return device_array(value)
    except (ValueError, OverflowError, RecursionError, TypeError, KeyError, MemoryError):
        pass
    raise ProtocolError("a malformed value")


class ProtocolError(Exception):
    """The other side sent an invalid message, or closed the connection within one."""


class Closed(ProtocolError):
    """The other side has closed the connection."""


class OutOfTime(Exception):
    """No complete message arrived in time."""


#: Function that returns the seconds left for a message. It is called repeatedly during the wait.
#: With ``left=None``, the wait has no limit.
Left = Callable[[], float]
T = TypeVar("T")


def within(seconds: float) -> Left:
    """Return a function that counts `seconds` down from now by the wall clock."""
    end = time.monotonic() + seconds
    return lambda: end - time.monotonic()


@dataclass
class Wire:
    """One end of a stream socket that carries messages."""

    socket: socket.socket
    header_bytes: int
    array_bytes: int

    def send(
        self, header: dict, arrays: Sequence[np.ndarray] = (), left: Left | None = None
    ) -> None:
        """Send one message. Raises Closed, or OutOfTime if the other side does not read it."""
        text = json.dumps(header | {"arrays": [describe_array(a) for a in arrays]}).encode()
        self._write(HEAD.pack(MAGIC, len(text)) + text, left)
        for array in arrays:
            self._write(array.tobytes(), left)

    def receive(self, left: Left | None = None) -> tuple[dict, list[np.ndarray]]:
        """Receive one message. Raises Closed, ProtocolError or OutOfTime."""
        magic, length = HEAD.unpack(self._read(HEAD.size, left))
        if magic != MAGIC or length > self.header_bytes:
            raise ProtocolError("something that is not a message")
        try:
            header = json.loads(self._read(length, left))
        except (ValueError, RecursionError):
            raise ProtocolError("a message that is not JSON") from None
        described = header.pop("arrays", None) if isinstance(header, dict) else None
        if not isinstance(described, list):
            raise ProtocolError("a message without its parts")
        if len(described) > MAX_ITEMS:
            raise ProtocolError("a message of too many parts")
        # Check all announcements before allocating any memory for them.
        parts = [announced(one) for one in described]
        if sum(size for _, _, size in parts) > self.array_bytes:
            raise ProtocolError("a message larger than is allowed")
        return header, [
            numbers(np.frombuffer(self._read(size, left), np.uint8), dtype, shape)
            for dtype, shape, size in parts
        ]

    def close(self) -> None:
        self.socket.close()

    def _write(self, data: bytes, left: Left | None) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._once(left, self.socket.send, rest[:PIECE]) :]

    def _read(self, size: int, left: Left | None) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._once(left, self.socket.recv, min(size - len(data), PIECE))
            if not piece:
                raise Closed("the connection is closed")
            data += piece
        return bytes(data)

    def _once(self, left: Left | None, act: Callable[..., T], argument: object) -> T:
        """Return the result of a socket method as soon as the socket is ready for it."""
        while True:
            seconds = None if left is None else left()
            if seconds is not None and seconds <= 0:
                raise OutOfTime
            self.socket.settimeout(seconds if seconds is None else min(seconds, ASK_SECONDS))
            try:
                return act(argument)
            except TimeoutError:
                continue
            except OSError:
                raise Closed("the connection is closed") from None
