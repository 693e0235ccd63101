"""The race check's rules once more, by full vector clocks: slow, plain, and the judge.

Every thread has a clock for every other; every access is kept and compared with all others of
its bytes. For launches of a hundred threads.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.lanes.events import Observer

NEAR, FAR = 0, 1  # for readers in the same block; for those in others


class Reference(Observer):
    """After a launch, ``racy`` has the places (space, block or None, byte) where a race is."""

    def launch_started(self, launch) -> None:
        self.threads, self.count = launch.threads, launch.blocks * launch.threads
        self.now = 0
        # knows[t, u]: accesses of u up to this time come before what t does next.
        self.knows = np.zeros((self.count, self.count), np.int64)
        # The same as of t's last fence: of any scope, and beyond the block.
        self.at_fence = np.zeros((2, self.count, self.count), np.int64)
        # Block → each of its threads' own fences, as of its last barrier: (2, count).
        self.at_barrier: dict[int, np.ndarray] = {}
        # Thread → what it saw by strong reads: (near clock, whole clock, by an atomic).
        self.seen: dict[int, list] = {}
        # Address → releaser's block → clocks for near and far readers, (2, count).
        self.messages: dict = {}
        self.accesses: dict = {}
        self.racy: set = set()

    def _global(self, wave, lanes) -> np.ndarray:
        return wave.first * wave.threads + np.asarray(lanes)

    def _learn(self, thread: int, clock: np.ndarray) -> None:
        self.knows[thread] = np.maximum(self.knows[thread], clock)

    def _meet(self, threads: np.ndarray) -> None:
        self.now += 1
        together = self.knows[threads].max(0)
        together[threads] = self.now
        self.knows[threads] = together

    # -- order -----------------------------------------------------------------------------------

    def released(self, barrier, lanes, groups, missing) -> None:
        threads = self._global(groups[0].wave, lanes)
        for block in np.unique(threads // self.threads).tolist():
            here = threads[threads // self.threads == block]
            if len(here) == self.threads:
                fences = np.zeros((2, self.count), np.int64)
                fences[:, here] = self.at_fence[:, here, here]
                self.at_barrier[block] = fences
                for thread in here.tolist():
                    waiting = self.seen.pop(thread, [])
                    for near, whole, atomic in waiting:
                        if atomic:
                            self._learn(thread, whole)
                        else:
                            self.seen.setdefault(thread, []).append((near, whole, atomic))
            self._meet(here)

    def warp_synchronised(self, group, instruction, mask) -> None:
        if instruction.opcode != "bar":
            return
        wave, lanes = group.wave, group.lanes
        label = wave.warp_of[lanes] << 32 | np.broadcast_to(mask, lanes.shape).astype(np.int64)
        for one in np.unique(label):
            self._meet(self._global(wave, lanes[label == one]))

    def fenced(self, group, instruction, scope) -> None:
        for thread in self._global(group.wave, group.lanes).tolist():
            for near, whole, _ in self.seen.pop(thread, []):
                self._learn(thread, near if scope == "cta" else whole)
            self._fence(thread, scope)

    def _fence(self, thread: int, scope: str) -> None:
        self.now += 1
        self.knows[thread, thread] = self.now
        self.at_fence[NEAR, thread] = self.knows[thread]
        if scope != "cta":
            self.at_fence[FAR, thread] = self.knows[thread]

    # -- accesses --------------------------------------------------------------------------------

    def accessed(self, access) -> None:
        if access.space == "local":
            return
        self.now += 1
        for lane, address in zip(access.lanes.tolist(), access.addresses.tolist(), strict=True):
            thread = int(self._global(access.group.wave, lane))
            block = thread // self.threads if access.space == "shared" else None
            for byte in range(address, address + access.size):
                self._compare(thread, (access.space, block, byte), access)
            if access.strong:
                self._message(thread, (access.space, block, address), access)

    def _compare(self, thread: int, place, access) -> None:
        writes = access.kind != "load"
        earlier = self.accesses.setdefault(place, [])
        volatile = access.kind == "store" and "volatile" in access.instruction.modifiers
        for other, time, wrote, strong, stored in earlier:
            if (
                other != thread
                and (writes or wrote)
                and (not (strong and access.strong) or (volatile and stored))
                and time > self.knows[thread, other]
            ):
                self.racy.add(place)
        earlier.append((thread, self.now, writes, access.strong, volatile))

    def _message(self, thread: int, key, access) -> None:
        block = thread // self.threads
        passed = self.messages.setdefault(key, {})
        if access.kind != "store" and passed:
            near = passed.get(block, np.zeros((2, self.count), np.int64))[NEAR]
            whole = near
            for other, clocks in passed.items():
                whole = np.maximum(whole, clocks[FAR] if other != block else near)
            if access.order == "acquire":
                self._learn(thread, whole)
            else:
                self.seen.setdefault(thread, []).append((near, whole, access.kind == "atomic"))
        if access.kind == "store":
            passed.clear()
        if access.order == "release":
            self._fence(thread, access.scope)
        if access.kind != "load" and self.at_fence[NEAR, thread].any():
            clocks = self.at_fence[:, thread]
            if block in self.at_barrier:
                clocks = np.maximum(clocks, self.at_barrier[block])
            passed[block] = np.maximum(passed.get(block, 0), clocks)
