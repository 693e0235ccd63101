"""Detection of launches that can never end.

A lane that comes to the head of a loop with all that decides its way as it was in an earlier round
(:mod:`virtualgpu.program.loops`) goes round for ever, unless memory decides as well. Where memory
decides, the lane goes round for as long as memory stays as it is: and that is for ever too once all
lanes that live go round like this, or wait at a barrier. What is stored where no loop looks changes
nothing, nor does the value that is there already.

Looking costs much more than running, so it is done for a while, now and then: :data:`FIRST`
seconds after a launch has begun (:data:`WATCHED` times as many where observers listen), and
again whenever twice as much time has passed.
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
WATCHED = 5  # times as late where observers listen: they make a launch so much slower, or more
PART = 0.2  # of a launch's time is spent looking, at most; twice that where half is proven

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
        A digest of what decided the lane's way at a loop's head (uint64), and in which epoch.
    visits, due : ndarray
        Visits of heads in this epoch, and at which of them the next snapshot is taken: at twice
        as many each time, so that a cycle of any length is found (Brent 1980).
    repeats : ndarray
        The epoch in which the lane was seen to go in a circle.
    site, address : ndarray
        Which load or atomic it looks at memory with, as a number, and where in its space.
    turn : ndarray
        The block from which it last came back to a loop's head.
    """

    def __init__(self, count: int):
        self.snapshot = np.zeros(count, np.uint64)
        self.taken, self.visits, self.due, self.repeats = (
            np.zeros(count, np.int64) for _ in range(4)
        )
        self.site, self.turn = np.full(count, -1), np.full(count, -1)
        self.address = np.zeros(count, np.uint64)


class Standstill:
    """Detector of launches that can no longer end.

    An *epoch* is a time in which the memory that loops look at stays as it is. What was stored
    meanwhile can be taken back, if so asked before.
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
        self.words: dict[str, np.ndarray] = {}  # space → what loops have looked at, sorted
        self.waves: dict[Wave, Lanes] = {}

    def lanes(self, wave: Wave) -> Lanes:
        known = self.waves.get(wave)
        if known is None:
            known = self.waves[wave] = Lanes(wave.lanes)
        return known

    # -- what the running code tells -----------------------------------------------------------

    def changed(self) -> None:
        """Start a new epoch, because memory that loops look at may have changed."""
        self.epoch += 1

    def looked(
        self, site: Site, group: Group, space: str, address: np.ndarray, blocks: np.ndarray | None
    ) -> None:
        """Record that lanes load from memory that decides how a loop goes on."""
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
        """Record that lanes have stored: the old values and the new ones."""
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
        """Restore global memory."""
        memory = self.launch.memory
        for address, values in reversed(self.before or []):
            shift = np.uint64(values.itemsize.bit_length() - 1)
            memory.views[values.dtype][(address - np.uint64(BASE) >> shift).view(np.int64)] = values

    def _words(
        self, group: Group, space: str, address: np.ndarray, blocks: np.ndarray | None = None
    ) -> np.ndarray:
        """Return numbers for the words of 8 bytes at addresses: int64, shape (1,) or (n,)."""
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
        """Handle lanes that come back to the head of a loop.

        Returns True if they should let others run because they go in circles: a random order would
        not let them out by itself. Raises EndlessError.
        """
        loop = self.loops.get(head)
        if loop is None:
            return False
        known, lanes = self.lanes(group.wave), group.lanes
        known.turn[lanes] = group.block
        sees = loop.sees or bool(group.stack)
        digest = self._digest(group, head, loop)
        taken = known.taken[lanes]
        stands = taken == self.epoch if sees else taken > 0  # where memory has no say, for ever
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
            return True  # blocks that have not begun may help
        if all(map(self._is_still, self.launch.resident)):
            resident = self.launch.resident
            wave = min(
                (wave for wave in resident if wave.finished < wave.lanes),
                key=lambda wave: wave.first,
            )
            raise standstill_messages.all_wait(wave, resident, self._turning(wave, group))
        return True

    # -- who goes in circles -------------------------------------------------------------------

    def _digest(self, group: Group, head: int, loop: loops.Loop) -> np.ndarray:
        """Digest everything that decides where lanes go from here: uint64, shape (n,)."""
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
        """Return True if all lanes of a wave have ended, wait, or go in circles."""
        still = wave.has_exited.copy()
        still |= self.lanes(wave).repeats == self.epoch
        for waiting, _ in barriers.held_up(wave):
            still[waiting.lanes] = True
        return bool(still.all())

    def _turning(self, wave: Wave, here: Group) -> list[tuple[Group, str]]:
        """Return the lanes that repeat a state, each round's end, and the memory it reads."""
        groups = [group for some in wave.pending.values() for group in some]
        groups += wave.yielded + ([here] if here.wave is wave else [])
        known, result = self.lanes(wave), []
        for group in groups:
            both = np.stack([known.site[group.lanes], known.turn[group.lanes]])
            for number, turn in np.unique(both, axis=1).T.tolist():
                chosen = (both[0] == number) & (both[1] == turn)
                part = group.subset(np.flatnonzero(chosen), turn)
                what = "go round a loop"
                if number >= 0:
                    site, space = self.sites[number]
                    what = standstill_messages.until(site, space, part, known.address[part.lanes])
                result.append((part, what))
        return result

    def is_near(self) -> bool:
        """Return True if half of the lanes go in circles."""
        found = sum(np.count_nonzero(known.repeats == self.epoch) for known in self.waves.values())
        return bool(2 * found > sum(wave.lanes - wave.finished for wave in self.waves))


def _among(words: np.ndarray, have: np.ndarray) -> np.ndarray:
    """Return the mask of the words that are in ``have``, which is sorted.

    ``np.isin`` would sort it at each look: a launch of jagged masses of 200,000 events took six
    times as long.
    """
    if not len(have):
        return np.zeros(len(words), bool)
    found: np.ndarray = have[np.searchsorted(have, words).clip(max=len(have) - 1)] == words
    return found


def _mixed(digest: np.ndarray, bits: np.ndarray) -> np.ndarray:
    digest = (digest ^ bits) * _PRIME
    digest ^= digest >> np.uint64(29)
    return digest
