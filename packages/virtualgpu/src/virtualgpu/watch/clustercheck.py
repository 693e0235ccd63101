"""Checker for missed cluster barriers, and for shared memory of blocks that may not be running.

A block may access the shared memory of another block of its cluster from the time when that block
has begun until it ends. A cluster barrier before the first such access and one after the last
guarantee this (CUDA C++ Programming Guide, "Distributed Shared Memory"). The virtual GPU runs all
blocks of a cluster together, so a missing barrier would rarely show an effect.

A fence, an acquire and an mbarrier may also guarantee it, so accesses of threads that use them are
not reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.lanes.events import Access
from virtualgpu.watch.checking import Checker, at_line
from virtualgpu.wording import many


class _Wave:
    """State of one wave.

    It stores which threads know that the cluster's blocks have begun, and which accesses to a
    block it has not been told about (instruction numbers, -1 for none; shape (lanes, cluster)).
    """

    def __init__(self, wave: Any):
        self.met = np.zeros(wave.lanes, bool)
        self.open = np.full((wave.lanes, wave.launch.cluster_size), -1, np.int32)
        self.told = self.open.copy()  # before the thread arrived at a barrier that is not complete


class Clustercheck(Checker):
    """Checker that adds such findings to a report, one for each line."""

    def launch_started(self, launch) -> None:
        super().launch_started(launch)
        self.active = launch.cluster_size > 1
        self.waves: dict[Any, _Wave] = {}
        self.sites: list = []  # instructions that accessed another block
        self.arrival: Any = None

    def launch_finished(self, launch) -> None:
        super().launch_finished(launch)
        self.waves = {}

    # -- accesses ------------------------------------------------------------------------------

    def accessed(self, access: Access) -> None:
        if not self.active:
            return
        if access.order in ("acquire", "acq_rel", "sc"):
            self._made_sure(access.group)
        if access.space != "shared" or access.blocks is None:
            return
        wave, lanes = access.group.wave, access.lanes
        state = self._state(wave)
        other = np.flatnonzero(access.blocks != wave.block_of[lanes])
        if not len(other):
            return
        early = other[~state.met[lanes[other]]]
        if len(early):
            at = self.location(wave, access.instruction.source, int(lanes[early[0]]))
            whose = wave.where(int(access.blocks[early[0]]) * wave.threads)[0]
            self.add(
                ("begun", access.instruction.source),
                (
                    f"race: thread {at.thread} of block {at.block} accesses{at_line(at)} the "
                    f"shared memory of block {whose}, which may not have begun. Synchronise "
                    "the cluster before the first such access: cluster.sync()"
                ),
                at,
                None,
                len(early),
            )
        if access.instruction not in self.sites:
            self.sites.append(access.instruction)
        state.open[lanes[other], access.blocks[other] % self.launch.cluster_size] = (
            self.sites.index(access.instruction)
        )

    def fenced(self, group, instruction, scope) -> None:
        if self.active and scope != "cta":
            self._made_sure(group)

    def mbarrier_passed(self, group, instruction, words, phases) -> None:
        if self.active:
            self._made_sure(group)

    def _made_sure(self, group) -> None:
        """Record that these threads and their cluster know of each other's accesses."""
        state = self._state(group.wave)
        state.met[group.lanes] = True
        self._close(group, state.open)
        self._close(group, state.told)

    def _close(self, group, table) -> None:
        """Record that the group's blocks know the cluster's accesses to their shared memory."""
        wave, size = group.wave, self.launch.cluster_size
        for block in np.unique(wave.block_of[group.lanes]).tolist():
            first = block - block % size
            table[first * wave.threads : (first + size) * wave.threads, block % size] = -1

    # -- barriers and ends ---------------------------------------------------------------------

    def cluster_arrived(self, group, instruction) -> None:
        self.arrival = instruction
        if not self.active:
            return
        state = self._state(group.wave)
        lanes = group.lanes
        state.told[lanes] = np.maximum(state.told[lanes], state.open[lanes])
        state.open[lanes] = -1

    def cluster_passed(self, group, instruction) -> None:
        if self.active:
            state = self._state(group.wave)
            state.met[group.lanes] = True
            self._close(group, state.told)

    def cluster_completed(self, wave, arrived, missing) -> None:
        if not len(missing):
            return
        size = self.launch.cluster_size * wave.threads
        first = int(missing[0])
        here = arrived[arrived // size == first // size]
        few = int(np.count_nonzero(missing // size == first // size))
        at = self.location(wave, self.arrival.source, int(here[0]))
        gone = self.location(wave, None, first)
        message = (
            f"barrier: {many(few, 'thread')} of the cluster of block {at.block} ended before "
            f"cluster.sync(){at_line(at)} (the first is {gone.thread} of block {gone.block}), "
            f"where {'1 waits' if len(here) == 1 else f'{len(here)} wait'}. Every thread of "
            "every block must reach it: guard the work and not the barrier, and do not "
            "return before it"
        )
        self.add(
            ("missing", self.arrival.source), message, at, gone, len(np.unique(missing // size))
        )

    def exited(self, group) -> None:
        wave = group.wave
        if not self.active or wave not in self.waves:
            return
        state, size = self.waves[wave], self.launch.cluster_size
        for block in np.unique(wave.block_of[group.lanes]).tolist():
            if wave.exited[block] < wave.threads:
                continue
            first = block // size * size * wave.threads
            part = slice(first, first + size * wave.threads)
            for table in (state.open, state.told):
                reached = np.flatnonzero(table[part, block % size] >= 0) + first
                if len(reached):
                    self._ended(wave, block, reached, table[reached[0], block % size])
        if wave.finished == wave.lanes:
            self.waves.pop(wave)

    def _ended(self, wave, block: int, reached, site: int) -> None:
        instruction = self.sites[site]
        at = self.location(wave, instruction.source, int(reached[0]))
        whose = wave.where(block * wave.threads)[0]
        self.add(
            ("ended", instruction.source),
            (
                f"race: block {whose} ends, and nothing makes it wait for thread {at.thread} of "
                f"block {at.block}, which accesses{at_line(at)} its shared memory. Synchronise "
                "the cluster after the last such access: cluster.sync() before the kernel's end"
            ),
            at,
            None,
            len(reached),
        )

    def _state(self, wave) -> _Wave:
        if wave not in self.waves:
            self.waves[wave] = _Wave(wave)
        return self.waves[wave]
