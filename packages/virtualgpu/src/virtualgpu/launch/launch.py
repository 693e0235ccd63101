"""Execution of one launch: a grid of blocks with its parameters, budget and observers."""

from __future__ import annotations

import itertools
import logging
import math
import operator
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np

from virtualgpu.errors import (
    BudgetExceeded,
    LaunchError,
    Location,
    OutOfMemory,
    VirtualGPUError,
)
from virtualgpu.lanes import barriers, clusters, simt
from virtualgpu.lanes.events import Listeners
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.intrinsics import PRINTED
from virtualgpu.lanes.wave import Wave
from virtualgpu.launch import standstill
from virtualgpu.launch.conditions import Conditions
from virtualgpu.launch.limits import (
    MAX_BLOCK,
    MAX_GRID,
    MAX_SHARED,
    MAX_THREADS,
    MULTIPROCESSORS,
    blocks_per_multiprocessor,
)
from virtualgpu.logs import logger
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.program.program import Program
from virtualgpu.program.shared_layout import SharedLayout
from virtualgpu.wording import many

# Lanes that run together. One NumPy array of 64-bit values over 32,768 lanes has 256 kB: the
# few that an instruction touches stay in a core's second-level cache.
WAVE_LANES = 32_768

# Number of waves whose lanes may all spin for blocks that have not started: a million threads,
# which is more than any device holds at once.
WAITING = 32
# Work is counted in units of one instruction for one lane among many, which takes 0.2 to 0.5 ns; a
# cosine counts four. The NumPy call of an instruction also has a fixed cost (0.8 µs, or 2.4 µs if
# some lanes of the wave are at another place), and so has each change of basic block (4 µs).
PER_INSTRUCTION, PER_PARTED, PER_BLOCK = 2_000, 6_000, 10_000
WAVE_BYTES = 256 << 20  # shared and local memory of a wave, where fewer blocks can help

_numbers = itertools.count(1)


class BeginAgain(Exception):
    """Signal that the launch begins again in native code, with memory restored."""


class NativeCode:
    """Settings and state of native code for one launch.

    Parameters
    ----------
    run : callable, optional
        ``run(launch, first)`` is called before every wave. It may run the blocks from ``first`` on
        in native code and return True (:func:`virtualgpu.devices.changeover.natively`). By default
        the interpreter runs all blocks.
    cores : int
        Number of processor cores on which native code may run blocks.

    Attributes
    ----------
    first : int or None
        First block that native code ran.
    refusal : str
        Reason why native code did not run, for the log.
    threshold, reconsider
        ``reconsider()`` is called when the program's work reaches ``threshold``. It returns the
        next threshold or raises :class:`BeginAgain`.
    began_again : bool
        True after the launch has begun again, which it does at most once.
    place : Location or None
        Location at which native code was interrupted.
    lost : BaseException or None
        Exception that was raised where no Python code could catch it.
    """

    def __init__(self, run: Callable[[Launch, int], bool] | None = None, cores: int = 1):
        self.run, self.cores = run, cores
        self.first: int | None = None
        self.refusal = ""
        self.threshold: float = math.inf
        self.reconsider: Callable[[], float] = lambda: math.inf
        self.began_again = False
        self.place: Location | None = None
        self.lost: BaseException | None = None


