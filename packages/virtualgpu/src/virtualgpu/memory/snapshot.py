"""Snapshot of device memory, from which a launch can start again."""

from __future__ import annotations

import threading

from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.memory.mapping import BASE


def can_be_taken_back(memory: GlobalMemory) -> bool:
    """Return True if nothing sees a kernel's stores before the launch has ended.

    This is not so if the host or another process can access the bytes (mapped and managed memory,
    CUDA IPC), or if a kernel may access another device's memory. It is not so either if a second
    live host thread uses this memory, because restoring the snapshot would also undo that thread's
    writes.
    """
    return (
        len(memory.all) == 1
        and not memory.seen_by_host
        and not memory.shown
        and sum(thread.is_alive() for thread in list(memory.callers)) < 2
    )


class Snapshot:
    """Copy of the bytes of all live allocations.

    With ``written`` it includes the map of written bytes.
    """

    def __init__(self, memory: GlobalMemory, written: bool):
        self.memory = memory
        self._written = (
            {start: known.copy() for start, known in list(memory.unwritten.items())}
            if written
            else {}
        )
        self._heap = dict(memory.heap)
        # Forget threads that have ended. A thread that comes from now on is noticed even if it
        # ends.
        memory.callers.difference_update(
            [one for one in list(memory.callers) if not one.is_alive()]
        )
        self._callers = set(memory.callers)
        raw = memory.mapping.raw
        self._bytes = [
            (start, end, raw[start - BASE : end - BASE].copy())
            for start, end in zip(memory.starts, memory.ends, strict=True)
            if start not in memory.huge
        ]
        self._huge = [(one, one.keep()) for one in list(memory.huge.values())]

    def restore(self) -> bool:
        """Restore the bytes of allocations that are still live.

        Returns False, and changes nothing, if that would not undo everything: after a kernel's
        ``malloc``, or with a second thread.
        """
        memory = self.memory
        came = memory.callers - self._callers - {threading.current_thread()}
        if came or not can_be_taken_back(memory) or memory.heap != self._heap:
            return False
        raw = memory.mapping.raw
        for start, end, kept in self._bytes:
            if memory.extent(start) == (start, end):
                raw[start - BASE : end - BASE] = kept
                if known := self._written.get(start):
                    memory.unwritten[start] = known
        for huge, pages in self._huge:
            if memory.huge.get(huge.start) is huge:
                huge.put_back(pages)
                if known := self._written.get(huge.start):
                    memory.unwritten[huge.start] = known
        return True
