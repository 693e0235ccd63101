"""Observer that counts every launch, for ``virtualgpu.profile()``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.lanes.events import Access, Observer
from virtualgpu.lanes.wave import WARP, Wave
from virtualgpu.watch import memory_traffic
from virtualgpu.watch.counters import Counters, add_access, class_of, flops_of
from virtualgpu.watch.work_shares import Shares

Line = tuple[str | None, int | None]  # of the source


@dataclass
class LaunchProfile:
    """One launch.

    Attributes
    ----------
    kernel : str
    grid, block : tuple of three ints
    counters : Counters
        Counts of the whole launch; ``counters.by_line`` has those of each line.
    failed : bool
        True if an error stopped the launch; the counts are then those up to the error.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    counters: Counters
    failed: bool = False

    def __str__(self) -> str:
        title = f"{self.kernel}[{self.grid}, {self.block}]" + (" (failed)" if self.failed else "")
        return f"{title}\n{self.counters}"


@dataclass
class Profile:
    """The launches inside a ``with virtualgpu.profile()``, in order."""

    launches: list[LaunchProfile] = field(default_factory=list)

    @property
    def counters(self) -> Counters:
        """Counters of all launches together."""
        total = Counters()
        for launch in self.launches:
            total.add(launch.counters)
        return total

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.launches)) or "no kernel was launched inside profile()"


class _BlockCount:
    """Execution count of a basic block."""

    __slots__ = ("instructions", "lanes", "warps")

    def __init__(self, instructions):
        self.instructions, self.warps, self.lanes = instructions, 0, 0


class _Accesses:
    """Accesses so far by an instruction to one memory in one way; see :func:`.add_access`."""

    __slots__ = ("access", "hottest", "lanes", "least", "moved", "requests")

    def __init__(self, access: Access):
        self.access = access
        self.lanes = self.requests = self.moved = self.least = self.hottest = 0


class _Places:
    """Start addresses of the arrays of a wave's lanes."""

    __slots__ = ("blocks", "threads", "warps", "wave")

    def __init__(self, wave):
        self.wave = wave
        self.warps, self.threads, self.blocks = map(
            pointer, (wave.warp_of, wave.thread_of, wave.block_of)
        )


