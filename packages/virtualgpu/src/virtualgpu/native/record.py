"""Record of a kernel's machine code: plain numbers, on disk as JSON beside it.

A process that finds a kernel's record loads its code and runs it, without the LLVM text of which
the code was made: to write that text takes 0.1 s. So the key has to stand for all that decides the
text: the PTX, the variant, and the files of the packages that write it, by size and time, as Python
itself knows a changed file. Addresses of variables stand in the text too, and may differ between
processes: the record has them, and is not used where a variable lies elsewhere now.
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
# Where a kernel stands in its source moves with each cell of a notebook; it is in no code.
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
        The functions to load (:func:`virtualgpu.compilers.llvm.load`), the kernel's own the last;
        the first, where blocks do not run side by side, is :func:`.block_loop.run_blocks`.
    variables : dict
        Device addresses that stand in the code, by name.
    sites : list of (int, int)
        Of each memory instruction its place, and which step of it.
    limits : list of int
        Of each, up to which byte of local memory it may reach.
    adds : list of int
        Of each, bytes of an integer that it adds, by :func:`.privatisation.width`.
    state_size, local_size : int
        Bytes that a warp keeps while it waits, and of a thread's local memory, calls included.
    ordered : bool
        Whether its blocks have to run in their order, on one core.
    atomics : bool
        Whether blocks may meet in atomics.
    grid_barrier : bool
        Whether it waits for the whole grid.
    given : list of str
        Words of the context that a launch has to fill (:func:`.core.given`).
    row_length : int
        Lanes of a row (:mod:`.affine.lines`).
    loop_state_bytes : int
        Bytes that loops show of the registers which decide how they go on.
    loop_heads : list
        These loops: place, whether memory decides too, slots, and of each register its first byte,
        its dtype and whether each lane has its own.
    parked : dict or None
        Where blocks run side by side: what :class:`~.state_layout.StateLayout` is made of.
    grain : list or None
        The fields of a checked kernel's :class:`~virtualgpu.native.watched.rules.Grain`.
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
    """Load and return the record that a process has left, or why there is no code.

    None without either.
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
    """Return True if there is something for :func:`fetch`."""
    key = _key(program, variant)
    return key is not None and cache.has(key)


def keep(program: Program, variant: str, record: Record | str) -> None:
    """Leave it for the next process, or why native code cannot be the same as the machine."""
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

    Empty where they are no files.
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
