"""Launches whose blocks may wait for each other: they are resident together, on one core.

All blocks of a cooperative launch are in one context. Other launches have as many blocks in a
context as fit a core's cache. If these only wait, the next blocks begin in another context.
:mod:`.block_scheduler` generates the native code.
"""

from __future__ import annotations

from virtualgpu.lanes import simt
from virtualgpu.lanes.wave import Wave
from virtualgpu.launch import standstill
from virtualgpu.launch.launch import WAITING as WAITING_WAVES
from virtualgpu.launch.launch import WAVE_LANES, Launch
from virtualgpu.launch.sampling import consecutive
from virtualgpu.native.blocks import deadlock
from virtualgpu.native.blocks.core import Core
from virtualgpu.native.blocks.multicore import Run
from virtualgpu.native.compiled import NativeKernel
from virtualgpu.native.context import DEADLOCK, ENDED, STOPPED, WAITING


class ResidentRun(Run):
    """Run of resident blocks in the launching thread; each :class:`Core` holds one context."""

    def __init__(self, launch: Launch, kernel: NativeKernel):
        super().__init__(launch, kernel)
        self.taken_over: dict[Core, Wave] = {}  # blocks that the interpreter has ended

    def _work(self, core: Core) -> None:
        launch, waiting = self.launch, list[Core]()
        ended = [core]
        look_at = standstill.FIRST
        assert self.kernel.layout is not None
        try:
            while self.next < self.end or waiting:
                if self._may_begin(waiting):
                    core = ended.pop() if ended else self._another()
                    width = min(core.common.blocks, self.end - self.next)
                    core.place(self.next, consecutive(launch.chosen, self.next, width))
                    self.next += core.width
                    waiting.append(core)
                left: list[Core] = []
                for core in waiting:
                    result = self._turn(core)
                    if result == STOPPED:
                        if core.error is None:
                            self.stopped.append(core)
                        return
                    (left if result == WAITING else ended).append(core)
                waiting = left
                spent = sum(one.spent for one in self.cores)
                if (
                    spent > look_at
                    and waiting
                    and not (self.taken_over or self._may_begin(waiting))
                ):
                    seconds = max(standstill.FIRST, min(spent * standstill.PART, 10))
                    deadlock.look(self.launch, self.kernel.layout, waiting, seconds)
                    look_at = 2 * spent
        except BaseException as error:  # allow Ctrl-C between two turns
            core.error = error

    def _may_begin(self, waiting: list[Core]) -> bool:
        """Return True if more blocks may begin: there are some, and there is space for them.

        At most as many lanes may wait as in the interpreter.
        """
        launch, common = self.launch, self.cores[0].common
        most = min(
            WAITING_WAVES * WAVE_LANES // (common.blocks * launch.threads),
            launch.budget.nbytes // common.nbytes,
        )
        return self.next < self.end and len(waiting) < max(1, most)

    def _ended(self) -> int:
        return self.next - sum(core.width - core.ended() for core in self.cores)

    def _another(self) -> Core:
        core = Core(self.launch, self.kernel, self.cores[0].common, self._look)
        self.cores.append(core)
        return core

    def _turn(self, core: Core) -> int:
        core.start_clock()
        wave, result = self.taken_over.get(core), DEADLOCK
        if wave is None:
            result = core.run(core.first, core.width)
        if result == DEADLOCK:
            assert self.kernel.layout is not None
            if wave is None:
                wave = deadlock.take_over(self.launch, self.kernel.layout, core)
                self.taken_over[core] = wave
            result = WAITING
            if simt.run(wave):
                del self.taken_over[core]
                core.end()
                result = ENDED
        if result != STOPPED:
            self._look(core)
        return result

    def _look(self, core: Core) -> bool:
        going = super()._look(core)
        self._say_where(core)
        return going
