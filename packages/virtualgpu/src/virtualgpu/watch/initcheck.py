"""Checker for reads of memory that was never written.

Memory counts as written if the host copied to it or filled it, even before ``check()`` began, or
if a kernel stored to it while a checker watched. After a launch without a checker, all device
memory counts as written, because the stores of that launch are unknown. Mapped and managed memory
also count, because the host can write them unobserved. Shared memory starts unwritten in each
block, and local memory in each thread.

A copied struct includes its padding, which no program writes. That is not reported, and the copy
counts as written.

The checker does not detect undefined values from other sources, such as a shuffle from an absent
lane, or a variable that a thread never set (it is zero in Numba's PTX, and arbitrary in NVRTC's).
It does not check parameters passed to functions through memory. It also skips local memory of
kernels compiled for a debugger, because there the compiler stores every variable and copies whole
structures with their padding.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.findings import Report
from virtualgpu.lanes.events import Access
from virtualgpu.languages import NUMBA, Language, language_of
from virtualgpu.program.copied_loads import Travels
from virtualgpu.watch import written_loop
from virtualgpu.watch.checking import Checker, at_line
from virtualgpu.watch.race_messages import element
from virtualgpu.wording import many


def _advice(space: str, language: Language) -> str:
    return {
        "global": f"{language.fresh}, or write each element before it is read",
        "shared": f"shared memory does not start at zero; write it, then {language.barrier}, then "
        "read",
        "local": "local memory does not start at zero; give every element a value first",
    }[space]


_COMPILERS = (
    "the kernel is right, but its compiler stores fewer bytes than it formats, so "
    "the number may come out wrong on a GPU. print(np.int64(x)) stores all of them"
)


class Initcheck(Checker):
    """Checker that adds reads of unwritten memory to a report, one for each line and space."""

    marks_written = True

    def __init__(self, report: Report):
        super().__init__(report)
        self._result = np.zeros(2, np.int64)
        self._output = pointer(self._result)

    def launch_started(self, launch) -> None:
        super().launch_started(launch)
        self.maps: dict[tuple, np.ndarray] = {}  # (wave, space) → byte map
        # For byte maps of local memory: how many bytes of a lane's part are frames, and how many
        # are stack.
        self.parts: dict[tuple, tuple[int, int]] = {}
        # (line, conversion) → message about the compiler
        self._compilers: dict[tuple, str] = {}

    def launch_finished(self, launch) -> None:
        super().launch_finished(launch)
        notes = self.report.notes
        notes += [note for note in self._compilers.values() if note not in notes]
        self.maps, self.parts, self._compilers = {}, {}, {}

    def exited(self, group) -> None:
        wave = group.wave
        if wave.finished == wave.lanes:
            self.maps.pop((wave, "shared"), None)
            self.maps.pop((wave, "local"), None)
            self.parts.pop((wave, "local"), None)

    def stack_grew(self, group, offsets, sizes) -> None:
        wave = group.wave
        self._grow((wave, "local"), wave, wave.local_stride)
        written = self.maps[wave, "local"]
        starts = group.lanes * wave.local_stride + offsets.astype(np.int64)
        for start, size in zip(starts, sizes, strict=True):
            written[start : start + size] = 0

    def accessed(self, access: Access) -> None:
        if access.wanted is not None:
            if (used := access.by_the_program()) is None:
                return
            access = used
        if access.space == "global":
            if self.launch.memory.unwritten:
                self._global(access)
            return
        wave = access.group.wave
        if access.space == "local" and self.launch.program.module.debug:
            return
        if access.space == "shared":
            stride, part_of = wave.shared_stride, wave.block_of
            key = (wave, "shared")
            if key not in self.maps:
                self.maps[key] = np.zeros(wave.blocks * stride + 4, np.uint8)
        else:
            stride, part_of = wave.local_stride, wave.all_lanes
            key = (wave, "local")
            self._grow(key, wave, stride)
        addresses, lanes = _arrays(access)
        if access.blocks is not None:  # of any block: offset in the wave's
            addresses = addresses + (access.blocks * stride).astype(np.uint64)
            self._visit(
                access, self.maps[key], addresses, lanes, part_of, 0, wave.blocks * stride, 0
            )
            return
        self._visit(access, self.maps[key], addresses, lanes, part_of, 0, stride, stride)

    def printed(self, group, instruction, lane, offset, size, conversion) -> None:
        if self.launch.program.module.debug:
            return
        wave, key = group.wave, (group.wave, "local")
        self._grow(key, wave, wave.local_stride)
        start = lane * wave.local_stride + offset
        written = int(np.count_nonzero(self.maps[key][start : start + size]))
        if written == size:
            return
        source = instruction.source
        at = self.location(wave, source, lane)
        left = size - written if written else "any"
        what = f"{many(size, 'byte')} as {conversion}, of which nobody has written {left}"
        where = f"thread {at.thread} of block {at.block} prints {what}{at_line(at)}"
        if written and language_of(source) is NUMBA:  # the compiler chooses conversions
            self._compilers.setdefault((source, conversion), f"{at.kernel}: {where}: {_COMPILERS}")
            return
        self.add(
            ("printf", source or id(instruction)),
            f"uninitialised: {where}. A conversion reads the bytes of its type: %d an int, %lld "
            "a long long, %f a double, and %s a string up to its zero byte. Pass arguments of "
            "these types",
            at,
            None,
            1,
        )

    def _grow(self, key, wave, stride: int) -> None:
        """Extend the map of local memory, which may grow while a wave runs."""
        known = self.maps.get(key)
        have = 0 if known is None else (len(known) - 4) // wave.lanes
        frames, stack = self.parts.get(key, (0, 0))
        self.parts[key] = wave.frame_bytes, wave.stack_bytes
        if have == stride:
            return
        grown = np.zeros(wave.lanes * stride + 4, np.uint8)
        if known is not None and have:
            rows = grown[:-4].reshape(wave.lanes, stride)
            before = known[:-4].reshape(wave.lanes, have)
            rows[:, :frames] = before[:, :frames]
            rows[:, stride - stack :] = before[:, have - stack :]
        self.maps[key] = grown

    def _global(self, access: Access) -> None:
        memory = self.launch.memory
        addresses, lanes = _arrays(access)
        done = 0
        while done < len(addresses):
            start, end = memory.extent(int(addresses[done]))
            known = memory.unwritten.get(start)
            if known is None:
                outside = (addresses[done:] < start) | (addresses[done:] >= end)
                if not outside.any():
                    return
                done += int(np.argmax(outside))
                continue
            visited, new = self._visit(
                access, known.map(), addresses[done:], lanes[done:], lanes, start, end - start, 0
            )
            known.left -= new
            if known.left <= 0:
                memory.unwritten.pop(start, None)
            done += visited

    def _visit(
        self, access: Access, written, addresses, lanes, part_of, base: int, span: int, stride: int
    ) -> tuple[int, int]:
        """Return the number of lanes in the span, and of bytes first written by them."""
        words = access.size % 4 == 0
        arguments = (
            pointer(addresses),
            pointer(lanes),
            pointer(part_of),
            len(lanes),
            base,
            span,
            stride,
            access.size,
            pointer(written),
            self._output,
        )
        done, new = len(lanes), 0
        if access.kind != "store":
            self._result[:] = 0
            find = written_loop.find_words if words else written_loop.find_bytes
            done = find(*arguments)
            many, first = self._result.tolist()
            if many and not self._is_padding(
                access, written, addresses[:done], lanes[:done], part_of, base, span, stride
            ):
                self._report(access, int(lanes[first]), int(addresses[first]), many)
        if access.kind != "load":
            self._result[:] = 0
            mark = written_loop.mark_words if words else written_loop.mark_bytes
            done = mark(*arguments)
            new = int(self._result[0])
        return done, new

    def _is_padding(
        self, access: Access, written, addresses, lanes, part_of, base: int, span: int, stride: int
    ) -> bool:
        """Return True if the unwritten bytes are only padding of copied structs.

        This requires that nothing is computed from them, that the rest of each struct is written,
        and that the same bytes are unwritten in all structs: those that these lanes copy, or the
        neighbouring ones.
        """
        travels, instruction = self._travels(), access.instruction
        if access.kind != "load" or id(instruction) not in travels.loads:
            return False  # for example a texture fetch, which copies no struct
        at = addresses.astype(np.int64) - base
        if stride:
            at = at + part_of[lanes] * stride
        own = written[at[:, None] + np.arange(access.size)] == 0
        blamed = own.any(1)
        if (own[blamed] != own[blamed][0]).any():
            return False
        unwritten = own[blamed][0].tobytes()
        if travels.is_unused(instruction, unwritten):
            return instruction.used_bytes is not None or travels.only(instruction, unwritten)
        if not travels.only(instruction, unwritten) or (access.size > 1 and all(unwritten)):
            return False
        first, last = travels.record(instruction)
        if at.min() + first < 0 or at.max() + last > len(written):
            return False
        missing = written[at[blamed][:, None] + np.arange(first, last)] == 0
        pattern = missing[0]
        if pattern.all() or (missing != pattern).any():
            return False
        if blamed.all() and len(at) > 1:
            return True
        return _is_periodic(written, int(at[blamed][0]) + first, pattern)

    def _travels(self) -> Travels:
        program = self.launch.program
        if program.travels is None:
            program.travels = Travels(program)
        known: Travels = program.travels
        return known

    def _report(self, access: Access, lane: int, address: int, many: int) -> None:
        source = access.instruction.source
        key = (access.space, source or id(access.instruction))
        if self.again(key, many):
            return
        at = self.location(access.group.wave, source, lane)
        if access.blocks is not None:
            address %= access.group.wave.shared_stride
        verb = "updates" if access.kind == "atomic" else "reads"
        size = f"{access.size} byte{'' if access.size == 1 else 's'}"
        what = f" ({element(self.launch, access, address)})" if access.space != "local" else ""
        advice = _advice(access.space, language_of(source))
        message = (
            f"uninitialised: thread {at.thread} of block {at.block} {verb} {size} of "
            f"{access.space} memory{what}{at_line(at)} that nobody has written"
        )
        self.add(key, message, at, None, many, advice)


def _arrays(access: Access) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(access.addresses), np.ascontiguousarray(access.lanes)


def _is_periodic(written, at: int, pattern: np.ndarray) -> bool:
    """Return True if all neighbours of the struct at ``at`` lack the same bytes."""
    size, written_beside = len(pattern), 0
    for period in range(size, 9 * size, size):
        beside = [
            written[start : start + size] == 0
            for start in (at - period, at + period)
            if start >= 0 and start + size <= len(written)
        ]
        beside = [one for one in beside if not one.all()]
        if beside and all((one == pattern).all() for one in beside):
            return True
        written_beside += len(beside)
    return not written_beside
