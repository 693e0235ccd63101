"""What may pass between the oracle and the student's process: JSON, and plain arrays.

A message is ``GPC1``, the length of a JSON header, the header, and the arrays that the header
announces, each in the ``.npy`` format with object arrays refused. Nothing else is ever decoded:
no pickle, no classes, no code. The receiver states how long it waits and how much it takes.

Values (arguments and results) are trees of tagged JSON objects, so that an ``int`` stays an ``int``
and a ``float32`` scalar a ``float32`` scalar.
"""

from __future__ import annotations

import io
import json
import math
import socket
import struct
import time
from dataclasses import dataclass

import numpy as np

from gpucourse.grading import awkward_arguments as awkward

MAGIC = b"GPC1"
HEAD = struct.Struct("<4sI")
# Depth and number of items of one value tree: more is not a result but an attack.
MAX_DEPTH = 8
MAX_ITEMS = 10_000
PLAIN_KINDS = "biufc"


def pack_array(array: np.ndarray) -> bytes:
    """`array` as ``.npy`` bytes."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array).reshape(array.shape),
                              allow_pickle=False)
    return stream.getvalue()


def unpack_array(data: bytes) -> np.ndarray:
    """The array in `data`. The announced size must be the size that is there.

    NumPy's own reader allocates what a header announces before it looks at the data, so the
    header is checked first.
    """
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ProtocolError("an array in an unknown format")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=1000)
    except ProtocolError:
        raise
    except Exception as error:
        # NumPy parses the header as Python text: half a dozen kinds of error can come of it.
        raise ProtocolError(f"a malformed array ({type(error).__name__})") from None
    if dtype.kind not in PLAIN_KINDS or dtype.hasobject or fortran:
        raise ProtocolError("an array that does not hold plain numbers")
    if any(not isinstance(length, int) or length < 0 for length in shape) or len(shape) > 8:
        raise ProtocolError("an array with an impossible shape")
    body = data[stream.tell():]
    if math.prod(shape) * dtype.itemsize != len(body):
        raise ProtocolError("an array whose size is not the one it announces")
    return np.frombuffer(body, dtype=dtype).reshape(shape)


def encode(value: object, arrays: list[np.ndarray], device_array=None, depth: int = 0) -> dict:
    """A value tree for JSON; arrays are appended to `arrays` and referred to by number.

    `device_array(value)` may return the description of an array in device memory, or None.
    Raises TypeError, naming the type, for what cannot pass.
    """
    if depth > MAX_DEPTH:
        raise TypeError("a result nested more than eight levels deep")
    if value is None or isinstance(value, (bool, str)):
        return {"t": "plain", "v": value}
    if device_array is not None and (described := device_array(value)) is not None:
        return {"t": "device", "v": described}
    if awkward.is_awkward(value):
        described, buffers = awkward.take_apart(value)
        named = encode(buffers, arrays, None, depth + 1)
        return {"t": "awkward", "v": described | {"buffers": named}}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind not in PLAIN_KINDS or array.dtype.hasobject:
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
        items = {key: encode(item, arrays, device_array, depth + 1) for key, item in value.items()}
        return {"t": "dict", "v": items}
    raise TypeError(f"a {type(value).__name__}")


def decode(tree: object, arrays: list[np.ndarray], device_array=None, _count=None, *,
           awkward_array=None) -> object:
    """The value that :func:`encode` described, or ProtocolError.

    `device_array(description)` turns the description of device memory into a value; without it
    such a description is refused. So is an Awkward Array without `awkward_array(description,
    buffers)`: the oracle takes none, because an array whose offsets lie reaches outside its memory.
    """
    _count = [0] if _count is None else _count
    _count[0] += 1
    if _count[0] > MAX_ITEMS:
        raise ProtocolError("too many items")
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
            return array if tag == "array" else array[()]
        if tag in ("list", "tuple") and isinstance(value, list):
            items = [decode(item, arrays, device_array, _count, awkward_array=awkward_array)
                     for item in value]
            return items if tag == "list" else tuple(items)
        if tag == "dict" and isinstance(value, dict):
            return {key: decode(item, arrays, device_array, _count, awkward_array=awkward_array)
                    for key, item in value.items()}
        if tag == "awkward" and awkward_array is not None:
            return awkward_array(value, decode(value["buffers"], arrays, None, _count))
        if tag == "device" and device_array is not None:
            return device_array(value)
    except (ValueError, OverflowError, RecursionError):
        pass
    raise ProtocolError("a malformed value")


class ProtocolError(Exception):
    """The other side sent something that is not a message, or closed the connection half-way."""


class Closed(ProtocolError):
    """The other side is gone."""


class OutOfTime(Exception):
    """No whole message came in time."""


@dataclass
class Wire:
    """One end of a stream socket that carries messages."""

    socket: socket.socket
    header_bytes: int
    array_bytes: int

    def send(self, header: dict, arrays: list[np.ndarray] = (), deadline: float | None = None):
        """Send one message; Closed if the other side is gone, OutOfTime if it does not read."""
        packed = [pack_array(array) for array in arrays]
        text = json.dumps(header | {"arrays": [len(data) for data in packed]}).encode()
        try:
            self._wait(deadline)
            self.socket.sendall(HEAD.pack(MAGIC, len(text)) + text)
            for data in packed:
                self._wait(deadline)
                self.socket.sendall(data)
        except TimeoutError:
            raise OutOfTime from None
        except OSError:
            raise Closed("the connection is closed") from None

    def receive(self, deadline: float | None = None) -> tuple[dict, list[np.ndarray]]:
        """One message. `deadline` is on time.monotonic(); None waits for ever.

        Raises Closed, ProtocolError or OutOfTime.
        """
        magic, length = HEAD.unpack(self._read(HEAD.size, deadline))
        if magic != MAGIC or length > self.header_bytes:
            raise ProtocolError("something that is not a message")
        try:
            header = json.loads(self._read(length, deadline))
        except (ValueError, RecursionError):
            raise ProtocolError("a message that is not JSON") from None
        sizes = header.pop("arrays", None) if isinstance(header, dict) else None
        if not isinstance(sizes, list) or not all(type(size) is int for size in sizes):
            raise ProtocolError("a message without its parts")
        if any(size < 0 for size in sizes) or sum(sizes) > self.array_bytes:
            raise ProtocolError("a message larger than is allowed")
        return header, [unpack_array(self._read(size, deadline)) for size in sizes]

    def close(self) -> None:
        self.socket.close()

    def _wait(self, deadline: float | None) -> None:
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            raise OutOfTime
        self.socket.settimeout(remaining)

    def _read(self, size: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                self._wait(deadline)
                piece = self.socket.recv(min(size - len(data), 1 << 20))
            except TimeoutError:
                raise OutOfTime from None
            except OSError:
                raise Closed("the connection is closed") from None
            if not piece:
                raise Closed("the connection is closed")
            data += piece
        return bytes(data)
