"""Types shared by both judges: a failed property, a launch, a call, a grader fault."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# In the notebook the test data is the same in each run, so that a learner can work on a failure.
PUBLIC_SEED = b"public"


class PropertyFailed(AssertionError):
    """A property that the answer does not have.

    ``reason`` names the property and may be shown to anybody. ``detail`` contains values of inputs
    or expected outputs, so only the learner's own notebook shows it.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}" if detail else reason)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback through the check's code."""
        return [f"Not yet: {self}"]


class InfrastructureFault(Exception):
    """A fault of the grader or the course, after which the submission must be graded again."""


class OutOfTestTime(Exception):
    """A test cell used up the time that the oracle itself may spend on it."""


@dataclass(frozen=True)
class Launched:
    """One launch of a kernel.

    `counters` are the counts of :func:`virtualgpu.profile`, or None if nothing was counted.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    counters: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Call:
    """Request to call a host function, with the arguments of :func:`gpucourse.call`."""

    name: str
    args: tuple
    where: str = "device"
    schedules: int = 1
    static: tuple[int, ...] = ()
    exchanged: Sequence[tuple[Any, Any]] = ()
    squeezed: float | None = None

    def __post_init__(self) -> None:
        if self.where not in ("device", "host", "jax"):
            raise ValueError(f"where is 'device', 'host' or 'jax', not {self.where!r}")


@dataclass(frozen=True)
class Launch:
    """Request to launch a kernel, with the arguments of :func:`gpucourse.launch`."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple
    shared: int = 0
    schedules: int = 2


def seed_words(*parts: bytes) -> np.ndarray:
    """Return eight 32-bit words that depend on every byte of `parts`."""
    running = hashlib.sha256()
    for part in parts:
        running.update(len(part).to_bytes(8, "little") + part)
    return np.frombuffer(running.digest(), np.uint32)
