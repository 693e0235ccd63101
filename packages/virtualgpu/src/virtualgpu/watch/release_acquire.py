"""Order between threads without a common barrier: fences around atomics and flags.

A thread *releases* by a fence that is followed by a strong write (an atomic, ``st.volatile``,
``st.relaxed``), or by a ``.release`` operation. The value then carries the order: everything that
the thread did before the fence, and everything that it knew of other threads. A thread that reads
the value with a strong read and then passes a fence, or that reads it with ``.acquire``, has
*acquired* all of this (PTX ISA, "Memory Consistency Model", "Release and Acquire Patterns",
"Synchronizes-with Order"). If an atomic changes the value, the new value also carries what the old
one carried ("Observation Order"). If a plain store replaces it, the new value does not.

Fences of ``cta`` scope only order threads of their block.

Three rules are less strict than the model, because widely used example code relies on them:

- A barrier of the block completes an atomic's acquire, as a fence would. NVIDIA's sample
  ``threadFenceReduction`` reads the other blocks' results after ``atomicInc`` and a barrier.
- Fences of all threads, then a barrier, then one thread's atomic release for all of them, although
  the model requires the fence after the barrier.
- A thread that has acquired from an atomic may change its variable by a plain store. The last block
  of that sample resets the counter in this way. The values that the atomics replaced are ordered.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.lanes.events import Access
from virtualgpu.ptx.opcodes import FENCES
from virtualgpu.watch import race_loop
from virtualgpu.watch.releases import Fences, Known, Log, Release

REMEMBERED = 1 << 23  # accesses of lanes that are kept to find out which thread read an element

_ACQUIRES = {"acquire", "acq_rel", "sc"}
_RELEASES = {"release", "acq_rel", "sc"}


def orders_memory(instructions) -> bool:
    """Return True if a program has fences, releases or acquires, apart from those of barriers."""
    return any(
        i.opcode in FENCES or {"acquire", "release", "acq_rel"} & set(i.modifiers)
        for i in instructions
        if i.opcode != "mbarrier" and "proxy" not in i.modifiers
    )


class Messages:
    """Releases and acquires of one launch; ``check`` is its race detector."""

    def __init__(self, check):
        self.check = check
        self.logs: dict = {}
        self.history: list[tuple] = []  # (time, site, access, addresses, wave)
        self.remembered = 0
        self._readers: dict[tuple, list] = {}

    def forget(self) -> None:
        """Let every thread know everything, after a grid barrier."""
        self.logs, self.history, self._readers = {}, [], {}
        self.remembered = 0
        for state in self.check.states.values():
            state.fences = None

    def remember(self, time: int, site: int, access: Access, addresses: np.ndarray) -> None:
        if self.remembered < REMEMBERED:
            wave = access.group.wave
            # Stored without the group, which would keep its registers alive.
            self.history.append(
                (
                    time,
                    site,
                    access._replace(group=None),  # type: ignore[arg-type]
                    addresses,
                    wave,
                )
            )
            self.remembered += len(addresses)

    def fences(self, state) -> Fences:
        if state.fences is None:
            wave = state.wave
            state.fences = Fences(*np.zeros((4, 2, wave.lanes), np.int64))
        return state.fences

    # -- events --------------------------------------------------------------------------------

    def fence(self, state, lanes: np.ndarray, time: int, scope: str) -> None:
        fences = self.fences(state)
        far = scope != "cta"
        if fences.seen:
            for lane in lanes.tolist():
                for (log, first), (end, _) in fences.seen.pop(lane, {}).items():
                    self._acquire(fences.lanes, lane, log, first, far, end)
        self._note(state, lanes, time, far)

    def _note(self, state, lanes: np.ndarray, time: int, far: bool) -> None:
        """Record what the lanes know at a fence, because a later atomic may release it."""
        fences, knowledge, wave = state.fences, state.knowledge, state.wave
        for reach in (0, 1) if far else (0,):
            fences.last[reach, lanes] = time
            fences.block[reach, lanes] = knowledge.block_time[wave.block_of[lanes]]
            fences.warp[reach, lanes] = knowledge.warp_time[wave.warp_of[lanes]]
            if not (knowledge.exact or fences.lanes or fences.blocks or fences.carried):
                continue
            for lane in lanes.tolist():
                fences.carried[reach, lane] = self._known(state, lane)
                if knowledge.exact:
                    fences.rows[reach, lane] = (
                        fences.rows[0, lane]
                        if reach
                        else (knowledge.lane_times[lane].copy(), knowledge.warp_times[lane].copy())
                    )

    def barrier(self, state, lanes: np.ndarray, whole: np.ndarray | None) -> None:
        """Handle a barrier of lanes; ``whole`` are the blocks that met as a whole (None: all)."""
        fences, wave = state.fences, state.wave
        if fences is None:
            return
        met = np.ones(wave.blocks, bool)
        if whole is not None:
            met[:] = False
            met[whole] = True
        lanes_met = met[wave.block_of]
        fences.met[:, lanes_met] = fences.last[:, lanes_met]
        if not fences.seen and not fences.lanes:
            return
        here = set(lanes.tolist())
        for lane in [lane for lane in fences.seen if lane in here]:
            for (log, first), (end, atomic) in list(fences.seen[lane].items()):
                if atomic:
                    self._acquire(fences.lanes, lane, log, first, True, end)
                    del fences.seen[lane][log, first]
        groups: dict[int, list[int]] = {}
        for lane in fences.lanes:
            if lane in here:
                groups.setdefault(int(wave.block_of[lane]), []).append(lane)
        for block, some in groups.items():
            if met[block]:
                for lane in some:
                    _join(fences.blocks.setdefault(block, {}), fences.lanes.pop(lane))
            else:
                self._share(fences, lanes[wave.block_of[lanes] == block].tolist())

    def warp_barrier(self, state, lanes: np.ndarray) -> None:
        fences, wave = state.fences, state.wave
        if fences is None or not fences.lanes:
            return
        here = set(lanes.tolist())
        for warp in {int(wave.warp_of[lane]) for lane in fences.lanes if lane in here}:
            self._share(fences, lanes[wave.warp_of[lanes] == warp].tolist())

    def _share(self, fences: Fences, lanes: list[int]) -> None:
        together: Known = {}
        for lane in lanes:
            _join(together, fences.lanes.get(lane, {}))
        for lane in lanes:
            fences.lanes[lane] = dict(together)

    def strong(self, state, access: Access, addresses: np.ndarray) -> None:
        """Handle a strong access: it may release, read a released value, and acquire."""
        reads, writes = access.kind != "store", access.kind != "load"
        lanes, fences = access.lanes, state.fences
        releases = np.zeros(len(lanes), bool)
        if writes and access.order in _RELEASES:
            releases[:] = True
            fences = self.fences(state)
            self._note(state, lanes, self.check.tick(), access.scope != "cta")
        elif writes and fences is not None:
            releases = fences.last[0, lanes] > 0
        known = np.zeros(len(lanes), bool)
        if self.logs:
            if access.space == "global":
                known = np.isin(
                    addresses,
                    np.array([key for key in self.logs if isinstance(key, int)], np.uint64),
                )
            else:
                known[:] = True
        for position in np.flatnonzero(releases | known).tolist():
            lane, address = int(lanes[position]), int(addresses[position])
            key = _key(state, access, lane, address)
            log = self.logs.get(key)
            if log is not None and reads and log.entries > log.start:
                fences = self.fences(state)
                if access.order in _ACQUIRES:
                    self._acquire(
                        fences.lanes, lane, log, log.start, access.scope != "cta", log.entries
                    )
                else:
                    fences.seen.setdefault(lane, {})[log, log.start] = (
                        log.entries,
                        access.kind == "atomic",
                    )
            if log is not None and access.kind == "store":
                log.start = log.entries
            if releases[position]:
                if log is None:
                    log = self.logs[key] = Log()
                self._release(state, fences, log, lane, access.scope != "cta")

    def _release(self, state, fences: Fences, log: Log, lane: int, wide: bool) -> None:
        wave = state.wave
        block = int(wave.block_of[lane])
        others = fences.met[:, block * wave.threads : (block + 1) * wave.threads].copy()
        times: list = [fences.last[:, lane], fences.warp[:, lane], fences.block[:, lane]]
        if not wide:
            others[1] = 0
            times = [[near, 0] for near, _ in times]
        own, warp, of_block = ((int(near), int(far)) for near, far in times)
        rows = (fences.rows.get((0, lane)), fences.rows.get((1, lane)) if wide else None)
        log.add(
            Release(state.first + lane, own, warp, of_block, others, rows),
            wave.first + block,
            (fences.carried.get((0, lane), {}), fences.carried.get((1, lane), {}) if wide else {}),
        )

    def _acquire(self, table: dict[int, Known], lane: int, log, first, far, end) -> None:
        _join(table.setdefault(lane, {}), {(log, first, far): end})

    def _known(self, state, lane: int) -> Known:
        fences = state.fences
        known: Known = {}
        if fences is not None:
            _join(known, fences.blocks.get(int(state.wave.block_of[lane]), {}))
            _join(known, fences.lanes.get(lane, {}))
        return known

    # -- queries -------------------------------------------------------------------------------

    def unordered(
        self, state, access, area, addresses, lanes, found: list[np.ndarray]
    ) -> np.ndarray:
        """Return True for conflicts that no acquire orders, up to the array length of ``found``.

        The accesses of a record of several threads are checked one by one. If one of them
        conflicts, it replaces the record in ``found``.
        """
        at, granules, records, kinds = found
        real = np.ones(len(at), bool)
        known_of: dict[int, Known] = {}
        for n in range(len(at)):
            lane = int(lanes[at[n]])
            if lane not in known_of:
                known_of[lane] = self._known(state, lane)
            known = known_of[lane]
            if not known:
                continue
            record = int(records[n])
            log = None
            if kinds[n] == race_loop.STRONG_WRITES:
                log = self.logs.get(_key(state, access, lane, int(addresses[at[n]])))
            if not record >> race_loop.SCOPE & 3:
                thread = record & race_loop.MAXIMUM_THREAD
                real[n] = not (
                    _saw(known, log, thread, state.wave.threads)
                    or self._knows(state, lane, known, thread, record >> race_loop.TIME)
                )
                continue
            real[n] = False
            for thread, time, site in self._who(
                state, access, area, int(granules[n]), int(kinds[n]), lane
            ):
                if not (
                    _saw(known, log, thread, state.wave.threads)
                    or self._knows(state, lane, known, thread, time)
                ):
                    records[n] = time << race_loop.TIME | site << race_loop.SITE | thread
                    real[n] = True
                    break
        return real

    def _knows(self, state, lane: int, known: Known, thread: int, time: int) -> bool:
        wave = state.wave
        if time <= self.check.floor:
            return True
        other = thread - state.first
        if other == lane:
            return True
        block = int(wave.block_of[lane])
        if (
            0 <= other < wave.lanes
            and wave.block_of[other] == block
            and (state.knowledge.knows(lane, other, time))
        ):
            return True
        return _reaches(known, wave.first + block, thread, wave.threads, time)

    def _who(self, state, access, area, granule: int, kind: int, lane: int):
        """Return ``(thread, time, site)`` of the accesses that one record stands for."""
        key = (id(area), area.shift, granule, kind)
        entry = self._readers.setdefault(key, [0, []])
        low = area.start + (granule << area.shift)
        block = None
        if access.space == "shared" and state.wave.launch.cluster_size == 1:
            stride = state.wave.shared_stride
            block = int(state.wave.block_of[lane])
            low -= block * stride
        high = low + (1 << area.shift)
        for time, site, event, addresses, wave in self.history[entry[0] : -1]:
            if event.space != access.space or time <= self.check.floor:
                continue
            if kind == race_loop.READS:
                matches = event.kind == "load" and not event.strong
            elif kind == race_loop.STRONG_READS:
                matches = event.kind == "load" and event.strong
            else:
                volatile = event.kind == "store" and "volatile" in event.instruction.modifiers
                matches = (
                    event.kind != "load"
                    and event.strong
                    and (volatile == (kind == race_loop.VOLATILE_WRITES))
                )
            if not matches or (access.space == "shared" and wave is not state.wave):
                continue
            hit = (addresses < np.uint64(high)) & (
                addresses + np.uint64(event.size) > np.uint64(low)
            )
            if block is not None:
                hit &= wave.block_of[event.lanes] == block
            first = wave.first * wave.threads
            entry[1] += [(first + n, time, site) for n in event.lanes[hit].tolist()]
        entry[0] = max(entry[0], len(self.history) - 1)
        found = entry[1]
        if access.kind == "store" and not access.strong:
            entry[1] = []  # from now on its record covers only what preceded it
        return found


def _key(state, access: Access, lane: int, address: int) -> object:
    """Return the key of the release log for a variable."""
    if access.space == "shared":
        own = state.wave.launch.cluster_size == 1  # otherwise the address identifies the block
        return state.wave, int(state.wave.block_of[lane]) if own else -1, address
    return address


def _saw(known: Known, log: Log | None, thread: int, threads: int) -> bool:
    """Return True if the acquired value went through the thread's latest release there."""
    if log is None:
        return False
    latest = next(
        (
            position
            for position, release in reversed(log.by_block.get(thread // threads, ()))
            if release.thread == thread
        ),
        None,
    )
    return latest is not None and any(
        one is log and first <= latest < end for (one, first, _), end in known.items()
    )


def _join(known: Known, more: Known) -> None:
    for key, end in more.items():
        if known.get(key, 0) < end:
            known[key] = end


def _reaches(known: Known, block: int, thread: int, threads: int, time: int) -> bool:
    """Return True if a release, direct or through other threads, covers the access."""
    theirs = thread // threads
    todo = [(known, block)]
    looked: dict = {}
    while todo:
        acquired, by = todo.pop()
        for (log, first, far), end in acquired.items():
            key = (log, first, far, by if log.uneven or not far else None)
            start = looked.get(key, first)
            if start >= end:
                continue
            looked[key] = end
            if far or theirs == by:
                for position, release in reversed(log.by_block.get(theirs, ())):
                    if start <= position < end and release.covers(
                        thread, threads, time, theirs != by
                    ):
                        return True
            todo += [
                (more[of != by], of)
                for position, of, more in log.links
                if start <= position < end and (far or of == by)
            ]
    return False
