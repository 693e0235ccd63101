"""Functions that PTX declares and the device provides.

CUDA C++ Programming Guide, "Formatted Output", "Dynamic Global Memory Allocation"; cooperative
groups' runtime.
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
from virtualgpu.ptx import Instruction

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
    own = _in_local(group, lane, address)
    if own is None:
        return b""
    start = lane * group.wave.local_stride + own
    return group.wave.local[start : start + count].tobytes()


def _in_local(group: Group, lane: int, address: int) -> int | None:
    """Return an address's offset in the lane's local memory; None where it is elsewhere."""
    wave = group.wave
    within = np.array([address - LOCAL_BASE if address >= LOCAL_BASE else 0], np.uint64)
    if LOCAL_BASE <= address < LOCAL_BASE + wave.local_stride or (
        wave.stack_bytes and wave.on_stack(within, np.array([lane]), 1)[0]
    ):
        return int(wave.local_offset(within)[0])
    return None


def _string(group: Group, lane: int, address: int) -> str:
    return _until_zero(group, lane, address).decode("utf-8", "replace")


def _until_zero(group: Group, lane: int, address: int) -> bytes:
    return _bytes(group, lane, address, _MAX_STRING).split(b"\0", 1)[0]


def vprintf(group: Group, text: np.ndarray, arguments: np.ndarray) -> np.ndarray:
    """``printf``: lanes print one after the other, in lane order, when the launch ends."""
    return watched_vprintf(None, group, text, arguments)


def watched_vprintf(
    instruction: Instruction | None, group: Group, text: np.ndarray, arguments: np.ndarray
) -> np.ndarray:
    """:func:`vprintf`, of which observers hear what it reads of the lanes' local memory."""
    observers = group.wave.launch.observers if instruction else ()

    def read(address: int, size: int, conversion: str) -> None:
        if observers and (own := _in_local(group, lane, address)) is not None:
            for observer in observers:
                observer.printed(group, instruction, lane, own, size, conversion)

    texts, arguments = group.spread(text), group.spread(arguments)
    for position, lane in enumerate(group.lanes):
        lane = int(lane)
        if group.wave.launch.printed >= PRINTED:
            break
        format_ = _string(group, lane, int(texts[position]))
        at = int(arguments[position])
        group.wave.launch.print(_formatted(group, lane, format_, at, read))
    return np.full(1, 0, np.uint32)


def _formatted(
    group: Group, lane: int, format_: str, at: int, read: Callable[[int, int, str], None]
) -> str:
    """Format the line of a lane, whose arguments lie from address `at` on.

    `read` is called for each argument.
    """
    conversion = ""

    def take(code: str) -> Any:
        nonlocal at
        size = struct.calcsize(code)
        at = -(-at // size) * size
        read(at, size, conversion)
        raw = _bytes(group, lane, at, size)
        at += size
        return struct.unpack(code, raw)[0] if len(raw) == size else 0

    def replace(match: re.Match[str]) -> str:
        nonlocal conversion
        conversion = match[0]
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
            address: int = take("Q")
            words = _until_zero(group, lane, address)
            read(address, len(words) + 1, conversion)
            return (spec + "s") % words.decode("utf-8", "replace")
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
