"""Distribution of a launch's blocks over processor cores, with time limits and errors."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.errors import (
    BudgetExceeded,
    EndlessError,
    LaunchError,
    MemoryAccessError,
    MisalignedAddressError,
    TrapError,
    VirtualGPUError,
)
from virtualgpu.lanes import access, calls, simt
from virtualgpu.lanes.group import Group
from virtualgpu.launch import standstill_messages
from virtualgpu.launch.launch import Launch
from virtualgpu.launch.sampling import consecutive
from virtualgpu.native.blocks.core import Common, Core
from virtualgpu.native.compiled import NativeKernel
from virtualgpu.native.context import AT, STOPPED
from virtualgpu.native.flow.livelock import Head

if TYPE_CHECKING:
    from virtualgpu.native.counting import Counts

REPLAY = 5.0  # seconds to find the words for an error
# Seconds of a batch of blocks, as far as can be foreseen: between two, Ctrl-C and the clock are
# heard; and where several cores share, none may be left with much when the others are done.
ALONE, SHARED = 0.05, 0.005
# Seconds of work that are left when other cores are asked to help: to start a thread takes 0.1 ms,
# as long as to make it a context, for a kernel's first launch.
WORTH_SHARING = 0.001
LEAST = 0.0003  # seconds of a batch; to hand one out takes 0.05 ms
# How long a block takes a core that helps is known after so many seconds of a batch.
TELLING = 0.0005


class Run:
    """One launch: blocks are handed out in their order to the cores that ask for more.

    Where blocks stop, the lowest of them is what the launch tells, whichever came first: cores
    that run lower ones finish these, no higher one is begun.
    """

    def __init__(self, launch: Launch, kernel: NativeKernel):
        self.launch, self.kernel = launch, kernel
        self.next, self.end = 0, launch.blocks  # of the blocks that no core has begun
        self.halted = False
        self.stopped: list[Core] = []
        self._hand = threading.Lock()
        self.seconds = launch.deadline - time.thread_time()
        self.cores = [self._first_core()]
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()  # all other cores are done
        self.counts: Counts | None = None
        self._alone = 0.0  # seconds of a block while one core worked

    def _first_core(self) -> Core:
        """Return a core from an earlier launch with the same dimensions, or a new one (0.1 ms)."""
        try:
            idle = self.kernel.idle.pop()
        except IndexError:
            idle = None
        if isinstance(idle, Core) and idle.common.fits(self.launch):
            return idle.again(self.launch, self._look)
        return Core(self.launch, self.kernel, Common(self.launch, self.kernel), self._look)

    def count(self, counts: Counts) -> None:
        """Count into these tables."""
        self.counts = counts
        self._pointers = np.array([pointer(array) for array in counts.data], np.int64)
        before = 4 * counts.first  # bytes of threads before the first
        self.cores[0].set(
            {
                "place_counts": pointer(counts.places),
                "site_counts": pointer(counts.sites),
                "passes": pointer(counts.passes),
                "count_apart": counts.loop,
                "count_data": pointer(self._pointers),
                "end_stretch": counts.stretch,
                "warp_instructions": pointer(counts.warp_instructions),
                "warp_accesses": pointer(counts.warp_accesses),
                "span": pointer(counts.span),
                "thread_instructions": pointer(counts.instructions) - before,
                "thread_accesses": pointer(counts.accesses) - before,
            }
        )

    # -- running -------------------------------------------------------------------------------

    def run(self, first: int) -> None:
        self.next = first
        try:
            self._work(self.cores[0])
            # Not Thread.join: until Python 3.13 a thread counts as ended when Ctrl-C comes then.
            while self._threads and not self._over.wait(0.1):
                self._say_where(self._at_work())
        except BaseException as error:  # Ctrl-C, while other cores work
            self._at_work().error = error
        finally:
            self.halted = True
            while self._threads and not self._over.wait(1.0):
                pass
            for thread in self._threads:
                thread.join()
            if (ran := self.launch.program.ran) is not None:
                for core in self.cores:
                    if core.ran is not None:
                        np.maximum(ran, core.ran, out=ran)
        for core in self.cores:
            if core.error is not None:
                self._raise(core, core.error)
        if self.stopped:
            self._stopped(min(self.stopped, key=lambda core: core.word("block")))
        if self.cores[0].is_small:
            self.cores[0].helpers += self.cores[1:]
            self.kernel.idle.append(self.cores[0])

    def _at_work(self) -> Core:
        return next((core for core in self.cores if not core.done), self.cores[0])

    def _work(self, core: Core) -> None:
        """Run blocks until there are none, or something stops."""
        try:
            core.start_clock()
            while (blocks := self._take(core)) is not None:
                start, before = time.perf_counter(), core.spent
                if core is self.cores[0] and self._over.is_set():
                    core.context[AT["several"]] = 0
                if core.run(*blocks) == STOPPED:
                    with self._hand:
                        if core.error is not None:
                            self.halted = True
                        elif self._may_go_on(core):
                            self.stopped.append(core)
                            self.end = min(self.end, core.word("block"))
                    return
                took, core.width = time.perf_counter() - start, 0
                if not self._look(core) or self._hinders(core, core.spent - before, blocks[1]):
                    return
                aim = SHARED if self._threads else ALONE
                if took < aim / 2:
                    core.count *= 8 if took < aim / 16 else 2
                elif took > aim:
                    core.count = max(1, core.count // 2)
                if len(self.cores) == 1:
                    self._share(took / blocks[1])
        except BaseException as error:  # from a thread without a caller
            core.error, self.halted = error, True
        finally:
            self._leave(core)

    def _take(self, core: Core) -> tuple[int, int] | None:
        """Return the next blocks for a core: the first and how many."""
        with self._hand:
            left = self.end - self.next
            if left <= 0 or self.halted:
                return None
            count = min(core.count, left)
            if self._threads:
                least = 1 + int(LEAST / self._alone) if self._alone else 1
                count = min(count, left, max(least, left // (2 * len(self.cores))))
            count = consecutive(self.launch.chosen, self.next, count)
            core.first, core.width, self.next = self.next, count, self.next + count
            return core.first, count

    def _share(self, seconds: float) -> None:
        """Ask other cores to help if the work left, at so many seconds a block, is worth it."""
        left = self.end - self.next
        helpers = min(self.launch.native.cores - 1, left)
        if (
            self.kernel.record.ordered
            or self.kernel.crowded
            or helpers < 1
            or seconds * left < WORTH_SHARING
        ):
            return
        idle, common = self.cores[0].helpers, self.cores[0].common
        cores = [
            idle.pop().again(self.launch, self._look)
            if idle
            else Core(self.launch, self.kernel, common, self._look)
            for _ in range(helpers)
        ]
        self.cores += cores
        self._alone = seconds
        for core in self.cores:
            core.context[AT["several"]] = 1
            core.forget_variables()  # `privatisation` begins where an instruction looks one up
        for core in cores:
            thread = threading.Thread(
                target=self._work, args=(core,), name="virtualgpu", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:  # the process may have no more: fewer must do
                self._leave(core)
            else:
                self._threads.append(thread)

    def _hinders(self, core: Core, spent: float, blocks: int) -> bool:
        """Return True if a helping core had better leave, now and in later launches of the kernel.

        With atomics in the kernel, a block then takes as many times as long as one core alone takes
        as there are cores. So it is where all add to the same few elements (100 bins: six times, on
        two).
        """
        if (
            core is self.cores[0]
            or not self.kernel.record.atomics
            or (spent < max(TELLING, len(self.cores) * self._alone * blocks))
        ):
            return False
        self.kernel.crowded = True
        return True

    def _leave(self, core: Core) -> None:
        """Retire a core, which runs no more blocks."""
        with self._hand:
            core.done = True
            for other in self.cores:
                other.loop_watch.times = 0
            if all(one.done for one in self.cores[1:]):
                self._over.set()

    def _may_go_on(self, core: Core) -> bool:
        return not self.halted and core.word("block") <= self.end

    def _look(self, core: Core) -> bool:
        """Return True if a core may go on; called from the core's own thread.

        Raises BudgetExceeded, and what was lost.
        """
        if self.launch.native.lost is not None:
            raise self.launch.native.lost
        core.read_clock()
        if not self._may_go_on(core):
            return False
        if sum(one.spent for one in self.cores) > self.seconds:
            raise self.launch.out_of_time(0)
        if core is self.cores[0]:
            self._say_where(core)
        if core.loop_watch.head is not None and self._is_endless(core, core.loop_watch.head):
            raise standstill_messages.goes_round(core.stand()[1])
        return True

    def _is_endless(self, core: Core, head: Head) -> bool:
        """Return True if lanes that go in a circle will do so for ever.

        Where memory decides, all working cores must have been seen to do so, each twice since any
        of them was not: then none has changed memory meanwhile, as these loops do not store. A
        lower block that goes on elsewhere comes first, because it may end with an error.
        """
        block = core.word("block")
        if any(not other.done and other.word("block") < block for other in self.cores):
            return False
        if not head.sees:
            return True
        with self._hand:
            if core.loop_watch.times < 2:
                for other in self.cores:
                    other.loop_watch.times = min(other.loop_watch.times, 1)
            return not self.kernel.record.parked and all(
                other.done or other.loop_watch.times > 2 for other in self.cores
            )

    def _ended(self) -> int:
        """Return the number of blocks that have run to their end."""
        begun = sum(
            core.first + core.width - core.word("block") for core in self.cores if core.width
        )
        return self.next - begun

    def _say_where(self, core: Core) -> None:
        patience = self.launch.patience
        if patience and time.monotonic() > patience.due:
            patience.tell(core.location())

    # -- what went wrong -----------------------------------------------------------------------

    def _raise(self, core: Core, error: BaseException) -> NoReturn:
        if isinstance(error, BudgetExceeded) and not isinstance(error, EndlessError):
            raise self.launch.out_of_time(self._ended(), core.location())
        self.launch.native.place = core.location()
        raise error

    def _stopped(self, core: Core) -> NoReturn:
        """Raise the interpreter's error."""
        wave, group = core.stand()
        fault, block = core.word("fault"), self.launch.program.blocks[group.block]
        kinds = {"indexed": VirtualGPUError, "call": MemoryAccessError, "barrier": LaunchError}
        self._replay(
            kinds.get(block.kind, TrapError)
            if fault < 0
            else (MemoryAccessError, MisalignedAddressError)
        )
        if fault >= 0:
            self._refused_access(fault, group, core.addresses(group.lanes))
        elif block.kind in ("indexed", "call"):  # an index or addresses that lead nowhere
            follow = simt._indexed if block.kind == "indexed" else calls.call
            follow(wave, group, block, core.addresses(group.lanes))
        elif block.kind != "barrier":
            simt._trap(wave, group, block, None)
        raise VirtualGPUError("native code stopped where nothing is wrong: please report this")

    def _refused_access(self, number: int, group: Group, addresses: np.ndarray) -> None:
        """Have the interpreter look at the addresses that native code refused."""
        site = self.kernel.sites[number][0].site
        offset, site.offset = site.offset, 0
        try:
            values = [np.zeros(len(addresses), site.dtype)] * max(site.width, 2)
            if site.kind == "load":
                access.load(site, group, addresses)
            elif site.kind == "store":
                access.store(site, group, addresses, *values[: site.width])
            else:
                access.atomic(
                    site, group, addresses, *values[: site.width + (site.operation == "cas")]
                )
        finally:
            site.offset = offset

    def _replay(self, kinds: type[VirtualGPUError] | tuple[type[VirtualGPUError], ...]) -> None:
        """Raise the interpreter's error, if it comes to one of these ``kinds``.

        How many other threads do the same, and which is the first of all, only the interpreter can
        say, which runs many blocks side by side. It runs the kernel once more, over what the
        stopped one left in memory; it may go another way there, or take long: then native code's
        own error must do, which knows the lanes of one warp.
        """
        self.launch.deadline = time.thread_time() + REPLAY
        printed = self.launch.lines[:], self.launch.printed
        if self.counts is not None:  # who watches hears all from the interpreter
            self.counts = None
            self.launch.observers[0].launch_started(self.launch)
        try:
            self.launch.run_waves()
        except kinds:
            raise
        except VirtualGPUError:
            pass
        finally:
            self.launch.lines, self.launch.printed = printed
