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

REPLAY = 5.0  # seconds in which the interpreter looks for an error's message
# Expected seconds of a batch of blocks. Ctrl-C and the time limit are checked between batches. If
# several cores share the work, batches are short, so that the cores finish at about the same time.
ALONE, SHARED = 0.05, 0.005
# Remaining seconds of work for which other cores are asked to help. Starting a thread takes 0.1 ms,
# and so does creating its context in a kernel's first launch.
WORTH_SHARING = 0.001
LEAST = 0.0003  # least seconds of a batch; handing one out takes 0.05 ms
# After a batch of so many seconds, the time of a block on a helping core is known.
TELLING = 0.0005


class Run:
    """Run of one launch, whose blocks are handed out in order to the cores.

    If blocks stop, the launch reports the lowest of them, even if a higher one stopped first.
    Cores that run lower blocks finish these, and no higher block is begun.
    """

    def __init__(self, launch: Launch, kernel: NativeKernel):
        self.launch, self.kernel = launch, kernel
        self.next, self.end = 0, launch.blocks  # range of blocks that no core has begun
        self.halted = False
        self.stopped: list[Core] = []
        self._hand = threading.Lock()
        self.seconds = launch.deadline - time.thread_time()
        self.cores = [self._first_core()]
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()  # all other cores are done
        self.counts: Counts | None = None
        self._alone = 0.0  # seconds per block while one core worked

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
        """Use these tables for counting."""
        self.counts = counts
        self._pointers = np.array([pointer(array) for array in counts.data], np.int64)
        before = 4 * counts.first  # bytes of the threads before the first
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
            # Thread.join would not do: until Python 3.13 a thread counts as ended if Ctrl-C arrives
            # in it.
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
        """Run blocks until none are left or one stops."""
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
        except BaseException as error:  # a thread has no caller that could receive it
            core.error, self.halted = error, True
        finally:
            self._leave(core)

    def _take(self, core: Core) -> tuple[int, int] | None:
        """Return the next blocks for a core: the first and their number."""
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
        """Let other cores help if the remaining work is worth it, at ``seconds`` per block."""
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
            core.forget_variables()  # `privatisation` begins at an instruction's next lookup
        for core in cores:
            thread = threading.Thread(
                target=self._work, args=(core,), name="virtualgpu", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:  # the process can start no more threads, so fewer cores work
                self._leave(core)
            else:
                self._threads.append(thread)

    def _hinders(self, core: Core, spent: float, blocks: int) -> bool:
        """Return True if a helping core should leave, now and in later launches of the kernel.

        This is so if the kernel has atomics and a block takes as many times longer than on one
        core alone as there are cores. It happens if all threads add to the same few elements (100
        bins: six times as long on two cores).
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
        """Mark a core as done; it runs no more blocks."""
        with self._hand:
            core.done = True
            for other in self.cores:
                other.loop_watch.times = 0
            if all(one.done for one in self.cores[1:]):
                self._over.set()

    def _may_go_on(self, core: Core) -> bool:
        return not self.halted and core.word("block") <= self.end

    def _look(self, core: Core) -> bool:
        """Return True if a core may continue; called from the core's own thread.

        Raises BudgetExceeded, or an exception that a signal handler raised meanwhile.
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
        """Return True if lanes that repeat a state will do so for ever.

        If memory also decides, every working core must have been seen repeating a state, and twice
        since any core was last seen not to. Then no core has changed memory in between, because
        these loops do not store. A core that runs a lower block is waited for, because that block
        may end with an error.
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
        """Return the number of blocks that have ended."""
        begun = sum(
            core.first + core.width - core.word("block") for core in self.cores if core.width
        )
        return self.next - begun

    def _say_where(self, core: Core) -> None:
        patience = self.launch.patience
        if patience and time.monotonic() > patience.due:
            patience.tell(core.location())

    # -- errors --------------------------------------------------------------------------------

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
        elif block.kind in ("indexed", "call"):  # an index or addresses without a target
            follow = simt._indexed if block.kind == "indexed" else calls.call
            follow(wave, group, block, core.addresses(group.lanes))
        elif block.kind != "barrier":
            simt._trap(wave, group, block, None)
        raise VirtualGPUError(
            "native code stopped, but the interpreter finds no error: please report this"
        )

    def _refused_access(self, number: int, group: Group, addresses: np.ndarray) -> None:
        """Let the interpreter check the addresses that native code refused, and raise its error."""
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
        """Raise the interpreter's error, if a second run raises one of these ``kinds``.

        Only the interpreter, which runs many blocks side by side, can tell which thread is the
        first with an error and how many others have it. It runs the kernel again, on the memory
        that the stopped run left. This run may take another path or too long. In that case native
        code's own error has to do, which covers the lanes of one warp.
        """
        self.launch.deadline = time.thread_time() + REPLAY
        printed = self.launch.lines[:], self.launch.printed
        if self.counts is not None:  # the observer receives all events again from the interpreter
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
