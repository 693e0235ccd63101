"""A launch whose blocks may wait for each other: side by side, on one core.

Of a cooperative launch all blocks lie in one context; of others as many as fit a core's cache, and
where those only wait, the next ones begin in a context of their own (:mod:`.resident` is the
native code).
"""

from __future__ import annotations

import ctypes

import numpy as np

from virtualgpu.codegen import stuck
from virtualgpu.codegen.context import DEADLOCK, STOPPED, WAITING
from virtualgpu.codegen.core import Core
from virtualgpu.codegen.sharing import Run
from virtualgpu.errors import DeadlockError
from virtualgpu.machine.launch import WAITING as WAITING_WAVES
from virtualgpu.machine.launch import WAVE_LANES


class SideBySide(Run):
    """The launching thread does it all: here a :class:`Core` is a context that takes turns."""

    def _work(self, core: Core) -> None:
        waiting: list[Core] = []
        ended = [core]
        try:
            while self.next < self.end or waiting:
                if self.next < self.end and len(waiting) < max(1, self._most()):
                    core = ended.pop() if ended else self._another()
                    core.place(self.next, min(core.common.blocks, self.end - self.next))
                    self.next += core.width
                    waiting.append(core)
                left: list[Core] = []
                for core in waiting:
                    result = self._turn(core)
                    if result == STOPPED:
                        if core.error is None:
                            self.stopped.append(core)
                        return
                    if result == DEADLOCK:
                        raise self._deadlock(core)
                    (left if result == WAITING else ended).append(core)
                waiting = left
        except BaseException as error:  # Ctrl-C between two turns, too
            core.error = error

    def _most(self) -> int:
        """How many contexts may be in use: as many lanes wait as on the interpreting machine."""
        launch, common = self.launch, self.cores[0].common
        return min(WAITING_WAVES * WAVE_LANES // (common.blocks * launch.threads),
                   launch.budget.nbytes // common.nbytes)

    def _another(self) -> Core:
        core = Core(self.launch, self.kernel, self.cores[0].common, self._look)
        self.cores.append(core)
        return core

    def _turn(self, core: Core) -> int:
        core.start_clock()
        result = core.run(core.first, core.width)
        if result != STOPPED:
            self._look(core)
        return result

    def _look(self, core: Core) -> bool:
        going = super()._look(core)
        self._say_where(core)
        return going

    def _deadlock(self, core: Core) -> DeadlockError:
        assert self.kernel.parking is not None
        warps, words = core.common.fields["warps"], self.kernel.state_size // 4
        states = (ctypes.c_uint32 * (core.width * warps * words)).from_address(
            core.word("states_all"))
        return stuck.deadlock(self.launch, self.kernel.parking, core.first, np.ctypeslib.as_array(
            states).reshape(core.width, warps, words))
