"""Records of compiled kernels, stored as JSON beside their machine code.

A process that finds a kernel's record loads the machine code and runs it. It need not generate the
LLVM assembly from which the code was compiled, which takes 0.1 s. So the record's key has to
contain everything that decides the assembly: the PTX, the variant, and the size and time of the
package's files that generate it, by which Python also recognises a changed file. The assembly
contains the addresses of variables, which may differ between processes. The record lists them, and
is not used if a variable now has another address.
"""

from __future__ import annotations

import functools
import json
import os
import re
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from virtualgpu.compilers import cache, llvm
from virtualgpu.program.program import Program

_ROOMS = ("ptx", "compilers", "operations", "memory", "program", "lanes", "launch", "native")
# A kernel's line numbers change with each cell of a notebook, and the code does not contain them.
_LINES = re.compile(
    r"^[ \t]*\.(?:loc[ \t]+\d+[ \t]+\d+[ \t]+\d+"
    r"(?:, function_name [\w$]+, inlined_at \d+ \d+ \d+)?"
    r'|file[ \t]+\d+[ \t]+"[^"\n]*")[ \t]*$',
    re.MULTILINE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Record:
    """The compiled form of a kernel, kept from launch to launch.

    Attributes
    ----------
    code : list of str
        Functions to load (:func:`virtualgpu.compilers.llvm.load`); the kernel's own is the last.
        The first is :func:`.block_loop.run_blocks` unless the kernel has resident blocks.
    variables : dict
        Device addresses that the code contains, by name.
    sites : list of (int, int)
        Place of each memory instruction, and the index of its step there.
    limits : list of int
        Bytes of local memory that each memory instruction may access.
    adds : list of int
        Size of the integer that each memory instruction adds (:func:`.privatisation.width`).
    state_size, local_size : int
        Bytes of a waiting warp's state, and of a thread's local memory including called functions.
    ordered : bool
        True if the blocks have to run in order, on one core.
    atomics : bool
        True if atomics of several blocks may access the same memory.
    grid_barrier : bool
        True if the kernel has a grid barrier.
    given : list of str
        Words of the context that a launch has to fill (:func:`.core.given`).
    row_length : int
        Lanes of a row (:mod:`.affine.lines`).
    loop_state_bytes : int
        Bytes of the registers that loops show because they decide control flow.
    loop_heads : list
        These loops: place, a flag that memory also decides, slots, and for each register the offset
        of its first byte, its dtype and a flag that each lane has its own value.
    parked : dict or None
        Arguments of :class:`~.state_layout.StateLayout`, for kernels with resident blocks.
    grain : list or None
        Fields of a checked kernel's :class:`~virtualgpu.native.watched.rules.Grain`.
    """

    code: list[str]
    variables: dict[str, int]
    sites: list[tuple[int, int]]
    limits: list[int]
    adds: list[int]
    state_size: int
    local_size: int
    ordered: bool
    atomics: bool
    grid_barrier: bool
    given: list[str]
    row_length: int
    loop_state_bytes: int
    loop_heads: list[Any]
    parked: dict[str, Any] | None
    grain: list[Any] | None


def fetch(program: Program, variant: str) -> Record | str | None:
    """Load and return the record that an earlier process stored, or its reason for refusal.

    Returns None if there is neither.
    """
    key = _key(program, variant)
    raw = None if key is None else cache.fetch(key)
    if raw is None:
        return None
    try:
        fields = json.loads(raw)
        if isinstance(fields, str):
            return fields
        record = Record(**fields)
    except (ValueError, TypeError):
        return None
    placed = program.module.address
    if any(placed(name) != address for name, address in record.variables.items()):
        return None
    return record if llvm.load(record.code) else None


def is_kept(program: Program, variant: str) -> bool:
    """Return True if :func:`fetch` would find something."""
    key = _key(program, variant)
    return key is not None and cache.has(key)


def keep(program: Program, variant: str, record: Record | str) -> None:
    """Store a record for the next process, or the reason why the kernel has no native code."""
    key = _key(program, variant)
    if key is not None:
        fields = record if isinstance(record, str) else asdict(record)
        cache.keep(key, json.dumps(fields, separators=(",", ":")).encode())


def _key(program: Program, variant: str) -> bytes | None:
    if cache.folder() is None or not (sources := _sources()):
        return None
    said = [
        llvm.compiler(),
        sources,
        variant if program.ran is None else f"{variant}, marked",
        program.name,
        str(program.fine),
        str(program.followed),
        *(_LINES.sub("", text) for text in program.module.texts),
    ]
    digest = blake2b(b"record", digest_size=cache.KEY)
    for one in said:
        raw = one.encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.digest()


@functools.cache
def _sources() -> str:
    """Return names, sizes and times of the files that decide a kernel's code.

    The result is empty if they are not files on disk.
    """
    found = []
    package = Path(__file__).parents[1]
    for room in _ROOMS:
        for folder, inside, names in os.walk(package / room):
            inside[:] = sorted(set(inside) - {"__pycache__"})
            for name in sorted(names):
                status = os.stat(os.path.join(folder, name))
                found.append(f"{folder}/{name} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(found)
