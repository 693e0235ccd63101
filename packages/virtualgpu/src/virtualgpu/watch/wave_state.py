"""State that the race detector keeps for each wave."""

from __future__ import annotations

from virtualgpu.compilers.llvm import pointer
from virtualgpu.lanes.wave import Wave
from virtualgpu.watch.clocks import TIME, Knowledge
from virtualgpu.watch.cluster_order import ClusterOrder
from virtualgpu.watch.phases import Phases
from virtualgpu.watch.shadow_memory import Shadow


class WaveState:
    """State of the check for a wave."""

    def __init__(self, wave: Wave, floor: int):
        self.wave = wave
        self.knowledge = Knowledge(wave, floor)
        self.block_of = wave.block_of
        self.block_pointer = pointer(self.block_of)
        self.first = wave.first * wave.threads
        self.shared: Shadow | None = None
        self.shared_floor = floor
        self.fences = None  # set by release_acquire
        self.clusters: ClusterOrder | None = None  # for waves with cluster barriers
        self.phases: Phases | None = None  # for waves with barriers in shared memory

    def close(self) -> None:
        if self.shared is not None:
            self.shared.close()

    def shared_shadow(self, granule: int) -> Shadow:
        if self.shared is None:
            # Records from an earlier use of the shadow have to count as old.
            self.shared_floor = max(TIME.passes(), self.knowledge.floor)
            wave = self.wave
            self.shared = Shadow(0, wave.blocks * wave.shared_stride, granule)
        return self.shared
