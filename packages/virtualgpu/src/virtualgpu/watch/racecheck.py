"""Race detector for global and shared memory.

A race is a pair of accesses by two threads to the same bytes, of which at least one is a write,
without an order between them. The rules are those of the memory consistency model (PTX ISA, "Memory
Consistency Model"), as they appear to the author of a kernel:

- A thread's own accesses are ordered. So are those of one launch and the next.
- A barrier orders what the threads that meet at it did before with what they do after:
  ``syncthreads`` for a block (PTX ``bar.sync``, also with a number and a count),
  ``syncwarp`` for the lanes in its mask, ``grid.sync()`` for all.
- Lockstep orders nothing: lanes of one warp race like others. Votes and shuffles exchange
  registers and order no memory (CUDA C++ Programming Guide, "Warp Shuffle Functions").
- Atomics and volatile accesses do not race with each other, and order nothing by themselves. By
  the letter of the model this also holds for two volatile accesses. But CUDA C++ calls them a
  race, and a lost update is still lost. So only flags may be ``volatile``
  (:mod:`~virtualgpu.program.volatile_uses`); volatile data, and two volatile stores, need an order.
- Two atomics of different sizes race if they overlap.
- If a thread passes a fence (``threadfence``) and then runs an atomic, its earlier accesses are
  ordered before the accesses of another thread that sees the atomic's result and then passes a
  fence (:mod:`.release_acquire`).

Two lanes that write one address in one instruction also race, whatever they write, because the
model does not say which value remains. Such writes to shared memory are not reported in a kernel
whose compiler guarantees that the values are equal (:data:`~virtualgpu.ptx.module.ONE_STORE`). In a
Triton program, the unit is the program and not the thread, so a scalar that a program loads and
stores is private to it (:mod:`~virtualgpu.program.scalar_loads`).

The race detector does not see races through local, constant or texture memory. Races between
launches in different streams, and between the host and a kernel, are found by :mod:`.streamcheck`.
"""

from __future__ import annotations

from struct import Struct

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.findings import Report
from virtualgpu.lanes.events import Access
from virtualgpu.lanes.wave import WARP
from virtualgpu.program.compare_and_swap_loops import retried_loads
from virtualgpu.program.mixed_atomics import mixes_sizes, unit
from virtualgpu.program.program import Program
from virtualgpu.program.scalar_loads import scalar_loads
from virtualgpu.program.volatile_uses import VolatileUses, volatile_uses
from virtualgpu.ptx.module import ONE_STORE
from virtualgpu.watch import race_loop
from virtualgpu.watch.clocks import TIME as _time
from virtualgpu.watch.clocks import joins_some
from virtualgpu.watch.race_messages import Party, Races, older_party
from virtualgpu.watch.race_order import RaceOrder
from virtualgpu.watch.release_acquire import Messages, orders_memory
from virtualgpu.watch.shadow_memory import Shadow
from virtualgpu.watch.wave_state import WaveState

ROOM = 1 << 16  # conflicts of one instruction that are examined one by one
_ACCESS = Struct(f"{len(race_loop.ACCESS)}q")


