"""The verbs in the learner's own notebook: same questions, asked in the same process.

It gives the learner the grader's messages while they work. It protects nothing, and need not: it
is the learner's own notebook.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpucourse.adapters.awkward_arguments import EXTENSIONS, without_awkward
from gpucourse.adapters.cuda_text import loaded
from gpucourse.grading.contract import PUBLIC_SEED, Launched, PropertyFailed, seed_words
from gpucourse.grading.testing.compiling import gist, is_compile_error
from gpucourse.grading.testing.jaxprs import operations, run_by_jax, traced, without_jax
from gpucourse.grading.testing.unsolved import unsolved
from gpucourse.grading.testing.watching import (
    COMPILES_NOT,
    DIFFERS,
    NOT_ON_DEVICE,
    agree,
    explain,
    watched,
)
from gpucourse.judging.orders import OF_A_LAUNCH, checked, order_matters
from virtualgpu.api import awkward_to_device, hurried, is_awkward


class NotebookJudge:
    """Looks names up in `namespace()` and runs them on the current device."""

    def __init__(self, namespace: Callable[[], dict]) -> None:
        self.namespace = namespace
        self.launched: list[Launched] = []

    def came_near(self, what: str) -> None:
        """Do nothing: near misses are reported to teachers only."""

    def seed(self, name: str) -> np.ndarray:
        return seed_words(PUBLIC_SEED, name.encode())

    def economy(self, work: Callable[[], object], bounds: dict) -> float:
        """Return 1: the learner's notebook has no reference solution to compare with."""
        work()
        return 1.0

    def _find(self, name: str) -> Any:
        try:
            return self.namespace()[name]
        except KeyError:
            raise PropertyFailed(
                f"'{name}' is not defined", "run the cell that defines it"
            ) from None

    def call(
        self,
        name: str,
        args: tuple,
        *,
        where: str,
        schedules: int,
        static: tuple,
        exchanged: Sequence[tuple[Any, Any]],
        squeezed: float | None,
    ) -> Any:
        import virtualgpu

        __tracebackhide__ = True
        function = self._find(name)
        if stub := unsolved(function):
            raise PropertyFailed(f"'{stub}' is not written yet")
        # Host and device are one process here: an honest answer cannot tell the difference.
        args = tuple(next((by for what, by in exchanged if what is value), value) for value in args)
        self.launched = []

        if where == "jax":
            return to_host(run_by_jax(function, args, static, squeezed))

        def once() -> Any:
            __tracebackhide__ = True
            return to_host(
                function(
                    *(value.copy() if isinstance(value, np.ndarray) else value for value in args)
                )
            )

        if not virtualgpu.answers():
            return once()
        try:
            with hurried(OF_A_LAUNCH):
                with virtualgpu.profile() as profile:
                    result, found, orderless = checked(once)
                if found is not None:
                    raise PropertyFailed(f"'{name}': {found.message}")
                if order_matters(once, result, range(schedules), agree, orderless):
                    raise PropertyFailed(f"'{name}': {DIFFERS[orderless]}")
        except virtualgpu.VirtualGPUError as error:
            raise explain(error, name) from None
        self.launched = [
            Launched(launch.kernel, launch.grid, launch.block, launch.counters)
            for launch in profile.launches
        ]
        if where == "device" and not self.launched:
            raise PropertyFailed(NOT_ON_DEVICE.format(name=name))
        return result

    def operations(self, name: str, args: tuple, *, static: tuple, elements: str) -> dict[str, int]:
        __tracebackhide__ = True
        function = self._find(name)
        if stub := unsolved(function):
            raise PropertyFailed(f"'{stub}' is not written yet")
        return operations(traced(function, args, static)[0], elements)

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: tuple,
        *,
        shared: int,
        schedules: int,
    ) -> Launched:
        import virtualgpu
        from virtualgpu.api import is_kernel

        kernel = self._find(name)
        if not is_kernel(kernel):
            raise PropertyFailed(f"'{name}' is not a CUDA kernel: decorate it with @cuda.jit")
        if stub := unsolved(kernel):
            raise PropertyFailed(f"'{stub}' is not written yet")
        args = tuple(map(awkward_to_device, args))
        if any(map(is_awkward, args)) and not kernel.extensions:
            raise PropertyFailed(EXTENSIONS.format(name=name))

        def run(arguments: list) -> None:
            with warnings.catch_warnings():
                # The verb hands over host arrays on purpose: the learner need not copy them.
                warnings.filterwarnings("ignore", message="Host array used in CUDA kernel")
                try:
                    kernel[grid, block, 0, shared](*arguments)
                except Exception as error:
                    if not is_compile_error(error):
                        raise
                    raise PropertyFailed(
                        f"the kernel '{name}' cannot be compiled", gist(error)
                    ) from None

        counters = None
        if virtualgpu.answers():
            with hurried(OF_A_LAUNCH):
                counters = watched(run, name, args, schedules, seed=0)
        else:
            run(list(args))
        launched = Launched(name, grid, block, counters)
        self.launched = [launched]
        return launched

    def launch_source(
        self,
        source: str,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: tuple,
        *,
        schedules: int,
    ) -> Launched:
        import virtualgpu

        __tracebackhide__ = True
        try:
            made = loaded(source, kernel)
        except Exception as error:
            raise PropertyFailed(COMPILES_NOT.format(name=kernel), str(error)) from None
        counters = None
        if virtualgpu.answers():
            with hurried(OF_A_LAUNCH):
                counters = watched(
                    lambda arrays: made(grid, block, arrays), kernel, args, schedules, seed=0
                )
        else:
            made(grid, block, args)
        self.launched = [Launched(kernel, grid, block, counters)]
        return self.launched[0]


def to_host(value: Any) -> Any:
    """`value` with arrays in device memory copied to NumPy."""
    if hasattr(value, "copy_to_host"):
        return value.copy_to_host()
    if isinstance(value, (list, tuple)):
        return type(value)(to_host(item) for item in value)
    if isinstance(value, dict):
        return {key: to_host(item) for key, item in value.items()}
    return without_awkward(without_jax(value))
