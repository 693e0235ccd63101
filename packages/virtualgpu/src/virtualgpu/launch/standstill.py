"""Detector of launches that can never end.

A lane repeats a loop for ever if it arrives at the loop header with the same values in everything
that decides its control flow (:mod:`virtualgpu.program.loops`) as in an earlier iteration, unless
memory also decides. If memory decides, the lane repeats the loop until that memory changes. It
never changes once all lanes that have not ended repeat such loops or wait at a barrier. Stores to
memory that no loop reads change nothing, and neither do stores of the value that is already there.

Detection costs much more than execution, so it is switched on only for short periods: first
:data:`FIRST` seconds after the launch has begun (:data:`WATCHED` times as many if there are
observers), and then whenever twice as much time has passed.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from virtualgpu.lanes import barriers, clusters
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.wave import Wave
from virtualgpu.launch import standstill_messages
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.memory.mapping import BASE
from virtualgpu.memory.windows import WINDOW
from virtualgpu.program import loops
from virtualgpu.program.program import Program
from virtualgpu.program.site import Site

WORD = 8  # bytes
FIRST = 0.1  # seconds of processor time
WATCHED = 5  # times as late with observers, which make a launch at least so much slower
PART = 0.2  # of a launch's time is spent on detection, at most; twice that if half is proven

_PRIME = np.uint64(0x9E37_79B9_7F4A_7C15)


class Running(Protocol):
    """The parts of a launch that decide if it can go on."""

    program: Program
    memory: GlobalMemory
    resident: list[Wave]
    unstarted: int


class Lanes:
    """State of each lane of a wave.

    Attributes
    ----------
    snapshot, taken : ndarray
        Digest of the state that decides the lane's control flow at a loop header (uint64), and the
        epoch in which it was taken.
    visits, due : ndarray
        Number of visits of loop headers in this epoch, and the visit at which the next snapshot is
        taken. That number doubles each time, so that a cycle of any length is found (Brent 1980).
    repeats : ndarray
        Epoch in which the lane was found to repeat a state.
    site, address : ndarray
        Number of the load or atomic with which the lane last read memory, and the address in its
        state space.
    turn : ndarray
        Basic block from which the lane last jumped back to a loop header.
    """

    def __init__(self, count: int):
        self.snapshot = np.zeros(count, np.uint64)
        self.taken, self.visits, self.due, self.repeats = (
            np.zeros(count, np.int64) for _ in range(4)
        )
        self.site, self.turn = np.full(count, -1), np.full(count, -1)
        self.address = np.zeros(count, np.uint64)


class Standstill:
    """State of the detector for one launch.

    An *epoch* is a period in which the memory that loops read does not change. With ``takes_back``,
    stores are recorded so that :meth:`take_back` can undo them.
    """

    def __init__(self, launch: Running, takes_back: bool = False):
        self.launch, self.epoch = launch, 1
        self.before: list[tuple[np.ndarray, np.ndarray]] | None = [] if takes_back else None
        program = launch.program
        if program.loops is None:
            program.loops = loops.heads(program)
        self.loops: dict[int, loops.Loop] = program.loops
        self.looks = frozenset[int]().union(*(loop.looks for loop in self.loops.values()))
        self.sites: list[tuple[Site, str]] = []  # and the space
        self.words: dict[str, np.ndarray] = {}  # state space → addresses that loops read, sorted
        self.waves: dict[Wave, Lanes] = {}

    def lanes(self, wave: Wave) -> Lanes:
        known = self.waves.get(wave)
        if known is None:
            known = self.waves[wave] = Lanes(wave.lanes)
        return known

    # -- events of the running code ---------------------------------------------------------------

    def changed(self) -> None:
        """Start a new epoch, because memory that loops read may have changed."""
        self.epoch += 1

    def looked(
        self, site: Site, group: Group, space: str, address: np.ndarray, blocks: np.ndarray | None
    ) -> None:
        """Record that lanes load from memory that decides whether a loop continues."""
        if id(site.instruction) not in self.looks:
            return
        if (site, space) not in self.sites:
            self.sites.append((site, space))
        known = self.lanes(group.wave)
        known.site[group.lanes] = self.sites.index((site, space))
        known.address[group.lanes] = (
            address if blocks is None else clusters.joined(group, address, blocks)
        )
        words = self._words(group, space, address, blocks)
        if site.size > WORD:
            words = np.concatenate([words, words + 1])
        have = self.words.get(space, words[:0])
        new = np.unique(words[~_among(words, have)])
        if len(new):
            self.words[space] = np.insert(have, np.searchsorted(have, new), new)

    def wrote(
        self, group: Group, space: str, address: np.ndarray, before: np.ndarray, after: np.ndarray
    ) -> None:
        """Record a store of lanes, with the old and the new values."""
        bits = f"u{after.itemsize}"
        differs = before.view(bits) != after.view(bits)
        if self.before is not None and space == "global" and differs.any():
            self.before.append((address, before))
        have = self.words.get(space)
        if have is not None and differs.any():
            words = self._words(group, space, address)
            if len(differs) == len(words):
                words = words[differs]
            if _among(words, have).any():
                self.changed()

    def take_back(self) -> None:
        """Undo the recorded stores to global memory."""
        memory = self.launch.memory
        for address, values in reversed(self.before or []):
            shift = np.uint64(values.itemsize.bit_length() - 1)
            memory.views[values.dtype][(address - np.uint64(BASE) >> shift).view(np.int64)] = values

    def _words(
        self, group: Group, space: str, address: np.ndarray, blocks: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the numbers of the 8-byte words at the addresses: int64, shape (1,) or (n,)."""
        if space == "shared" and blocks is None:
            address, blocks, _ = clusters.split(group, address)
        words: np.ndarray = (address >> np.uint64(3)).astype(np.int64)
        if space == "global":
            return words
        wave = group.wave
        owner: np.ndarray = (
            wave.first * wave.threads + group.lanes if blocks is None else wave.first + blocks
        )
        words = words + owner * (WINDOW // WORD)
        return words

    def visited(self, group: Group, head: int) -> bool:
        """Handle lanes that jump back to a loop header.

        Returns True if these lanes repeat a state and should yield to others, because a random
        schedule would not switch to other lanes by itself. Raises EndlessError if the launch can
        never end.
        """
        loop = self.loops.get(head)
        if loop is None:
            return False
        known, lanes = self.lanes(group.wave), group.lanes
        known.turn[lanes] = group.block
        sees = loop.sees or bool(group.stack)
        digest = self._digest(group, head, loop)
        taken = known.taken[lanes]
        stands = taken == self.epoch if sees else taken > 0  # without memory, it always holds
        again = stands & (known.snapshot[lanes] == digest)
        if again.any() and not sees:
            raise standstill_messages.goes_round(group.subset(np.flatnonzero(again), group.block))
        known.repeats[lanes[again]] = self.epoch
        visits = np.where(stands, known.visits[lanes], 0) + 1
        due = np.where(stands, known.due[lanes], 1)
        renew = visits >= due
        some = lanes[renew]
        known.snapshot[some], known.taken[some] = digest[renew], self.epoch
        known.visits[lanes], known.due[lanes] = visits, np.where(renew, 2 * visits, due)
        if not self._is_still(group.wave):
            return bool((known.repeats[lanes] == self.epoch).all())
        if self.launch.unstarted:
            return True  # blocks that have not started may release them
        if all(map(self._is_still, self.launch.resident)):
            resident = self.launch.resident
            wave = min(
                (wave for wave in resident if wave.finished < wave.lanes),
                key=lambda wave: wave.first,
            )
            raise standstill_messages.all_wait(wave, resident, self._turning(wave, group))
        return True

    # -- repeated states ------------------------------------------------------------------------

    def _digest(self, group: Group, head: int, loop: loops.Loop) -> np.ndarray:
        """Return a digest of all state that decides the lanes' control flow: uint64, shape (n,)."""
        blocks = self.launch.program.blocks
        digest = np.full(group.count, head + 1, np.uint64)
        slots = sorted(
            blocks[head].live_in if group.stack else blocks[head].live_in & set(loop.slots)
        )
        frames = [(0, slots, group.registers)]
        frames += [
            (back + 1, sorted(blocks[back].live_out - set(blocks[back].receives)), saved)
            for back, _, saved in group.stack
        ]
        for back, some, registers in frames:
            digest = _mixed(digest, np.array([back], np.uint64))
            for slot in some:
                value = registers.get(slot)
                if value is not None:
                    bits = value.view(f"u{value.dtype.itemsize}").astype(np.uint64)
                    digest = _mixed(digest, bits)
        return digest

    def _is_still(self, wave: Wave) -> bool:
        """Return True if every lane of a wave has ended, waits, or repeats a state."""
        still = wave.has_exited.copy()
        still |= self.lanes(wave).repeats == self.epoch
        for waiting, _ in barriers.held_up(wave):
            still[waiting.lanes] = True
        return bool(still.all())

    def _turning(self, wave: Wave, here: Group) -> list[tuple[Group, str]]:
        """Return the lanes that repeat a state, with each loop's end and the memory it reads."""
        groups = [group for some in wave.pending.values() for group in some]
        groups += wave.yielded + ([here] if here.wave is wave else [])
        known, result = self.lanes(wave), []
        for group in groups:
            both = np.stack([known.site[group.lanes], known.turn[group.lanes]])
            for number, turn in np.unique(both, axis=1).T.tolist():
                chosen = (both[0] == number) & (both[1] == turn)
                part = group.subset(np.flatnonzero(chosen), turn)
                what = "repeat a loop"
                if number >= 0:
                    site, space = self.sites[number]
                    what = standstill_messages.until(site, space, part, known.address[part.lanes])
                result.append((part, what))
        return result

    def is_near(self) -> bool:
        """Return True if half of the lanes repeat a state."""
        found = sum(np.count_nonzero(known.repeats == self.epoch) for known in self.waves.values())
        return bool(2 * found > sum(wave.lanes - wave.finished for wave in self.waves))


def _among(words: np.ndarray, have: np.ndarray) -> np.ndarray:
    """Return a mask of the words that are in ``have``, which is sorted.

    ``np.isin`` would sort ``have`` on every call: with it, a launch of jagged masses of 200,000
    events took six times as long.
    """
    if not len(have):
        return np.zeros(len(words), bool)
    found: np.ndarray = have[np.searchsorted(have, words).clip(max=len(have) - 1)] == words
    return found


def _mixed(digest: np.ndarray, bits: np.ndarray) -> np.ndarray:
    digest = (digest ^ bits) * _PRIME
    digest ^= digest >> np.uint64(29)
    return digest
