"""Base class of the two judges that implement the functions of tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from gpucourse.grading.contract import Call, Launch, Launched


class Judge(ABC):
    """Base class: applies test functions to a learner's work; :mod:`.verbs` explains them.

    ``launched`` lists the launches of the latest test function.
    """

    def __init__(self) -> None:
        self.launched: list[Launched] = []

    @abstractmethod
    def call(self, asked: Call) -> Any:
        """Return the result of a host function."""

    @abstractmethod
    def operations(self, asked: Call, elements: str) -> dict[str, int]:
        """Count the operations in JAX's trace of a function."""

    @abstractmethod
    def launch(self, asked: Launch) -> Launched:
        """Launch a kernel on the arrays of `asked`, which receive its results."""

    @abstractmethod
    def launch_source(self, source: str, asked: Launch) -> Launched:
        """Launch a kernel from CUDA C++ source."""

    @abstractmethod
    def economy(self, work: Callable[[], object], bounds: dict) -> float:
        """Return the share of the points that the counts of `work` earn."""

    @abstractmethod
    def seed(self, name: str) -> np.ndarray:
        """Return the words that seed the random numbers `name` of a test."""

    @abstractmethod
    def came_near(self, what: str) -> None:
        """Note a limit that a correct answer nearly exceeded."""

    def note(self, asked: Launch, counters: Any) -> Launched:
        """Record a launch and its counters."""
        self.launched = [Launched(asked.kernel, asked.grid, asked.block, counters)]
        return self.launched[0]