class Racecheck(RaceOrder):
    """Race detector that checks every launch and adds races to a report (see the module)."""

    def __init__(self, report: Report):
        self.report = report
        self.areas: dict[int, Shadow] = {}  # start of an allocation → its shadow memory
        self.found = [np.empty(ROOM, np.int64) for _ in range(4)]  # as many as `_result` counts
        self._result = np.array([0, ROOM, *map(pointer, self.found)], np.int64)
        self._access = np.zeros(len(race_loop.ACCESS), np.int64)
        self.active = False
        self.recorded = False  # True if another checker needs the touched memory of a launch
        self.generation = _time.generation

    # -- launches ------------------------------------------------------------------------------

    volatile: VolatileUses

    def launch_started(self, launch) -> None:
        threads = launch.blocks * launch.threads
        # A single thread cannot race.
        self.active = 1 - self.recorded < threads <= race_loop.MAXIMUM_THREAD
        if threads > race_loop.MAXIMUM_THREAD:
            self.report.notes.append(
                f"launch {self.report.launches} was not checked for races, because it has more "
                f"than {race_loop.MAXIMUM_THREAD:,} threads"
            )
            return
        self.launch, self.messages = launch, None
        self.states = {}
        self.floor = self.tick()
        self.sites: list = []
        self.numbers: dict[int, int] = {}
        self.recent: list[tuple | None] = []
        self.races = Races(self.report)
        self.races.launch_started(launch)
        self.exact, fences = _ordering(launch.program)
        self.messages = Messages(self) if fences else None
        self.mixes = mixes_sizes(launch.program)
        self.scalars = scalar_loads(launch.program)
        self.volatile = volatile_uses(launch.program)
        self.one_store = ONE_STORE in launch.program.entry_code.function.pragmas
        self._drop_old_areas()

    def launch_began_again(self, launch) -> None:
        if self.active:
            for state in self.states.values():
                state.close()
            self.launch_started(launch)

    def launch_finished(self, launch) -> None:
        if self.active:
            for state in self.states.values():
                state.close()
            self.races.launch_finished(self.launch)
            self.states = {}
            self.active = False

    def has_found(self) -> bool:
        return self.active and bool(self.races.found)

    def touched(self):
        if self.active:
            for start, area in self.areas.items():
                for first, masks in area.since(self.floor):
                    yield start + (first << area.shift), 1 << area.shift, masks

    def exited(self, group) -> None:
        wave = group.wave
        if self.active and wave.finished == wave.lanes and wave in self.states:
            self.states.pop(wave).close()

    def close(self) -> None:
        """Give the shadow memory back for the next check, because no launch will follow."""
        for area in self.areas.values():
            area.close()
        self.areas = {}

    def _drop_old_areas(self) -> None:
        """Drop allocations that were freed, and keep their arrays for others."""
        for start, area in list(self.areas.items()):
            if self.launch.memory.extent(start) != (start, start + area.nbytes):
                self.areas.pop(start).close()

    def _forget(self) -> None:
        super()._forget()
        for area in self.areas.values():
            area.forget()

    # -- accesses ------------------------------------------------------------------------------

    def accessed(self, access: Access) -> None:
        if not self.active or access.space == "local":
            return
        if access.wanted is not None:
            if (used := access.by_the_program()) is None:
                return
            access = used
        strong = access if access.strong else None
        if self.volatile.data and id(access.instruction) in self.volatile.data:
            access = access._replace(strong=False)
        state = self.state(access.group.wave)
        addresses = np.ascontiguousarray(access.addresses)
        lanes = np.ascontiguousarray(access.lanes)
        site = self._site(access)
        if self.launch.cluster_size > 1 and access.space == "shared":
            # Blocks may access each other's memory, so the records treat it as one.
            addresses = addresses + (access.owners() * state.wave.shared_stride).astype(np.uint64)
        if self.messages:
            self.messages.remember(_time.now, site, access, addresses)
        if access.space == "shared":
            area = state.shared_shadow(access.size)
            if access.size < 1 << area.shift:
                area.refine(access.size)
            own = self.launch.cluster_size == 1
            known = state.knowledge
            self._run(
                state,
                access,
                site,
                area,
                addresses,
                lanes,
                max(state.shared_floor, known.all_blocks if own else known.floor),
                state.wave.shared_stride >> area.shift if own else 0,
            )
        else:
            self._global(state, access, site, addresses, lanes)
        self.recent[site] = (access, addresses)
        if self.messages and strong:
            self.messages.strong(state, strong, addresses)

    def copy_began(self, access: Access) -> None:
        self.accessed(access)  # from here on the copy may write

    def _global(self, state, access, site, addresses, lanes) -> None:
        done = 0
        while done < len(addresses):
            area = self._area(int(addresses[done]), access.size)
            done += self._run(
                state, access, site, area, addresses[done:], lanes[done:], self.floor, 0
            )
            if done < len(addresses) and done < 64:
                # The lanes use several allocations; handle one allocation after the other.
                rest, their = addresses[done:], lanes[done:]
                starts = np.array(self.launch.memory.starts, np.uint64)
                which = np.searchsorted(starts, rest, side="right")
                for one in np.unique(which):
                    chosen = which == one
                    part = np.ascontiguousarray(rest[chosen])
                    area = self._area(int(part[0]), access.size)
                    self._run(
                        state,
                        access,
                        site,
                        area,
                        part,
                        np.ascontiguousarray(their[chosen]),
                        self.floor,
                        0,
                    )
                return

    def _area(self, address: int, size: int) -> Shadow:
        start, end = self.launch.memory.extent(address)
        area = self.areas.get(start)
        if area is None or area.nbytes != end - start:
            area = self.areas[start] = Shadow(start, end - start, size)
        elif size < 1 << area.shift:
            area.refine(size)
        return area

    def _run(
        self,
        state: WaveState,
        access: Access,
        site: int,
        area: Shadow,
        addresses,
        lanes,
        floor: int,
        stride: int,
    ) -> int:
        _time.used = True
        if access.strong:
            area.use_strong()
        volatile = access.kind == "store" and id(access.instruction) in self.volatile.stores
        if volatile:
            area.use_volatile()
        known = state.knowledge
        if known.exact:
            area.use_masks()
        kind = race_loop.LOAD if access.kind == "load" else race_loop.STORE
        if access.strong:
            kind += race_loop.STRONG_LOAD
        if volatile:
            kind = race_loop.VOLATILE_STORE
        narrow = access.strong and access.scope == "cta" and access.space == "global"
        stamp = _time.now << race_loop.TIME | site << race_loop.SITE
        if narrow:
            stamp |= race_loop.NARROW_BIT
        seen = area.seen(floor, kind, _time.now)
        span = state.wave.shared_stride if stride else area.nbytes
        width = max(1, access.size >> area.shift)
        _ACCESS.pack_into(
            self._access.data,
            0,
            area.start,
            span,
            area.shift,
            width,
            stride,
            kind,
            stamp,
            narrow,
            self.mixes and access.kind == "atomic",
            seen,
            floor,
            state.first,
            state.wave.threads,
            state.block_pointer,
            *known.pointers,
            known.exact,
            *known.exact_pointers,
        )
        words, shadow, done = pointer(self._access), pointer(area.words), 0
        if kind < race_loop.STRONG_LOAD and width == 1 and not seen & 4:
            done = race_loop.quick(pointer(addresses), pointer(lanes), len(lanes), words, shadow)
            if done == len(lanes):
                return done
            addresses, lanes = addresses[done:], lanes[done:]
        done += race_loop.check(
            pointer(addresses), pointer(lanes), len(lanes), words, shadow, pointer(self._result)
        )
        if self._result[0]:
            self._conflicts(state, access, area, addresses, lanes)
        return done

    def _site(self, access: Access) -> int:
        """Return the number of the instruction in records.

        If there are more instructions than numbers, the last number is shared.
        """
        instruction = access.instruction
        key = id(instruction) + (access.kind == "store")  # a copy has two addresses
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = min(len(self.sites), race_loop.MAXIMUM_SITE)
            if number == len(self.sites):
                self.sites.append(access)
                self.recent.append(None)
        return number

    # -- conflicts -----------------------------------------------------------------------------

    def _conflicts(self, state, access, area, addresses, lanes) -> None:
        """Group conflicts by the older access's instruction; keep the first of each pair."""
        found = [one[: min(int(self._result[0]), ROOM)] for one in self.found]
        records, kinds = found[2:]
        older = records >> race_loop.SITE & race_loop.MAXIMUM_SITE
        real = np.ones(len(records), bool)
        if self.messages:
            real = self.messages.unordered(state, access, area, addresses, lanes, found)
        if self.one_store and access.space == "shared":
            real &= (older != self._site(access)) | (kinds != race_loop.WRITES)
        if retried := retried_loads(self.launch.program):
            real &= ~self._retried(access, older, retried)
        if self.mixes and access.kind == "atomic":
            real &= self._mixed(state, access, older, kinds, lanes[found[0]], records)
        if self.scalars:
            real &= ~self._of_one_program(state, access, older, lanes[found[0]], records)
        if self.volatile.stores:
            real &= self._matters(access, older, kinds)
        if state.clusters:
            real &= ~state.clusters.explains(lanes[found[0]], records)
        if state.phases:
            real &= ~state.phases.explains(lanes[found[0]], records)
            older = records >> race_loop.SITE & race_loop.MAXIMUM_SITE
        for pair in np.unique((older << 3 | kinds)[real]):
            chosen = np.flatnonzero(real & (older << 3 | kinds == pair))
            self._report(state, access, area, addresses, lanes, chosen)

    def _retried(self, access: Access, older: np.ndarray, retried: frozenset[int]) -> np.ndarray:
        """Return True if an atomic conflicts with the load of a compare-and-swap loop."""
        if access.kind == "load" and id(access.instruction) in retried:
            return np.array([self.sites[one].kind == "atomic" for one in older])
        if access.kind == "atomic":
            return np.array([id(self.sites[one].instruction) in retried for one in older])
        return np.zeros(len(older), bool)

    def _mixed(self, state, access, older, kinds, lanes, records) -> np.ndarray:
        """Return False for two atomics of one size, each of which is in the other's scope."""
        size, narrow = unit(access.instruction, access.size), access.scope == "cta"
        apart = (records >> race_loop.SCOPE & 3) == 3
        thread = records & race_loop.MAXIMUM_THREAD
        block = state.wave.first + state.wave.block_of[lanes]
        apart |= thread // state.wave.threads != block
        near = apart & ((records & race_loop.NARROW_BIT != 0) | narrow)
        others = [self.sites[one] for one in older]
        sizes = np.array(
            [one.kind == "atomic" and unit(one.instruction, one.size) != size for one in others]
        )
        return (kinds != race_loop.STRONG_WRITES) | near | sizes

    def _of_one_program(self, state, access, older, lanes, records) -> np.ndarray:
        """Return True if a Triton program stores a scalar that it has loaded itself.

        This requires that no other thread uses the value, or that all are in one warp, whose lanes
        Triton's code expects to run together.
        """
        wave = state.wave
        other = (records & race_loop.MAXIMUM_THREAD) - state.first
        several = records >> race_loop.SCOPE & 3
        here = wave.block_of[lanes]
        same = (other >= 0) & (other < wave.lanes) & (several < 3)
        same &= other // wave.threads == here
        in_warp = (several < 2) & (other % wave.threads // WARP == wave.thread_of[lanes] // WARP)
        result = np.zeros(len(records), bool)
        for site in np.unique(older):
            pair = (access, self.sites[site])
            loads = [self.scalars.get(id(one.instruction)) for one in pair if one.kind == "load"]
            if len(loads) == 1 and loads[0] is not None:
                result |= (older == site) & same & (loads[0] | in_warp)
        return result

    def _matters(self, access: Access, older: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Return False if two volatile stores agree, or volatile data meets an atomic."""
        instruction, known = access.instruction, self.volatile
        others = [self.sites[one].instruction for one in older]
        if access.kind == "store" and id(instruction) in known.stores:
            return np.array(
                [
                    kind != race_loop.VOLATILE_WRITES or not known.agree(instruction, other)
                    for kind, other in zip(kinds, others, strict=True)
                ],
                bool,
            )
        if id(instruction) in known.data:
            return np.asarray(kinds != race_loop.STRONG_WRITES)
        if access.kind == "atomic":
            return np.array([id(other) not in known.data for other in others], bool)
        return np.ones(len(older), bool)

    def _report(self, state, access, area, addresses, lanes, chosen) -> None:
        first = chosen[0]
        position, granule, record = (int(found[first]) for found in self.found[:3])
        lane = int(lanes[position])
        older = self.sites[record >> race_loop.SITE & race_loop.MAXIMUM_SITE]
        address = int(addresses[position])
        if access.space == "shared" and self.launch.cluster_size > 1:
            address %= state.wave.shared_stride
        now = Party(access, state.first + lane, address)
        if self.races.again(now.key(older), len(chosen)):
            return
        older, thread = older_party(self.recent, older, record, now.thread, area, granule)
        self.races.tell(now.key(older), now, Party(older, thread, None), area, len(chosen))


def _ordering(program: Program) -> tuple[bool, bool]:
    """Return the barriers and fences that matter for a program's order.

    The first result is True if a barrier may join only part of a warp or block, the second if
    fences, releases or acquires order memory. Both are computed once per program.
    """
    if program.ordering is None:
        instructions = [i for code in program.functions.values() for i in code.function.body]
        program.ordering = any(map(joins_some, instructions)), orders_memory(instructions)
    return program.ordering
