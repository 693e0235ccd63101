"""Recorded launch: its code and parameters, and the memory before and after it.

What the virtual GPU did once can be done again on another device: the launch holds the PTX, the
geometry, the parameters and every allocation that the kernel can reach from them. Addresses differ
from device to device, so pointers are translated: parameters, and 8-byte words in memory (such as
Awkward Array's tables of addresses) that point into an allocation of this launch. A word that is
not a pointer is translated by mistake only if it holds an integer near 3e10 (the first device
address) that happens to lie inside an allocation of this launch.

Files are ``.npz`` without pickles.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from virtualgpu.errors import LinkError, VirtualGPUError

if TYPE_CHECKING:  # a process that plays launches on a GPU does not import the virtual one
    from virtualgpu.devices.protocol import Device, Triple
    from virtualgpu.devices.virtual import VirtualDevice
    from virtualgpu.launch.linker import LoadedModule
    from virtualgpu.memory.global_memory import GlobalMemory

WORD = 8


@dataclass
class Piece:
    """One allocation: its address, and its bytes before and after (uint8, shape (n,)).

    ``variable`` is the module's name for it, if it is a module's variable. ``unwritten`` has the
    spans (start, end) of bytes that were not written before the launch.
    """

    address: int
    before: np.ndarray
    after: np.ndarray | None = None
    variable: str = ""
    unwritten: list[tuple[int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.address + len(self.before)


@dataclass
class RecordedLaunch:
    """One launch; ``kernel`` is its readable name, ``entry`` its name in the PTX.

    ``note`` says where it comes from, for example a lesson and a cell.
    """

    kernel: str
    entry: str
    texts: tuple[str, ...]
    grid: Triple
    block: Triple
    parameters: list[bytes]
    shared_bytes: int
    cooperative: bool
    pieces: list[Piece]
    note: str = ""
    cluster: Triple | None = None

    @property
    def nbytes(self) -> int:
        return sum(len(piece.before) for piece in self.pieces)

    def __str__(self) -> str:
        return f"{self.kernel}[{shorter(self.grid)}, {shorter(self.block)}]"

    # -- files ---------------------------------------------------------------------------------

    def to_bytes(self, *, compress: bool = False) -> bytes:
        """Return the launch as one ``.npz`` file."""
        described = {
            "kernel": self.kernel,
            "entry": self.entry,
            "texts": self.texts,
            "grid": self.grid,
            "block": self.block,
            "parameters": [raw.hex() for raw in self.parameters],
            "shared_bytes": self.shared_bytes,
            "cooperative": self.cooperative,
            "note": self.note,
            "cluster": self.cluster,
            "pieces": [[p.address, p.variable, p.unwritten] for p in self.pieces],
        }
        arrays = {"launch": np.frombuffer(json.dumps(described).encode(), np.uint8)}
        for number, piece in enumerate(self.pieces):
            arrays[f"before{number}"] = piece.before
            if piece.after is not None:
                arrays[f"after{number}"] = piece.after
        file = io.BytesIO()
        save: Any = np.savez_compressed if compress else np.savez
        save(file, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, raw: bytes) -> RecordedLaunch:
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            told = json.loads(arrays["launch"].tobytes())
            pieces = [
                Piece(
                    address,
                    arrays[f"before{number}"],
                    arrays[f"after{number}"] if f"after{number}" in arrays else None,
                    variable,
                    [tuple(span) for span in unwritten],
                )
                for number, (address, variable, unwritten) in enumerate(told["pieces"])
            ]
        return cls(
            told["kernel"],
            told["entry"],
            tuple(told["texts"]),
            tuple(told["grid"]),
            tuple(told["block"]),
            [bytes.fromhex(text) for text in told["parameters"]],
            told["shared_bytes"],
            told["cooperative"],
            pieces,
            told["note"],
            tuple(told["cluster"]) if told.get("cluster") else None,
        )

    def save(self, path: Path) -> None:
        path.write_bytes(self.to_bytes(compress=True))

    @classmethod
    def load(cls, path: Path) -> RecordedLaunch:
        return cls.from_bytes(path.read_bytes())


def shorter(dimensions: Triple) -> str:
    """Return the dimensions without trailing ones: ``(4, 1, 1)`` as ``4``."""
    x, y, z = dimensions
    return str(x) if (y, z) == (1, 1) else f"({x}, {y})" if z == 1 else str(tuple(dimensions))


# -- recording ----------------------------------------------------------------------------------


def capture(
    device: VirtualDevice,
    module: LoadedModule,
    entry: str,
    grid: Triple,
    block: Triple,
    parameters: list[bytes],
    shared_bytes: int = 0,
    cooperative: bool = False,
    cluster: Triple | None = None,
) -> RecordedLaunch:
    """Record a launch that is about to run, with the present contents of memory."""
    module.program(entry)  # gives addresses to the variables that it uses
    memory = device.memory
    variables = {address: name for name, address in module.placed().items()}
    starts = _reachable(memory, parameters, list(variables))
    pieces = []
    for start in starts:
        extent = memory.extent(start)
        assert extent is not None
        end = extent[1]
        pieces.append(
            Piece(
                start,
                memory.read(start, end - start),
                None,
                variables.get(start, ""),
                _unwritten(memory, start, end - start),
            )
        )
    return RecordedLaunch(
        module.display_name(entry),
        entry,
        tuple(module.texts),
        cast("Triple", tuple(grid)),
        cast("Triple", tuple(block)),
        [bytes(raw) for raw in parameters],
        shared_bytes,
        bool(cooperative),
        pieces,
        cluster=cluster,
    )


def finish(launch: RecordedLaunch, device: Device) -> RecordedLaunch:
    """Add the contents of memory after the launch."""
    for piece in launch.pieces:
        piece.after = device.read(piece.address, len(piece.before))
    return launch


def _reachable(memory: GlobalMemory, parameters: list[bytes], more: list[int]) -> list[int]:
    """Return the starts of the allocations that a kernel can reach, in order of address."""
    live = memory.starts, memory.ends
    starts, ends = (np.array(one, np.uint64) for one in live)
    words = [np.frombuffer(raw[: len(raw) // WORD * WORD], np.uint64) for raw in parameters]
    waiting = [_allocations(word, starts, ends) for word in words if len(word)]
    todo = {start for found in waiting for start in found} | set(more)
    seen: set[int] = set()
    full: list[int] = []
    while todo:
        start = todo.pop()
        seen.add(start)
        extent = memory.extent(start)
        assert extent is not None
        nbytes = extent[1] - start
        if nbytes:
            full.append(start)
        content = memory.read(start, nbytes // WORD * WORD).view(np.uint64)
        todo |= set(_allocations(content, starts, ends)) - seen
    return sorted(full)


def _allocations(words: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> list[int]:
    """Return the starts of the allocations to which any of the words points."""
    at, inside = _find(words, starts, ends)
    return np.unique(starts[at[inside]]).tolist()


def _find(words: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each word's last start not above it, and True for each word inside."""
    if not len(starts):
        return np.zeros(len(words), np.int64), np.zeros(len(words), bool)
    at = np.searchsorted(starts, words, side="right").astype(np.int64) - 1
    inside = at >= 0
    at = np.maximum(at, 0)
    return at, inside & (words < ends[at])


