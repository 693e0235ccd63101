"""Functions that PTX declares and the device provides (CUDA C++ Programming Guide, "Formatted
Output", "Dynamic Global Memory Allocation"; cooperative groups' runtime).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from virtualgpu.errors import Location, TrapError, VirtualGPUError
from virtualgpu.lanes.group import Group
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.memory.mapping import BASE
from virtualgpu.memory.windows import LOCAL_BASE

PRINTED = 1 << 20  # characters in the buffer of printf (cudaLimitPrintfFifoSize's default)

_FORMAT = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|j|t|q)?([a-zA-Z%])")
_MAX_STRING = 1 << 16
_MAX_WIDTH = 4096  # characters of one number: a kernel must not fill the host's memory


def _bytes(group: Group, lane: int, address: int, count: int) -> bytes:
    """Device bytes as one lane sees them: global, or its own local memory."""
    if address >= BASE:
        memory: GlobalMemory = group.wave.launch.memory
        extent = memory.extent(address)
        if extent is None:
            return b""
        return memory.read(address, min(count, extent[1] - address)).tobytes()
    wave = group.wave
    if LOCAL_BASE <= address < LOCAL_BASE + wave.local_stride or (
        wave.stack_bytes
        and wave.on_stack(np.array([address - LOCAL_BASE], np.uint64), np.array([lane]), 1)[0]
    ):
        own = wave.local_offset(np.array([address - LOCAL_BASE], np.uint64))
        start = lane * wave.local_stride + int(own[0])
        return wave.local[start : start + count].tobytes()
    return b""


def _string(group: Group, lane: int, address: int) -> str:
    raw = _bytes(group, lane, address, _MAX_STRING)
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def vprintf(group: Group, text: np.ndarray, arguments: np.ndarray) -> np.ndarray:
    """``printf``: lanes print one after the other, in lane order, when the launch ends."""
    texts, arguments = group.spread(text), group.spread(arguments)
    for position, lane in enumerate(group.lanes):
        lane = int(lane)
        if group.wave.launch.printed >= PRINTED:
            break
        format_ = _string(group, lane, int(texts[position]))
        at = int(arguments[position])
        group.wave.launch.print(_formatted(group, lane, format_, at))
    return np.full(1, 0, np.uint32)


def _formatted(group: Group, lane: int, format_: str, at: int) -> str:
    def take(code: str) -> Any:
        nonlocal at
        size = struct.calcsize(code)
        at = -(-at // size) * size
        raw = _bytes(group, lane, at, size)
        at += size
        return struct.unpack(code, raw)[0] if len(raw) == size else 0

    def replace(match: re.Match[str]) -> str:
        flags: str
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        width = take("i") if width == "*" else int((width or "0")[:9])
        precision = take("i") if precision == "*" else int(precision[:9]) if precision else None
        if width < 0:  # a negative width given by an argument means: to the left
            flags, width = flags + "-", -width
        spec = f"%{flags}{min(width, _MAX_WIDTH) or ''}"
        if precision is not None and precision >= 0:
            spec += f".{min(precision, _MAX_WIDTH)}"
        long = length in ("l", "ll", "z", "j", "t", "q")
        value: int
        if kind in "di":
            value = take("q" if long else "i")
            return (spec + "d") % value
        if kind in "uxXo":
            value = take("Q" if long else "I")
            if kind == "o" and "#" in flags and value:  # C writes 010, Python 0o10
                digits = max(len(f"{value:o}") + 1, min(precision or 0, _MAX_WIDTH))
                spec = f"{spec.replace('#', '').split('.')[0]}.{digits}"
            return (spec + kind.replace("u", "d")) % value
        if kind in "eEfFgGaA":
            real: float = take("d")
            return real.hex() if kind in "aA" else (spec + kind) % real
        if kind == "c":
            return (spec + "c") % chr(take("i") & 0xFF)
        if kind == "s":
            return (spec + "s") % _string(group, lane, take("Q"))
        if kind == "p":
            return hex(take("Q"))
        return match[0]

    return _FORMAT.sub(replace, format_)


def assertfail(
    group: Group,
    message: np.ndarray,
    file: np.ndarray,
    line: np.ndarray,
    function: np.ndarray,
    size: np.ndarray,
) -> None:
    """``assert`` in CUDA C++ that failed."""
    lane = int(group.lanes[0])
    words = _string(group, lane, int(group.spread(message)[0]))
    where = _string(group, lane, int(group.spread(file)[0]))
    block, thread = group.wave.where(lane)
    raise TrapError(
        f"assertion `{words}` failed",
        Location(group.wave.launch.kernel, where, int(group.spread(line)[0]), block, thread),
    )


def malloc(group: Group, size: np.ndarray) -> np.ndarray:
    """Memory from the device's heap, one allocation a lane; a null pointer when it is full."""
    return np.array(
        [group.wave.launch.memory.heap_allocate(int(n)) for n in group.spread(size)], np.uint64
    )


def free(group: Group, address: np.ndarray) -> None:
    for position, one in enumerate(group.spread(address)):
        try:
            if one:
                group.wave.launch.memory.heap_free(int(one))
        except VirtualGPUError as error:
            block, thread = group.wave.where(int(group.lanes[position]))
            raise VirtualGPUError(
                error.message, Location(group.wave.launch.kernel, block=block, thread=thread)
            ) from None


def _grid_handle(group: Group, scope: np.ndarray) -> np.ndarray:
    return np.ones(1, np.uint64)


# name → function of the group and the arguments' values; the grid's barrier is the SIMT loop's
INTRINSICS: dict[str, Callable[..., Any]] = {
    "vprintf": vprintf,
    "__assertfail": assertfail,
    "malloc": malloc,
    "free": free,
    "cudaCGGetIntrinsicHandle": _grid_handle,
}
