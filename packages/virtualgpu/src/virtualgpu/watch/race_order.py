"""Thread order of a launch, as the race detector sees it.

Barriers of blocks, warps, grids and clusters, barriers in shared memory, and fences create it.
"""

from __future__ import annotations

from virtualgpu.lanes.events import Observer
from virtualgpu.lanes.wave import Wave
from virtualgpu.watch import race_loop, shadow_memory
from virtualgpu.watch.clocks import TIME as _time
from virtualgpu.watch.clocks import has_count
from virtualgpu.watch.cluster_order import ClusterOrder
from virtualgpu.watch.phases import Phases
from virtualgpu.watch.release_acquire import Messages
from virtualgpu.watch.wave_state import WaveState


class RaceOrder(Observer):
    """Order of accesses in a wave: what its threads know of each other.

    Attributes
    ----------
    active : bool
        True if this launch is checked.
    states : dict
        State of each running wave.
    floor : int
        Accesses before this time precede all later ones.
    exact : bool
        True if each thread of a block needs separate times, because a barrier joined only some.
    strong : bool
        The kernel has atomics or volatile accesses.
    messages : Messages or None
        What fences and atomics order, where the kernel has both.
    """

    active: bool
    states: dict[Wave, WaveState]
    floor: int
    exact: bool
    strong: bool
    messages: Messages | None
    generation: int

    def _forget(self) -> None:
        """Reset all times, because the clock has restarted."""
        self.generation = _time.generation
        self.floor = 0
        for state in self.states.values():
            state.knowledge.forget()
            state.phases = state.clusters = None
            state.shared_floor = 0
            if state.shared:
                state.shared.forget()
        if self.messages:
            self.messages.forget()

    def state(self, wave: Wave) -> WaveState:
        state = self.states.get(wave)
        if state is None:
            state = self.states[wave] = WaveState(wave, self.floor)
        if self.exact and not state.knowledge.exact:
            state.knowledge.refine()
        return state

    # -- synchronisation -----------------------------------------------------------------------

    def tick(self) -> int:
        if _time.now >= race_loop.MAXIMUM_TIME:
            _time.restart()
            shadow_memory.forget()
        if self.generation != _time.generation:  # perhaps set by an outer check()
            self._forget()
        return _time.passes()

    def released(self, barrier, lanes, groups, missing) -> None:
        if not self.active:
            return
        time = self.tick()
        wave = groups[0].wave
        state = self.state(wave)
        if barrier == "grid":
            self.floor = time
            state.knowledge.barrier(barrier, wave.all_lanes, time, False)
            state.knowledge.floor = time
            if self.messages:
                self.messages.forget()
            return
        blocks = state.knowledge.barrier(barrier, lanes, time, has_count(groups))
        self.exact |= state.knowledge.exact
        if state.phases:
            state.phases.met(lanes, blocks)
        if self.messages:
            self.messages.barrier(state, lanes, blocks)

    def arrived(self, group, instruction, barrier) -> None:
        if self.active and "arrive" in instruction.modifiers:
            state = self.state(group.wave)
            state.knowledge.arrive(barrier, group.lanes, self.tick())
            self.exact = True

    def warp_synchronised(self, group, instruction, mask) -> None:
        if not self.active or instruction.opcode != "bar":
            return  # votes and shuffles do not order memory
        state = self.state(group.wave)
        state.knowledge.warp_barrier(group.lanes, mask, self.tick())
        self.exact |= state.knowledge.exact
        if state.phases:
            state.phases.met_in_warps(group.lanes, mask)
        if self.messages:
            self.messages.warp_barrier(state, group.lanes)

    def fenced(self, group, instruction, scope) -> None:
        if self.active and self.messages:
            self.messages.fence(self.state(group.wave), group.lanes, self.tick(), scope)

    # -- barriers of clusters ------------------------------------------------------------------

    def clusters(self, wave: Wave) -> ClusterOrder | None:
        if not self.active:
            return None
        state = self.state(wave)
        if state.clusters is None:
            state.clusters = ClusterOrder(state)
        return state.clusters

    def cluster_arrived(self, group, instruction) -> None:
        if clusters := self.clusters(group.wave):
            clusters.arrived(group.lanes, self.tick(), "relaxed" not in instruction.modifiers)

    def cluster_completed(self, wave, arrived, missing) -> None:
        if clusters := self.clusters(wave):
            clusters.completed(arrived)

    def cluster_passed(self, group, instruction) -> None:
        if clusters := self.clusters(group.wave):
            clusters.passed(group.lanes)

    # -- barriers in shared memory -------------------------------------------------------------

    def phases(self, wave: Wave) -> Phases | None:
        if not self.active:
            return None
        state = self.state(wave)
        if state.phases is None:
            state.phases, self.exact = Phases(state), True
        return state.phases

    def mbarrier_made(self, wave, words) -> None:
        if phases := self.phases(wave):
            phases.made(words)

    def mbarrier_arrived(self, group, instruction, word) -> None:
        if phases := self.phases(group.wave):
            phases.arrived(group.lanes, word, self.tick())

    def mbarrier_completed(self, wave, word, phase) -> None:
        if phases := self.phases(wave):
            phases.completed(word, phase)

    def mbarrier_passed(self, group, instruction, words, phases) -> None:
        if known := self.phases(group.wave):
            known.passed(group.lanes, words, phases)
