"""Counters of a launch: instructions, memory traffic, conflicts, divergence.

Names and meanings are those of Nsight Compute if it has them (:mod:`.nsight`). The counts are of
PTX:

- A *warp instruction* is one PTX instruction issued for a warp with at least one active lane; a
  *thread instruction* is one lane of it (``smsp__inst_executed``,
  ``smsp__thread_inst_executed``). A real GPU runs SASS, into which PTX is assembled: its
  numbers differ by a factor that is much the same for versions of one kernel.
- A *request* is one memory instruction of one warp. A global request touches *sectors*, aligned
  pieces of 32 bytes (``l1tex__t_sectors``). *Ideal* sectors are those that its different bytes
  would fill if they were adjacent.
- A shared request takes *wavefronts* (``l1tex__data_pipe_lsu_wavefronts_mem_shared``): shared
  memory has 32 banks of 4 bytes, and each wavefront takes one word from each bank. Lanes that
  read the same word share it. Accesses of 8 bytes are served by half warps and those of 16 bytes
  by quarter warps, so 2 and 4 wavefronts are not conflicts. *Conflicts* are the wavefronts in
  excess of these.
- Atomics of one warp on one address are executed one after the other, in *passes*.

These are not modelled: caches (every sector counts, even if it was just read), merging of requests
of different warps, write-back, replays, latency, occupancy and time. Constant memory and kernel
parameters are not counted as memory.

Counts are exact and repeatable for the default schedule. A random schedule splits warps and
therefore increases the counts of requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from virtualgpu.program.fragments import Shape
from virtualgpu.ptx.opcodes import traits
from virtualgpu.wording import many

Line = tuple[str | None, int | None]

# A maximum; the others are sums.
LARGEST = {
    "atomic_contention",
    "atomic_hottest",
    "busiest_instructions",
    "busiest_accesses",
    "span_instructions",
    "span_accesses",
}


@dataclass
class Counters:
    """Counts of one launch, or of one source line of it.

    Attributes
    ----------
    warp_instructions, thread_instructions : int
    warp_instructions_by_class, thread_instructions_by_class : dict of str to int
        Classes: float, integer, logic, comparison, conversion, move, special (square roots,
        sines, exponentials), memory, parameter (which a real GPU finds in constant memory),
        atomic, control, synchronisation, warp (votes and shuffles), tensor (products of matrices,
        and wmma's loads and stores), other.
    flops : int
        Floating point operations of threads: fma counts two, packed halves twice.
    lanes_lost : int
        Lanes of executed warp instructions that were not active, because they took another branch,
        had ended, or did not exist (if the block size is not a multiple of 32).
    branches, divergent_branches : int
        Conditional branches of warps, and those at which the lanes of the warp diverged.
    global_loads, global_stores : int
        Accesses of threads; ``…_requests``: of warps.
    global_load_sectors, global_load_ideal_sectors, global_store_sectors, … : int
    shared_loads, shared_stores, shared_load_wavefronts, shared_load_conflicts, … : int
    local_loads, local_stores : int
        Accesses of threads to their local arrays and spilled variables.
    global_atomics, shared_atomics : int
        Updates by threads; ``…_requests``: by warps.
    atomic_passes : int
        Passes of atomics: for each request, the lanes on the address that most lanes share.
    atomic_contention : int
        Largest number of lanes of one warp on one address in one instruction.
    atomic_hottest : int
        Updates of the most updated address in the whole launch.
    barriers : int
        Number of times that a block passed a barrier; a grid barrier counts once per block.
    warp_barriers, fences : int
        ``syncwarp`` and memory fences, per warp.
    global_bytes_read, global_bytes_written, shared_…, local_… : int
        Bytes that threads requested. An atomic both reads and writes.
    busiest_instructions, busiest_accesses : int
        Instructions, and accesses to global and shared memory, of the thread with the most in the
        whole launch. 0 for a line.
    span_instructions, span_accesses : int
        The same counts along the critical path of the longest block: between two barriers, the
        counts of the busiest warp, added up. An interval without work counts one. 0 for a line.
    threads_at_work : int
        Number of threads with at least one such access. 0 for a line.
    by_line : dict
        ``(filename, line)`` → Counters of that line; empty for a line.
    """

    warp_instructions: int = 0
    thread_instructions: int = 0
    warp_instructions_by_class: dict[str, int] = field(default_factory=dict)
    thread_instructions_by_class: dict[str, int] = field(default_factory=dict)
    flops: int = 0
    lanes_lost: int = 0
    branches: int = 0
    divergent_branches: int = 0
    global_loads: int = 0
    global_load_requests: int = 0
    global_load_sectors: int = 0
    global_load_ideal_sectors: int = 0
    global_stores: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    global_store_ideal_sectors: int = 0
    shared_loads: int = 0
    shared_load_requests: int = 0
    shared_load_wavefronts: int = 0
    shared_load_conflicts: int = 0
    shared_stores: int = 0
    shared_store_requests: int = 0
    shared_store_wavefronts: int = 0
    shared_store_conflicts: int = 0
    local_loads: int = 0
    local_stores: int = 0
    global_atomics: int = 0
    global_atomic_requests: int = 0
    shared_atomics: int = 0
    shared_atomic_requests: int = 0
    atomic_passes: int = 0
    atomic_contention: int = 0
    atomic_hottest: int = 0
    barriers: int = 0
    warp_barriers: int = 0
    fences: int = 0
    global_bytes_read: int = 0
    global_bytes_written: int = 0
    shared_bytes_read: int = 0
    shared_bytes_written: int = 0
    local_bytes_read: int = 0
    local_bytes_written: int = 0
    busiest_instructions: int = 0
    busiest_accesses: int = 0
    span_instructions: int = 0
    span_accesses: int = 0
    threads_at_work: int = 0
    by_line: dict[Line, Counters] = field(default_factory=dict)

    # -- derived -------------------------------------------------------------------------------

    @property
    def global_requests(self) -> int:
        """Loads and stores of warps, without atomics."""
        return self.global_load_requests + self.global_store_requests

    @property
    def global_sectors(self) -> int:
        return self.global_load_sectors + self.global_store_sectors

    @property
    def coalescing(self) -> float:
        """Return ideal sectors over sectors of loads and stores.

        It is 1 if every moved byte is used, and nan without global accesses.
        """
        ideal = self.global_load_ideal_sectors + self.global_store_ideal_sectors
        return _ratio(ideal, self.global_sectors)

    @property
    def load_coalescing(self) -> float:
        return _ratio(self.global_load_ideal_sectors, self.global_load_sectors)

    @property
    def store_coalescing(self) -> float:
        return _ratio(self.global_store_ideal_sectors, self.global_store_sectors)

    @property
    def sectors_per_request(self) -> float:
        return _ratio(self.global_sectors, self.global_requests)

    @property
    def bank_conflicts(self) -> int:
        """Return the bank conflicts of shared loads and stores."""
        return self.shared_load_conflicts + self.shared_store_conflicts

    @property
    def atomics(self) -> int:
        return self.global_atomics + self.shared_atomics

    @property
    def active_lanes(self) -> float:
        """Mean number of active lanes of a warp instruction, at most 32."""
        return _ratio(self.thread_instructions, self.warp_instructions)

    def add(self, other: Counters) -> None:
        """Add the counts of another launch or line; of maxima, keep the larger."""
        for name in _SUMS:
            if more := getattr(other, name):  # most counts of a line are 0
                setattr(self, name, getattr(self, name) + more)
        for name in LARGEST:
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        for name in _BY_CLASS:
            mine = getattr(self, name)
            for kind, count in getattr(other, name).items():
                mine[kind] = mine.get(kind, 0) + count
        for line, counters in other.by_line.items():
            self.by_line.setdefault(line, Counters()).add(counters)

    def __str__(self) -> str:
        rows = [
            (
                "instructions",
                f"{self.thread_instructions:,} of threads, "
                f"{self.warp_instructions:,} of warps, "
                f"{self.active_lanes:.1f} of 32 lanes active",
            ),
            ("branches", f"{self.branches:,}, {self.divergent_branches:,} divergent"),
        ]
        for kind in ("load", "store"):
            requests = getattr(self, f"global_{kind}_requests")
            if requests:
                touched = getattr(self, f"global_{kind}_sectors")
                rows.append(
                    (
                        f"global {kind}s",
                        f"{many(requests, 'request')}, {many(touched, 'sector')}, "
                        f"{getattr(self, f'{kind}_coalescing'):.0%} coalesced",
                    )
                )
        for kind in ("load", "store"):
            requests = getattr(self, f"shared_{kind}_requests")
            if requests:
                conflicts = getattr(self, f"shared_{kind}_conflicts")
                waves = getattr(self, f"shared_{kind}_wavefronts")
                rows.append(
                    (
                        f"shared {kind}s",
                        f"{many(requests, 'request')}, {many(waves, 'wavefront')}, "
                        f"{many(conflicts, 'bank conflict')}",
                    )
                )
        if self.local_loads or self.local_stores:
            rows.append(
                ("local memory", f"{self.local_loads:,} loads, {self.local_stores:,} stores")
            )
        if self.atomics:
            rows.append(
                (
                    "atomics",
                    f"{self.global_atomics:,} global, {self.shared_atomics:,} "
                    f"shared, worst contention {many(self.atomic_contention, 'lane')}, "
                    f"hottest address {many(self.atomic_hottest, 'update')}",
                )
            )
        if self.barriers:
            rows.append(("barriers", f"{self.barriers:,}"))
        return "\n".join(f"{name:14}{text}" for name, text in rows)


_BY_CLASS = ("warp_instructions_by_class", "thread_instructions_by_class")
# Looked up once, because a launch adds the counts of each of its lines.
_SUMS = tuple(
    item.name for item in fields(Counters) if item.name not in (*LARGEST, *_BY_CLASS, "by_line")
)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def add_access(
    counters: Counters,
    space: str,
    kind: str,
    size: int,
    lanes: int,
    requests: int,
    moved: int,
    least: int,
    hottest: int,
) -> None:
    """Count an access of ``lanes`` lanes to ``size`` bytes each.

    ``moved`` is the number of sectors of global memory or wavefronts of shared memory, and
    ``least`` the smallest possible number. For atomics they are the passes, and the largest number
    of lanes of one warp on one address. ``hottest`` is the largest number of updates of one word
    so far in this launch. For local memory only lanes are counted.
    """

    def add(name: str, value: int) -> None:
        setattr(counters, name, getattr(counters, name) + value)

    if kind != "store":
        add(f"{space}_bytes_read", lanes * size)
    if kind != "load":
        add(f"{space}_bytes_written", lanes * size)
    access = f"{space}_{kind}"
    add(f"{access}s", lanes)
    if space == "local":
        return
    add(f"{access}_requests", requests)
    if kind == "atomic":
        counters.atomic_passes += moved
        counters.atomic_contention = max(counters.atomic_contention, least)
        counters.atomic_hottest = max(counters.atomic_hottest, hottest)
    elif space == "global":
        add(f"{access}_sectors", moved)
        add(f"{access}_ideal_sectors", least)
    else:
        add(f"{access}_wavefronts", moved)
        add(f"{access}_conflicts", moved - least)


# -- classes of instructions --------------------------------------------------------------------


def class_of(instruction) -> str:
    """Return the class of a PTX instruction; see :class:`Counters`."""
    counted = traits(instruction).counted
    if counted == "memory" and "param" in instruction.modifiers:
        return "parameter"
    if counted == "arithmetic":
        return "float" if _is_float(instruction) else "integer"
    return counted


def flops_of(instruction) -> int:
    """Return the floating point operations of one lane."""
    opcode = traits(instruction)
    if opcode.counted == "tensor":
        return _product_flops(instruction)
    if not _is_float(instruction):
        return 0
    return opcode.flops * (2 if instruction.modifiers[-1].endswith("x2") else 1)


def _product_flops(instruction) -> int:
    """Return one lane's share of the floating-point operations of a matrix product."""
    shape = next(filter(None, map(Shape.of, instruction.modifiers)), None)
    if shape is None or {"load", "store", "s32"} & set(instruction.modifiers):
        return 0
    return 2 * shape.m * shape.n * shape.k // 32


def _is_float(instruction) -> bool:
    kind = instruction.modifiers[-1] if instruction.modifiers else ""
    return kind.startswith(("f", "bf")) and kind[-1].isdigit()
