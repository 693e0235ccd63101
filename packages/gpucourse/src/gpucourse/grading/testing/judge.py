"""Base class of the two judges that implement the functions of tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucourse.grading.contract import Call, Launch, Launched


class Judge(ABC):
    """Puts the questions of test cells to a learner's work; see :mod:`.verbs` for what they mean.

    ``launched`` lists what the latest question launched.
    """

    def __init__(self) -> None:
        self.launched: list[Launched] = []

    @abstractmethod
    def call(self, asked: Call) -> Any:
        """Return the result of a host function."""

    @abstractmethod
    def operations(self, asked: Call, elements: str) -> dict[str, int]:
        """Count the operations that JAX records of a function."""

    @abstractmethod
    def launch(self, asked: Launch) -> Launched:
        """Launch a kernel on the arrays of `asked`, which get its results."""

    @abstractmethod
    def launch_source(self, source: str, asked: Launch) -> Launched:
        """Launch a kernel of a text in CUDA C++."""

    @abstractmethod
    def economy(self, work: Callable[[], object], bounds: dict) -> float:
        """Return the share that the counts of `work` earn."""

    @abstractmethod
    def seed(self, name: str) -> np.ndarray:
        """Return the words from which the random numbers `name` of a test come."""

    @abstractmethod
    def came_near(self, what: str) -> None:
        """Note a bound that a right answer nearly broke."""

    def note(self, asked: Launch, counters: Any) -> Launched:
        """Record a launch and its counters."""
        self.launched = [Launched(asked.kernel, asked.grid, asked.block, counters)]
        return self.launched[0]
