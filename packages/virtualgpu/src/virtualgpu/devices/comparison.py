"""Comparison of two devices' results for one launch.

Results must be equal to the last bit, because PTX defines what most instructions compute. A launch
may differ only for one of these reasons:

- *approximate* instructions (``sin.approx``, ``div.full`` …), for which PTX gives an error bound;
- *contraction*: the assembler makes one ``fma`` of a multiplication and an addition where PTX
  leaves it free to; found by assembling the kernel with and without;
- *order*: sums of floats by atomics, or whatever else differs on the virtual GPU itself when it
  runs its threads in another order;
- *hardware*: the kernel reads a clock or the number of its multiprocessor;
- *fault*: the checkers of the virtual GPU find a race or a read of unwritten memory, as in
  the kernels that lessons break on purpose.

Integers must be equal unless the order of threads decides them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from virtualgpu.devices.real import cubin
from virtualgpu.devices.recorded import Piece, RecordedLaunch, play
from virtualgpu.devices.virtual import VirtualDevice
from virtualgpu.errors import LinkError, VirtualGPUError
from virtualgpu.lanes.events import Access, Observer
from virtualgpu.watch import instruments

EQUAL, BOUNDED, ORDER, HARDWARE, FAULT, DIFFERS = (
    "equal",
    "within bounds",
    "order of threads",
    "hardware",
    "faulty on purpose",
    "DIFFERS",
)
#: Tolerance by the size of a float in bytes. Two correct orders of addition differ by rounding: n
#: additions of similar numbers differ by at most n units in the last place, in practice by about
#: sqrt(n). For n = 1e4 that is 1e-5 in float32.
TOLERANCE = {2: 2e-2, 4: 1e-4, 8: 1e-9}
#: Part of the integers that may differ if contraction decides them, such as the steps until a point
#: near the border is lost. On an H200 it was at most 1 in 1,800.
DECIDED = 1 / 500
CONTRACTION = "contraction"
#: Verdicts that need no attention.
FINE = (EQUAL, BOUNDED, ORDER, HARDWARE, FAULT)
#: Seeds of the thread orders in which the virtual GPU repeats a launch.
SEEDS = (1, 2, 3)

_APPROXIMATE = re.compile(r"\b\w+\.(?:approx|full)(?:\.ftz)?\.(?:ftz\.)?f(?:16|32|64)")
_FLOAT_ATOMIC = re.compile(r"\b(?:atom|red)\.[\w.:]*add[\w.:]*\.(?:noftz\.)?b?f(?:16|32|64)")
_HARDWARE = re.compile(r"%(?:clock|globaltimer|smid|nsmid|warpid|nwarpid|gridid|lanemask_never)\w*")


@dataclass
class Agreement:
    """Agreement between two results of one launch.

    ``nbytes`` bytes were compared, and ``differing`` elements are not equal. ``worst`` is the
    largest difference of two floats, relative to the larger one; near zero, it is relative to the
    largest of the floats that differ. ``unknown`` names a reason that could not be checked, and
    why.
    """

    verdict: str
    reasons: list[str] = field(default_factory=list)
    nbytes: int = 0
    differing: int = 0
    worst: float = 0.0
    detail: str = ""
    unknown: str = ""

    @property
    def fine(self) -> bool:
        return self.verdict in FINE


def compare(
    launch: RecordedLaunch,
    got: list[np.ndarray],
    new_device: Callable[[], VirtualDevice] = VirtualDevice,
) -> Agreement:
    """Compare ``got``, from :func:`~virtualgpu.devices.recorded.play`, with the record.

    A launch with different results is repeated on a device that ``new_device`` creates.
    """
    wrong = [
        (piece, other)
        for piece, other in zip(launch.pieces, got, strict=True)
        if piece.after is None or not np.array_equal(piece.after, other)
    ]
    written = sum(len(piece.before) for piece in launch.pieces)
    if not wrong:
        return Agreement(EQUAL, nbytes=written)
    again = _Again(launch, new_device)
    reasons, unknown = _reasons(launch)
    reasons += again.reasons
    result = Agreement(DIFFERS, reasons, written, unknown=unknown)
    again.least = _least_exact("\n".join(launch.texts))
    verdicts = [_compare_piece(piece, other, again, result) for piece, other in wrong]
    if again.faults:
        result.verdict, result.detail = FAULT, again.faults[0]
    elif HARDWARE in reasons:
        result.verdict = HARDWARE
    elif DIFFERS in verdicts or not reasons:
        result.verdict = DIFFERS
    else:
        result.verdict = ORDER if ORDER in verdicts else BOUNDED
    if result.verdict == DIFFERS and not result.detail:
        result.detail = _first(*wrong[0], again.types.get(wrong[0][0].address, set()))
    if result.verdict == DIFFERS and unknown:
        result.detail += f"; {unknown}"
    return result


def _compare_piece(piece: Piece, got: np.ndarray, again: _Again, result: Agreement) -> str:
    assert piece.after is not None
    types = again.types.get(piece.address, set())
    varies = again.varies.get(piece.address)
    for code in _float_types(piece, got, types):
        a, b = piece.after.view(code), got.view(code)
        good, worst = close(a, b, min(a.itemsize, again.least))
        if varies is not None:
            good |= varies.reshape(-1, a.itemsize).any(axis=1)
        if good.all():
            result.differing += int((a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")).sum())
            result.worst = max(result.worst, worst)
            return BOUNDED
    width = _width(piece, types)
    a, b = (raw.reshape(-1, width) for raw in (piece.after, got))
    unequal = (a != b).any(axis=1)
    result.differing += int(unequal.sum())
    if CONTRACTION in result.reasons and unequal.sum() <= max(1, DECIDED * len(unequal)):
        return BOUNDED
    if varies is not None:
        decided = varies.reshape(-1, width).any(axis=1)
        if not (unequal & ~decided).any() or _same_set(a, b):
            return ORDER
    result.detail = result.detail or _first(piece, got, types)
    return DIFFERS


def _float_types(piece: Piece, got: np.ndarray, types: set[str]) -> list[str]:
    """Return the float types to compare with a tolerance: those that the kernel stores."""
    codes = [code for name, code in (("f64", "f8"), ("f32", "f4"), ("f16", "f2")) if name in types]
    return [code for code in codes if len(got) % int(code[1]) == 0]


def close(a: np.ndarray, b: np.ndarray, least: int = 8) -> tuple[np.ndarray, float]:
    """Return the mask of elements within the grader's tolerance, and their worst difference.

    ``least`` is the size in bytes of the least exact type in the computation, if that is smaller
    than the arrays' own type.
    """
    same = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
    same |= np.isnan(a) & np.isnan(b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(y)
        # Use only the floats that differ, not counts or addresses that are stored beside them.
        scale = np.abs(x[finite & ~same]).max(initial=0.0)
        larger = np.maximum(np.abs(x), np.abs(y))
        # Integers that are read as floats are tiny: no kernel of the course uses denormal floats.
        normal = larger >= np.finfo(a.dtype).tiny
        off = np.where(finite, np.abs(x - y), np.inf)
        tolerance = TOLERANCE[min(a.itemsize, least)]
        near = normal & (off <= tolerance * np.maximum(larger, scale))
        worst = float((off[near & ~same] / np.maximum(larger, scale)[near & ~same]).max(initial=0))
    return same | near, worst


def _width(piece: Piece, types: set[str]) -> int:
    """Return an element's size in bytes: the widest store that divides the array."""
    bits = {int(digits) for kind in types if (digits := kind.lstrip("bfsu")).isdigit()}
    return max((n // 8 for n in bits if n >= 8 and len(piece.before) % (n // 8) == 0), default=1)


def _same_set(a: np.ndarray, b: np.ndarray) -> bool:
    """Return True if two arrays hold the same elements in another order.

    This is so for lists that threads fill in any order.
    """
    first, second = (raw[np.lexsort(raw.T)] for raw in (a, b))
    return np.array_equal(first, second)


def _first(piece: Piece, got: np.ndarray, types: set[str]) -> str:
    """Describe the first element that differs."""
    names = {
        "f64": "f8",
        "f32": "f4",
        "s64": "i8",
        "u64": "u8",
        "s32": "i4",
        "u32": "u4",
        "u16": "u2",
        "s16": "i2",
        "u8": "u1",
        "s8": "i1",
        "f16": "f2",
    }
    assert piece.after is not None
    code = next((names[name] for name in sorted(types) if name in names), "u1")
    if len(got) % np.dtype(code).itemsize:
        code = "u1"
    a, b = piece.after.view(code), got.view(code)
    at = int(np.flatnonzero(piece.after != got)[0]) // a.itemsize
    return (
        f"element {at} of {len(a)} ({np.dtype(code).name}): {b[at]} there, {a[at]} on the "
        "virtual GPU"
    )


def _least_exact(text: str) -> int:
    """Return the size of the least exact type that a kernel approximates or adds atomically.

    The result is 8 if it does neither.
    """
    found = [*_APPROXIMATE.findall(text), *_FLOAT_ATOMIC.findall(text)]
    return min((int(one[-2:]) // 8 for one in found), default=8)


def _reasons(launch: RecordedLaunch) -> tuple[list[str], str]:
    """Return reasons why two devices may differ on a kernel, and what could not be checked."""
    text = "\n".join(launch.texts)
    found = []
    if match := _APPROXIMATE.search(text):
        found.append(f"approximate ({match[0]})")
    if _FLOAT_ATOMIC.search(text):
        found.append("order (atomic additions of floats)")
    if _HARDWARE.search(text):
        found.append(HARDWARE)
    try:
        if cubin.contracts(launch.texts):
            found.append(CONTRACTION)
    except (LinkError, OSError) as error:
        why = str(error).strip().splitlines()
        return found, (
            "it is unknown whether the assembler fuses a multiplication and an addition: "
            f"{type(error).__name__}: {why[0] if why else 'no message'}"
        )
    return found, ""


class _Again:
    """Repetition of the launch on a virtual GPU, under its checkers and in other orders.

    Attributes
    ----------
    types : dict of int to set of str
        By the piece's address: the types of the stores and atomics that write to it, such as
        ``f32``.
    varies : dict of int to ndarray of bool
        By the piece's address: the bytes that another order of threads changes.
    faults : list of str
    least : int
        Size in bytes of the least exact type that the kernel uses in a computation that may
        differ.
    """

    def __init__(self, launch: RecordedLaunch, new_device: Callable[[], VirtualDevice]):
        self._new_device = new_device
        self.least = 8
        self.types: dict[int, set[str]] = {}
        self.varies: dict[int, np.ndarray] = {}
        self.faults: list[str] = []
        stores = _Stores()
        with instruments.alone():
            first = self._play(launch, stores)
        for seed in SEEDS if first is not None else ():
            with instruments.alone(), instruments.schedule(seed):
                other = self._play(launch, None)
            for piece, a, b in zip(launch.pieces, first, other or first, strict=True):
                if (unequal := a != b).any():
                    self.varies[piece.address] = self.varies.get(piece.address, False) | unequal
        for number, piece in enumerate(launch.pieces):
            self.types[piece.address] = stores.types.get(number, set())

    @property
    def reasons(self) -> list[str]:
        return ["order (the virtual GPU's own answer depends on it)"] if self.varies else []

    def _play(self, launch: RecordedLaunch, stores: _Stores | None):
        device = self._new_device()
        try:
            if stores is None:
                return play(launch, device)
            with instruments.check() as report, instruments.watch(stores):
                after = play(
                    launch,
                    device,
                    poison=False,
                    placed=lambda at: stores.expect(
                        at, [len(piece.before) for piece in launch.pieces]
                    ),
                )
            self.faults += [f"{one.kind}: {one.message}" for one in report.findings]
            return after
        except VirtualGPUError as error:
            self.faults.append(str(error).split("\n")[0])
            return None


class _Stores(Observer):
    """Observer of the types of numbers that are stored in each piece."""

    def __init__(self):
        self.types: dict[int, set[str]] = {}
        self._starts = np.zeros(0, np.uint64)

    def expect(self, addresses: list[int], sizes: list[int]) -> None:
        order = np.argsort(np.array(addresses, np.uint64))
        self._numbers = order
        self._starts = np.array(addresses, np.uint64)[order]
        self._ends = self._starts + np.array(sizes, np.uint64)[order]

    def accessed(self, access: Access) -> None:
        if access.space != "global" or access.kind == "load" or not len(self._starts):
            return
        at = np.searchsorted(self._starts, access.addresses, side="right").astype(np.int64) - 1
        kind = access.instruction.modifiers[-1]
        for place in np.unique(at[at >= 0]).tolist():
            self.types.setdefault(int(self._numbers[place]), set()).add(kind)
