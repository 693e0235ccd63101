"""Terms of a judgement that both sides share: a failed property, a launch, a fault."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# In the notebook tests are repeatable, so that a learner can work on a failure.
PUBLIC_SEED = b"public"


class PropertyFailed(AssertionError):
    """A property of the answer does not hold.

    ``reason`` names the property and may be shown to anybody; ``detail`` has values of inputs or
    expected outputs and is for the learner's own notebook.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}" if detail else reason)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows in place of the frames of the check itself."""
        return [f"Not yet: {self}"]


class InfrastructureFault(Exception):
    """The grader or the course is at fault; the submission is to be graded again."""


class OutOfTestTime(Exception):
    """A test cell used up its time in the oracle itself."""


@dataclass(frozen=True)
class Launched:
    """One launch of a kernel; `counters` as :func:`virtualgpu.profile` counts, else None."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    counters: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Call:
    """Question to a host function: the arguments of :func:`gpucourse.call`."""

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
    """Question to a kernel: the arguments of :func:`gpucourse.launch`."""

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