def _unwritten(memory: GlobalMemory, start: int, nbytes: int) -> list[tuple[int, int]]:
    known = memory.unwritten.get(start)
    if known is None or not known.left:
        return []
    written = known.map()[:nbytes].astype(np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate(([1], written, [1]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


# -- playing ------------------------------------------------------------------------------------


def play(
    launch: RecordedLaunch,
    device: Device,
    *,
    module: Any = None,
    poison: bool = True,
    placed: Callable[[list[int]], None] = lambda addresses: None,
) -> list[np.ndarray]:
    """Run the launch on ``device``; return every piece afterwards, with recorded addresses.

    Parameters
    ----------
    module
        The module, if it is already loaded on the device.
    poison
        Fill unwritten bytes with the virtual GPU's poison. If false, they keep the contents of the
        device's memory, and a checker can see that they were never written.
    placed
        Function that is called before the launch with the addresses of the pieces on the device.

    Errors of the device are raised too.
    """
    if module is None:
        module = device.load(list(launch.texts))
    owned: list[int] = []
    try:
        there = []
        for piece in launch.pieces:
            address = None
            if piece.variable:
                address = _variable(device, module, piece)
            else:
                owned.append(address := device.allocate(len(piece.before)))
            there.append(address)
        outward = _AddressTranslation(launch.pieces, there, inward=False)
        for piece, address in zip(launch.pieces, there, strict=True):
            if address is not None:
                _write(device, address, outward(piece.before), [] if poison else piece.unwritten)
        placed([address or 0 for address in there])
        parameters = [outward(np.frombuffer(raw, np.uint8)).tobytes() for raw in launch.parameters]
        device.launch(
            module,
            launch.entry,
            launch.grid,
            launch.block,
            parameters,
            launch.shared_bytes,
            launch.cooperative,
            launch.cluster,
        )
        device.synchronize()
        inward = _AddressTranslation(launch.pieces, there, inward=True)
        # A hidden variable of the module cannot be read, so its recorded contents are returned.
        return [
            inward(device.read(address, len(piece.before))) if address is not None else piece.after  # type: ignore[misc]  # a record that is played is finished
            for piece, address in zip(launch.pieces, there, strict=True)
        ]
    finally:
        for address in owned:
            with suppress(VirtualGPUError):  # raised by a GPU that the launch has spoiled
                device.free(address)


def _variable(device: Device, module: Any, piece: Piece) -> int | None:
    """Return the device address of a module's variable; None if none of that size is visible."""
    try:
        address, nbytes = device.symbol(module, piece.variable)
    except LinkError:
        return None
    return address if nbytes == len(piece.before) else None


def _write(device: Device, address: int, data: np.ndarray, gaps: list[tuple[int, int]]) -> None:
    at = 0
    for start, end in [*gaps, (len(data), len(data))]:
        if start > at:
            device.write(address + at, data[at:start])
        at = end


class _AddressTranslation:
    """Translator of words that point into a piece, from one device's addresses to the other's."""

    def __init__(self, pieces: list[Piece], there: list[int | None], *, inward: bool):
        pairs = sorted(
            (address, piece.address, len(piece.before))
            if inward
            else (piece.address, address, len(piece.before))
            for piece, address in zip(pieces, there, strict=True)
            if address is not None
        )
        self._same = all(origin == target for origin, target, _ in pairs)
        self._starts = np.array([origin for origin, _, _ in pairs], np.uint64)
        self._ends = np.array([origin + n for origin, _, n in pairs], np.uint64)
        self._targets = np.array([target for _, target, _ in pairs], np.uint64)

    def __call__(self, raw: np.ndarray) -> np.ndarray:
        whole = len(raw) // WORD * WORD
        if self._same or not whole:
            return raw
        words = np.ascontiguousarray(raw[:whole]).view(np.uint64)
        at, inside = _find(words, self._starts, self._ends)
        if not inside.any():
            return raw
        words = words.copy()
        words[inside] += self._targets[at[inside]] - self._starts[at[inside]]
        return np.concatenate((words.view(np.uint8), raw[whole:]))