class Launch:
    """Run ``program`` over a grid of blocks.

    Parameters
    ----------
    memory : GlobalMemory
    program : Program
    grid, block : tuple of three ints
        Blocks in the grid and threads in a block, (x, y, z).
    parameters : list of bytes
        One entry per kernel parameter, in the parameter's own size.
    dynamic_shared : int
        Bytes of dynamic shared memory per block.
    cooperative : bool
        All blocks resident at once, so that ``grid.sync()`` can work.
    cluster : tuple of three ints, optional
        Size of a thread block cluster in blocks, if the kernel does not declare it.
    conditions : Conditions, optional
        Observers, schedule, sample and limits of the launch
        (:func:`virtualgpu.watch.instruments.next_launch` returns the active ones). By default there
        is no observer, all blocks run, and lanes run in lockstep.
    native : NativeCode, optional
        Settings and state of native code; not shared with other launches.

    Attributes
    ----------
    chosen : ndarray or None
        Grid indices of the blocks that run, or None if all blocks run. Elsewhere, block numbers
        count only the ``blocks`` blocks that run.

    Raises
    ------
    LaunchError
        If no device would accept the dimensions or parameters.
    VirtualGPUError
        If the kernel fails while it runs.
    """

    call_depth = 512

    def __init__(
        self,
        memory: GlobalMemory,
        program: Program,
        grid: Iterable[int],
        block: Iterable[int],
        parameters: Sequence[bytes],
        dynamic_shared: int = 0,
        cooperative: bool = False,
        cluster: tuple[int, int, int] | None = None,
        conditions: Conditions | None = None,
        native: NativeCode | None = None,
    ):
        self.memory, self.program = memory, program
        self.grid = cast("tuple[int, int, int]", tuple(map(int, grid)))
        self.block = cast("tuple[int, int, int]", tuple(map(int, block)))
        self.threads = self.block[0] * self.block[1] * self.block[2]
        self.blocks = self.grid[0] * self.grid[1] * self.grid[2]
        self.dynamic_shared, self.cooperative = int(dynamic_shared), cooperative
        conditions = conditions or Conditions()
        self.observers, self.schedule = conditions.observers, conditions.schedule
        self.budget, self.patience = conditions.budget, conditions.patience
        self.listeners = Listeners.of(self.observers)
        self.native = native or NativeCode()
        self._before = program.work
        self.kernel = program.display
        self.number = next(_numbers)
        self.instructions = 0
        self.lines: list[str] = []
        self.printed = 0
        self._check(parameters)
        function = program.entry_code.function
        self.cluster = clusters.of_launch(function, self.kernel, self.grid, cluster)
        self.cluster_size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        sample = conditions.sample
        reaches = memory.reaches_huge(parameters)
        self.chosen = (
            sample.choose(self.kernel, self.blocks, reaches, cooperative, self.cluster_size)
            if sample
            else None
        )
        if self.chosen is not None:
            self.blocks = len(self.chosen)
        self.explicit_cluster = (cluster or function.required_cluster) is not None
        if self.explicit_cluster:
            self.native.run, self.native.refusal = None, "its blocks are in clusters"
        self._values: dict[tuple[int, np.dtype], np.ndarray] = {}
        self._parameter_address: int | None = None
        self._workspace: int | None = None
        self.deadline = time.thread_time() + self.budget.seconds
        # Detector of hangs; the time at which it is next switched on or off.
        self.standstill: standstill.Standstill | None = None
        self._began = time.thread_time()
        self.look_at = self._began + standstill.FIRST * (
            standstill.WATCHED if self.observers else 1
        )
        self.unstarted, self._over = 0, 0  # blocks not started while waves can start; blocks ended
        self.resident: list[Wave] = []
        self._ticks = 0
        self.packed_shared = program.shared.packed + self.dynamic_shared
        extents = [*program.shared.extents]
        start = program.shared.dynamic_start
        if program.shared.has_dynamic or self.dynamic_shared:
            extents.append((start, start + self.dynamic_shared, "dynamic"))
        self.shared_layout = SharedLayout(extents)
        self.shared_bytes = start + self.dynamic_shared

    def _check(self, parameters: Sequence[bytes]) -> None:
        if min(self.block) < 1 or min(self.grid) < 1:
            raise LaunchError(
                f"grid {self.grid} and block {self.block}: every dimension must be at least 1"
            )
        if self.threads > MAX_THREADS:
            raise LaunchError(
                f"{self.threads} threads in a block {self.block}; a block has at most "
                f"{MAX_THREADS}: use more blocks instead"
            )
        if not all(map(operator.le, self.block, MAX_BLOCK)):
            raise LaunchError(
                f"a block {self.block}; along x, y and z a block has at most {MAX_BLOCK} "
                "threads: use a different block shape"
            )
        if not all(map(operator.le, self.grid, MAX_GRID)):
            raise LaunchError(f"grid {self.grid} is larger than {MAX_GRID}")
        resident = MULTIPROCESSORS * blocks_per_multiprocessor(self.threads)
        if self.cooperative and self.blocks > resident:
            raise LaunchError(
                f"a cooperative launch of {many(self.blocks, 'block')} of "
                f"{many(self.threads, 'thread')}: all blocks must fit on the device at once, but "
                f"at most {resident} do (kernel.max_cooperative_grid_blocks). Launch fewer "
                "blocks and give each thread more work"
            )
        wanted = self.program.entry_code.function
        if wanted.required_block and self.block != wanted.required_block:
            raise LaunchError(f"the kernel needs blocks of {wanted.required_block}")
        if wanted.maximum_threads and self.threads > wanted.maximum_threads:
            raise LaunchError(
                f"the kernel was compiled for at most {many(wanted.maximum_threads, 'thread')} "
                "per block"
            )
        shared = self.program.shared.packed + self.dynamic_shared
        if self.dynamic_shared < 0 or shared > MAX_SHARED:
            raise LaunchError(
                f"the launch needs {shared:,} bytes of shared memory per block; at most "
                f"{MAX_SHARED:,} are available"
            )
        variables = wanted.parameters
        if len(parameters) != len(variables):
            raise LaunchError(
                f"kernel {self.program.display} takes {many(len(variables), 'parameter')}, "
                f"not {len(parameters)}"
            )
        for number, (variable, value) in enumerate(zip(variables, parameters, strict=True)):
            if len(value) != variable.size:
                raise LaunchError(
                    f"parameter {number} of {self.program.display} "
                    f"has {many(variable.size, 'byte')}, not {len(value)}"
                )
        self.parameters = self.program.packed(parameters) or b""

    # -- methods that the running code calls -----------------------------------------------------

    def parameter(self, offset: int, dtype: np.dtype) -> np.ndarray:
        """Return a kernel parameter's value: shape (1,)."""
        key = (offset, dtype)
        value = self._values.get(key)
        if value is None:
            value = np.frombuffer(self.parameters, np.uint8, dtype.itemsize, offset).view(dtype)
            self._values[key] = value
        return value

    def parameter_address(self, offset: int) -> np.ndarray:
        """Return a device address of the parameters, for kernels that index them."""
        if self._parameter_address is None:
            self._parameter_address = self.memory.allocate(max(len(self.parameters), 1))
            self.memory.write(self._parameter_address, np.frombuffer(self.parameters, np.uint8))
        return np.array([(self._parameter_address + offset) & (1 << 64) - 1], np.uint64)

    def is_constant(self, low: int, high: int) -> bool:
        """Return True if both addresses lie in one ``.const`` variable, or in the parameters."""
        extent = self.memory.extent(low)
        return (
            extent is not None
            and high < extent[1]
            and (extent[0] == self._parameter_address or self.program.module.is_constant(extent[0]))
        )

    def workspace(self) -> int:
        """Return the address where cooperative groups count blocks at ``grid.sync()``.

        The address holds two words, the group size and the counter. It is 0 if the launch is not
        cooperative.
        """
        if self.cooperative and self._workspace is None:
            self._workspace = self.memory.allocate(8)
            self.memory.write(self._workspace, np.array([8, 0], np.uint32))
        return self._workspace or 0

    @property
    def work(self) -> int:
        """Work that the interpreter has done, in units of :attr:`Program.work`."""
        return self.program.work - self._before

    def spend(self, count: int, wave: Wave, group: Group) -> None:
        """Count the work of a basic block of ``count`` instructions.

        Raises BudgetExceeded if the launch exceeds its budget.
        """
        instructions = count * group.count
        self.instructions += instructions
        each = PER_INSTRUCTION if group.count == wave.lanes else PER_PARTED
        work = instructions + each * count + PER_BLOCK
        self.program.work += work
        if self.program.work > self.native.threshold:
            self.native.threshold = self.native.reconsider()
        if self.observers:
            self.program.watched += work
        self._ticks += 1
        if self.instructions > self.budget.instructions:
            raise BudgetExceeded(
                f"the kernel ran {many(self.instructions, 'instruction')}, but its budget is "
                f"{self.budget.instructions:,.0f}: does this loop end?",
                barriers.location(wave, group),
            )
        # Observers can make one block cost as much as a hundred; reading the clock takes 1 µs.
        if self._ticks & (7 if self.observers else 63):
            return
        now = time.thread_time()
        if now > self.deadline:
            raise self.out_of_time(
                sum(int((w.exited == w.threads).sum()) for w in self.resident) + self._over,
                barriers.location(wave, group),
            )
        if now > self.look_at:
            self._look_or_not(now - self._began, now)
        if self.patience and time.monotonic() > self.patience.due:
            self.patience.tell(barriers.location(wave, group))

    def _look_or_not(self, spent: float, now: float) -> None:
        """Switch hang detection on, or switch it off if it has run for ``spent`` seconds."""
        if self.standstill is None:
            self.standstill = standstill.Standstill(self)
            self.look_at = now + max(standstill.FIRST, spent * standstill.PART)
        elif not self.standstill.is_near() or now > self.look_at + spent * standstill.PART:
            self.standstill, self.look_at = None, now + spent

    def out_of_time(self, ended: int, location: Location | None = None) -> BudgetExceeded:
        """Return the error of a launch that reached its time limit after ``ended`` blocks."""
        blocks = (
            "its only block had not"
            if self.blocks == 1
            else (f"{ended:,} of its {many(self.blocks, 'block')} had")
        )
        return BudgetExceeded(
            f"the kernel ran for {self.budget.seconds:g} s of processor time and was stopped; "
            f"{blocks} ended: does this loop end? (set VIRTUALGPU_TIME_LIMIT, in seconds, to "
            "allow more)",
            location,
        )

    def reserve(self, nbytes: int, what: str) -> None:
        if nbytes > self.budget.nbytes:
            raise OutOfMemory(
                f"{many(nbytes, 'byte')} of {what} for one wave of blocks; the budget "
                f"is {self.budget.nbytes:,}"
            )

    def print(self, text: str) -> None:
        if self.printed < PRINTED:
            self.lines.append(text)
            self.printed += len(text)

    # -- running -------------------------------------------------------------------------------

    def run(self) -> None:
        for observer in self.observers:
            observer.launch_started(self)
        start = time.perf_counter()
        try:
            with np.errstate(all="ignore"):
                self._run()
        except VirtualGPUError as error:
            for observer in self.observers:
                observer.failed(self, error)
            raise
        except KeyboardInterrupt as stop:
            place = simt.interrupted(stop) or self.native.place or f"kernel {self.kernel}"
            stop.add_note(f"stopped in {place}")
            raise
        finally:
            if logger.isEnabledFor(logging.INFO):
                self._log(time.perf_counter() - start)
            self._free_own()
            if self.lines:
                sys.stdout.write("".join(self.lines))
                sys.stdout.flush()
            for observer in self.observers:
                observer.launch_finished(self)
            if not any(observer.marks_written for observer in self.observers):
                self.memory.unwritten.clear()

    def _run(self) -> None:
        try:
            self.run_waves(self.native.run)
        except BeginAgain:
            self._forget()
            self.run_waves(self.native.run)
        if (
            self.native.run is not None and self.work and self.chosen is None
        ):  # native code alone does not count work
            self.program.latest = self.grid, self.block, self.parameters, self.work

    def _log(self, seconds: float) -> None:
        native = self.native
        by = "native code" if native.first == 0 else "the interpreter"
        if native.first:
            by += f", from block {native.first} on by native code"
        elif native.first is None and native.refusal:
            by += f" ({native.refusal})"
        shape = f"{self.grid}, {self.block}"
        if self.chosen is not None:
            shape += f", {self.blocks} blocks of it"
        logger.info("kernel %s[%s] ran on %s in %.3f s", self.kernel, shape, by, seconds)

    def _forget(self) -> None:
        """Reset the counted work, but not the elapsed time."""
        self._free_own()
        self._parameter_address = self._workspace = self.standstill = None
        self.instructions, self.lines, self.printed = 0, [], 0
        self._before = self.program.work
        self.native.threshold, self.native.began_again = math.inf, True
        for observer in self.observers:
            observer.launch_began_again(self)

    def _free_own(self) -> None:
        for address in (self._parameter_address, self._workspace):
            if address is not None:
                self.memory.free(address)

    def run_waves(self, natively: Callable[[Launch, int], bool] | None = None) -> None:
        """Run the blocks in the interpreter until ``natively`` takes over.

        The interpreter executes one instruction of a wave of lanes at a time.
        """
        per_wave = self._blocks_per_wave()
        count = -(-self.blocks // per_wave)
        waiting: list[Wave] = []  # waves whose lanes wait for blocks of other waves
        self.resident = waiting
        self.unstarted, self._over = self.blocks, 0
        for number in self.schedule.waves(count):
            first = int(number) * per_wave
            if natively is not None and not waiting and natively(self, first):
                self.native.first = first
                return
            wave = Wave(self, first, min(per_wave, self.blocks - first))
            self.unstarted -= wave.blocks
            simt.start(wave)
            waiting.append(wave)
            # Yield from a wave that only spins: the block that it waits for may be in a later wave.
            self._run_resident()
            if len(waiting) >= WAITING:
                left, self.unstarted = self.unstarted, 0
                while len(waiting) >= WAITING:
                    self._run_resident()
                self.unstarted = left
        while waiting:
            self._run_resident()

    def _run_resident(self) -> None:
        """Run every resident wave once, and remove those that have ended."""
        for wave in list(self.resident):
            if simt.run(wave):
                self.resident.remove(wave)
                self._over += wave.blocks

    def _blocks_per_wave(self) -> int:
        if self.cooperative:
            return self.blocks
        local = self.program.entry_code.frame_size
        nbytes = self.shared_bytes + self.threads * local
        size = self.cluster_size
        blocks = min(
            WAVE_LANES // self.threads, min(WAVE_BYTES, self.budget.nbytes) // max(nbytes, 1)
        )
        return max(size, blocks // size * size)