class Profiler(Observer):
    """Observer that adds each launch to a profile."""

    def __init__(self, profile: Profile):
        self.profile = profile
        self._seen, self._more = np.zeros(64, np.uint64), np.zeros(64, np.uint64)
        self._banks, self._many = np.zeros(32, np.int64), np.zeros(32, np.int64)
        self._result = np.zeros(4, np.int64)
        self._output = pointer(self._result)
        # The start addresses are looked up once: that takes 1 µs each, and an access needs them
        # many times.
        self._room = [pointer(one) for one in (self._seen, self._more, self._banks, self._many)]
        self._places: _Places | None = None

    def launch_started(self, launch) -> None:
        self.launch = launch
        self.counters = Counters()
        self.blocks: dict[int, _BlockCount] = {}
        self.accesses: dict[tuple, _Accesses] = {}
        self.shares = Shares()
        self.hot: dict[object, np.ndarray] = {}  # allocation or wave → updates of each word
        self._last: tuple = (None, 0)
        self._running, self._steps = None, 0  # a group, and what its lanes have run since
        self._reaching: tuple[Wave, np.ndarray] | None = None  # a wave's lanes
        self._reached = 0  # their accesses since
        self.failure = False

    def failed(self, launch, error) -> None:
        self.failure = True

    def launch_finished(self, launch) -> None:
        for block in self.blocks.values():
            self._issued(block)
        for one in self.accesses.values():
            access = one.access
            add_access(
                self._counters_of(access.instruction),
                access.space,
                access.kind,
                access.size,
                one.lanes,
                one.requests,
                one.moved,
                one.least,
                one.hottest,
            )
        total = Counters()
        for counters in self.counters.by_line.values():
            total.add(counters)
        total.by_line = self.counters.by_line
        self._share_out()
        self._share_accesses()
        self.shares.tell(total)
        self.profile.launches.append(
            LaunchProfile(launch.kernel, launch.grid, launch.block, total, self.failure)
        )
        self.blocks, self.accesses, self.hot, self._places = {}, {}, {}, None

    def _issued(self, block: _BlockCount) -> None:
        """Count the instructions of a block for the given numbers of warps and lanes."""
        known = self.launch.program.kinds
        kinds = known.get(id(block.instructions))
        if kinds is None:
            # Held with the instructions, so that no other list gets the same id.
            kinds = known[id(block.instructions)] = _kinds(block.instructions), block.instructions
        for (line, kind, flops), many in kinds[0].items():
            counters = self._counters_at(line)
            warps, lanes = many * block.warps, many * block.lanes
            counters.warp_instructions += warps
            counters.thread_instructions += lanes
            for by_class, these in (
                (counters.warp_instructions_by_class, warps),
                (counters.thread_instructions_by_class, lanes),
            ):
                by_class[kind] = by_class.get(kind, 0) + these
            counters.flops += flops * lanes
            counters.lanes_lost += WARP * warps - lanes

    def _counters_of(self, instruction) -> Counters:
        return self._counters_at(_line_of(instruction))

    def _counters_at(self, line: Line) -> Counters:
        counters = self.counters.by_line.get(line)
        if counters is None:
            counters = self.counters.by_line[line] = Counters()
        return counters

    def _warps(self, group) -> int:
        """Return the number of warps with a lane in the group."""
        if group.full:
            return group.wave.warps
        if self._last[0] is not group.lanes:
            warps = group.wave.warp_of[group.lanes]
            self._last = (group.lanes, 1 + int(np.count_nonzero(warps[1:] != warps[:-1])))
        return self._last[1]

    # -- native code -----------------------------------------------------------------------------

    def counts(self, kernel, first):
        from virtualgpu.watch import native_counts  # LLVM's builder; rarely needed

        return native_counts.tables(self.launch, kernel, first, self.hot)

    def counted(self, kernel, counts) -> None:
        from virtualgpu.watch import native_counts

        for instructions, warps, lanes in native_counts.executed(kernel, counts):
            block = self._block(instructions)
            block.warps += warps
            block.lanes += lanes
        native_counts.add_branches(kernel, counts, self._counters_of)
        native_counts.add_accesses(kernel, counts, self._counters_of)
        self.shares.counted(counts)

    # -- events --------------------------------------------------------------------------------

    def _block(self, instructions) -> _BlockCount:
        block = self.blocks.get(id(instructions))
        if block is None:
            block = self.blocks[id(instructions)] = _BlockCount(instructions)
        return block

    def executed(self, group, instructions) -> None:
        block = self._block(instructions)
        block.warps += self._warps(group)
        block.lanes += group.count
        last = self._running
        if last is None or last.lanes is not group.lanes or last.wave is not group.wave:
            self._share_out()
            self._running = group
        self._steps += len(instructions)

    def _share_out(self) -> None:
        """Add the pending instructions to the lanes that ran last: once for many blocks."""
        if self._running is not None:
            self.shares.executed(self._running, self._steps)
        self._running, self._steps = None, 0

    def _share_accesses(self) -> None:
        """Add the pending accesses to the lanes that made them: once for many."""
        if self._reaching is not None:
            self.shares.accessed(*self._reaching, self._reached)
        self._reaching, self._reached = None, 0

    def branched(self, group, instruction, taken) -> None:
        counters = self._counters_of(instruction)
        if np.count_nonzero(taken) in (0, len(taken)):  # usually all lanes take the same direction
            counters.branches += self._warps(group)
            return
        wave, lanes = group.wave, np.ascontiguousarray(group.lanes)
        jumped = np.ascontiguousarray(taken, np.uint32)
        self._result[:] = 0
        memory_traffic.divergent(
            pointer(jumped), pointer(lanes), pointer(wave.warp_of), len(lanes), self._output
        )
        branches, parted = self._result[:2].tolist()
        counters.branches += branches
        counters.divergent_branches += parted

    def released(self, barrier, lanes, groups, missing) -> None:
        self._share_out()
        self._share_accesses()
        wave = groups[0].wave
        met = np.zeros(wave.blocks, bool)
        for group in groups:
            here = np.zeros(wave.blocks, bool)
            here[wave.block_of[group.lanes]] = True
            self._counters_of(group.basic_block.last).barriers += int(np.count_nonzero(here & ~met))
            met |= here
        self.shares.passed(wave, met)

    def warp_synchronised(self, group, instruction, mask) -> None:
        if instruction.opcode == "bar":
            self._counters_of(instruction).warp_barriers += self._warps(group)

    def fenced(self, group, instruction, scope) -> None:
        self._counters_of(instruction).fences += self._warps(group)

    def accessed(self, access: Access) -> None:
        space, kind, many = access.space, access.kind, len(access.lanes)
        key = (id(access.instruction), space, kind, access.size)
        sums = self.accesses.get(key)
        if sums is None:
            place = access._replace(group=None, lanes=None, addresses=None, blocks=None)  # type: ignore[arg-type]
            sums = self.accesses[key] = _Accesses(place)
        sums.lanes += many
        if space == "local":
            return
        wave = access.group.wave
        last = self._reaching
        if last is None or last[0] is not wave or last[1] is not access.lanes:
            self._share_accesses()
            self._reaching = wave, access.lanes
        self._reached += 1
        addresses, lanes = _arrays(access)
        places = self._places
        if places is None or places.wave is not wave:
            places = self._places = _Places(wave)
        requests, moved, least = self._turns(access, addresses, lanes, places)
        sums.requests += requests
        sums.moved += moved
        if kind == "atomic":
            sums.least = max(sums.least, least)
            sums.hottest = max(sums.hottest, self._hottest(access, addresses, lanes, places))
        else:
            sums.least += least

    def _turns(self, access: Access, addresses, lanes, places: _Places) -> tuple[int, int, int]:
        """Return requests and the actual and ideal number of sectors, wavefronts or passes.

        See :func:`.add_access`.
        """
        kind, size, many = access.kind, access.size, len(lanes)
        in_global = access.space == "global"
        if many == 1:  # no other access to combine or conflict with
            return 1, 1, -(-size // memory_traffic.SECTOR) if in_global and kind != "atomic" else 1
        start = pointer(addresses), pointer(lanes), places.warps
        seen, more, banks, each = self._room
        self._result[:] = 0
        if kind == "atomic":
            memory_traffic.contention(*start, many, seen, each, self._output)
        elif in_global:
            memory_traffic.sectors(*start, many, size, seen, more, self._output)
        else:
            share = WARP if size <= 4 else 128 // size
            memory_traffic.banks(
                *start, places.threads, many, size, share, seen, banks, self._output
            )
        requests, moved, least, _ = self._result.tolist()
        return requests, moved, least

    def _hottest(self, access: Access, addresses, lanes, places: _Places) -> int:
        """Return the largest number of updates of one word so far in this launch."""
        wave, done, most = access.group.wave, 0, 0
        while done < len(lanes):
            if access.space == "shared":
                key, start, span = wave, 0, wave.shared_stride
                stride = span // memory_traffic.WORD
                words = wave.blocks * stride
            else:
                key, end = self.launch.memory.extent(int(addresses[done]))
                start, span, stride, words = key, end - key, 0, (end - key) // 4 + 1
            parts = places.blocks
            if access.blocks is not None:
                part_of = wave.block_of.copy()
                part_of[access.lanes] = access.blocks
                parts = pointer(part_of)
            counts = self.hot.get(key)
            if counts is None:
                counts = self.hot[key] = np.zeros(words, np.uint32)
            rest, their = addresses[done:], lanes[done:]
            self._result[:] = 0
            done += memory_traffic.tally(
                pointer(rest),
                pointer(their),
                parts,
                len(rest),
                start,
                span,
                stride,
                pointer(counts),
                self._output,
            )
            most = max(most, int(self._result[0]))
        return most


def _arrays(access: Access) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(access.addresses), np.ascontiguousarray(access.lanes)


def _line_of(instruction) -> Line:
    source = instruction.source
    return (source.filename, source.line) if source else (None, None)


def _kinds(instructions) -> Counter[tuple[Line, str, int]]:
    """Count the instructions of a block by line, class and flops."""
    return Counter((_line_of(one), class_of(one), flops_of(one)) for one in instructions)
