"""Checker for accesses to shared memory that an asynchronous copy has not yet delivered.

A copy may write from its start until its own thread has waited for it, or for an ``mbarrier`` at
which the copy arrives (PTX ISA, "cp.async": it is not ordered with anything that its thread does
before that). A thread that accesses the target in between may find the old or the new contents.
The barrier that other threads need after the wait is checked by the race detector.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.lanes.events import Access
from virtualgpu.lanes.wave import Wave
from virtualgpu.languages import language_of
from virtualgpu.watch.checking import Checker, at_line
from virtualgpu.watch.race_messages import element
from virtualgpu.wording import many


class Copycheck(Checker):
    """Checker that adds such accesses to a report as races, one finding for each pair of lines."""

    def launch_started(self, launch) -> None:
        super().launch_started(launch)
        # For each wave: the number of bytes still to come and, for each byte, the numbers of the
        # copy's instruction and lane, from 1.
        self.to_come: dict[Wave, int] = {}
        self.maps: dict[Wave, np.ndarray] = {}
        self.copies: list[Access] = []
        self.numbers: dict[int, int] = {}

    def launch_finished(self, launch) -> None:
        super().launch_finished(launch)
        self.maps, self.copies = {}, []

    def exited(self, group) -> None:
        wave = group.wave
        if wave.finished == wave.lanes:
            self.maps.pop(wave, None)
            self.to_come.pop(wave, None)

    def copy_began(self, access: Access) -> None:
        wave = access.group.wave
        if wave not in self.maps:
            self.maps[wave], self.to_come[wave] = np.zeros(len(wave.shared), np.int64), 0
        self._look(access)
        number = self.numbers.setdefault(id(access.instruction), len(self.copies))
        if number == len(self.copies):
            self.copies.append(access)
        places = _bytes(access)
        self.maps[wave][places] = (number * wave.lanes + access.lanes + 1)[:, None]
        self.to_come[wave] += places.size

    def copy_arrived(self, access: Access) -> None:
        wave = access.group.wave
        places = _bytes(access)
        self.maps[wave][places] = 0
        self.to_come[wave] -= places.size

    def accessed(self, access: Access) -> None:
        if access.space == "shared" and self.to_come.get(access.group.wave):
            self._look(access)

    def _look(self, access: Access) -> None:
        """Report an access to the target of a copy."""
        wave = access.group.wave
        touched = self.maps[wave][_bytes(access)].max(1)
        if touched.any():
            self._report(access, wave, touched)

    def _report(self, access: Access, wave: Wave, touched: np.ndarray) -> None:
        position = int(np.argmax(touched > 0))
        number, lane = divmod(int(touched[position]) - 1, wave.lanes)
        copy, count = self.copies[number], int(np.count_nonzero(touched))
        key = (
            access.instruction.source or id(access.instruction),
            copy.instruction.source or id(copy.instruction),
            access.kind,
        )
        if self.again(key, count):
            return
        at = self.location(wave, access.instruction.source, int(access.lanes[position]))
        other = self.location(wave, copy.instruction.source, lane)
        verb = (
            "copies to"
            if access.instruction.opcode == "cp"
            else {"load": "reads", "store": "writes", "atomic": "updates"}[access.kind]
        )
        where = element(self.launch, access, int(access.addresses[position]))
        who = "it" if lane == access.lanes[position] else f"thread {other.thread}"
        message = (
            f"race: thread {at.thread} of block {at.block} {verb} {many(access.size, 'byte')} "
            f"of shared memory ({where}){at_line(at)} before cp.async delivered it: {who} "
            f"began the copy{at_line(other)} and has not waited for it. Wait for the copy "
            "(cp.async.wait_group, pipeline.consumer_wait, barrier.wait), then put "
            f"{language_of(copy.instruction.source).barrier} before other threads use the data"
        )
        self.add(key, message, at, other, count)


def _bytes(access: Access) -> np.ndarray:
    """Return the bytes of an access in the wave's shared memory: int64, shape (n, size)."""
    wave = access.group.wave
    first = access.addresses.astype(np.int64) + access.owners() * wave.shared_stride
    return first[:, None] + np.arange(access.size)
