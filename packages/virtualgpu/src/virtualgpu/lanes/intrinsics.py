"""Functions that PTX declares and the device provides.

CUDA C++ Programming Guide, "Formatted Output", "Dynamic Global Memory Allocation"; cooperative
groups' runtime.
"""

from __future__ import annotations

import math
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

PRINTED = 1 << 20  # characters in printf's buffer (the default of cudaLimitPrintfFifoSize)

_FORMAT = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|j|t|q)?([a-zA-Z%])")
_NARROW = {"hh": 8, "h": 16}  # bits
_MAX_STRING = 1 << 16
_MAX_WIDTH = 4096  # characters of one number, so that a kernel cannot fill the host's memory


def _bytes(group: Group, lane: int, address: int, count: int) -> bytes:
    """Return device bytes as one lane sees them: global, or its own local memory."""
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
    """Return an address's offset in the lane's local memory, or None if it is elsewhere."""
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
    """Execute ``printf``: the output of lanes appears in lane order when the launch ends."""
    return watched_vprintf(None, group, text, arguments)


def watched_vprintf(
    instruction: Instruction | None, group: Group, text: np.ndarray, arguments: np.ndarray
) -> np.ndarray:
    """Print as :func:`vprintf` does, and report its reads of local memory to observers."""
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
    """Format the output of a lane, whose arguments begin at address `at`.

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
        if width < 0:  # a negative width argument means left alignment
            flags, width = flags + "-", -width
        spec = f"%{flags}{min(width, _MAX_WIDTH) or ''}"
        if precision is not None and precision >= 0:
            spec += f".{min(precision, _MAX_WIDTH)}"
        long = length in ("l", "ll", "z", "j", "t", "q")
        value: int
        if kind in "di":
            value = take("q" if long else "i")
            if length in _NARROW:  # C uses the low bits, with their sign
                bits = _NARROW[length]
                value = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            return (spec + "d") % value
        if kind in "uxXo":
            value = take("Q" if long else "I")
            if length in _NARROW:
                value %= 1 << _NARROW[length]
            if kind == "o" and "#" in flags and value:  # C writes 010, Python 0o10
                digits = max(len(f"{value:o}") + 1, min(precision or 0, _MAX_WIDTH))
                spec = f"{spec.replace('#', '').split('.')[0]}.{digits}"
            return (spec + kind.replace("u", "d")) % value
        if kind in "eEfFgGaA":
            real: float = take("d")
            if kind in "aA":
                number = _hexadecimal(real, flags, width, precision)
                return number.upper() if kind == "A" else number
            return (spec + kind) % real
        if kind == "c":
            return (spec + "c") % chr(take("i") & 0xFF)
        if kind == "s":
            address: int = take("Q")
            words = _until_zero(group, lane, address)
            read(address, len(words) + 1, conversion)
            return (spec + "s") % words.decode("utf-8", "replace")
        if kind == "p":
            pointer: int = take("Q")
            name = hex(pointer) if pointer else "(nil)"  # as in glibc
            room = min(width, _MAX_WIDTH)
            return name.ljust(room) if "-" in flags else name.rjust(room)
        return match[0]

    return _FORMAT.sub(replace, format_)


def _hexadecimal(real: float, flags: str, width: int, precision: int | None) -> str:
    """Format a number like C's ``%a``: without zeros at the end of the fraction."""
    sign = "-" if math.copysign(1, real) < 0 else "+" if "+" in flags else " " * (" " in flags)
    prefix, body = "", str(abs(real))
    if math.isfinite(real):
        mantissa, exponent = abs(real).hex()[2:].split("p")
        digits = mantissa.replace(".", "").ljust(14, "0")  # one digit before the point
        if precision is None or precision < 0:
            digits = digits[0] + digits[1:].rstrip("0")
        elif precision < 13:
            unit = 1 << 4 * (13 - precision)
            whole, rest = divmod(int(digits, 16), unit)
            whole += rest > unit // 2 or (rest == unit // 2 and whole % 2)
            digits = f"{whole:x}".rjust(precision + 1, "0")
        else:
            digits = digits.ljust(min(precision, _MAX_WIDTH) + 1, "0")
        point = "." if len(digits) > 1 or "#" in flags else ""
        prefix, body = "0x", f"{digits[0]}{point}{digits[1:]}p{exponent}"
    room = min(width, _MAX_WIDTH) - len(sign + prefix)
    if "-" in flags:
        return sign + prefix + body.ljust(room)
    if "0" in flags and prefix:
        return sign + prefix + body.rjust(room, "0")
    return (sign + prefix + body).rjust(min(width, _MAX_WIDTH))


def assertfail(
    group: Group,
    message: np.ndarray,
    file: np.ndarray,
    line: np.ndarray,
    function: np.ndarray,
    size: np.ndarray,
) -> None:
    """Raise the error of a failed ``assert`` in CUDA C++."""
    lane = int(group.lanes[0])
    words = _string(group, lane, int(group.spread(message)[0]))
    where = _string(group, lane, int(group.spread(file)[0]))
    block, thread = group.wave.where(lane)
    raise TrapError(
        f"assertion `{words}` failed",
        Location(group.wave.launch.kernel, where, int(group.spread(line)[0]), block, thread),
    )


def malloc(group: Group, size: np.ndarray) -> np.ndarray:
    """Allocate from the device heap, once for each lane; return a null pointer if it is full."""
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


# name → function of the group and the values of the arguments; the SIMT loop handles the grid's
# barrier
INTRINSICS: dict[str, Callable[..., Any]] = {
    "vprintf": vprintf,
    "__assertfail": assertfail,
    "malloc": malloc,
    "free": free,
    "cudaCGGetIntrinsicHandle": _grid_handle,
}
