"""Judge in the learner's own notebook, which runs answers in the same process.

It gives the learner the grader's messages while they work. It protects nothing, and does not need
to, because the notebook is the learner's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpucourse.adapters.awkward_arguments import EXTENSIONS, without_awkward
from gpucourse.adapters.cuda_text import loaded
from gpucourse.grading.contract import (
    PUBLIC_SEED,
    Call,
    Launch,
    Launched,
    PropertyFailed,
    seed_words,
)
from gpucourse.grading.testing.compiling import gist, is_compile_error
from gpucourse.grading.testing.jaxprs import operations, run_by_jax, traced, without_jax
from gpucourse.grading.testing.judge import Judge
from gpucourse.grading.testing.unsolved import unsolved
from gpucourse.grading.testing.watching import (
    COMPILES_NOT,
    DIFFERS,
    NOT_ON_DEVICE,
    agree,
    explain,
    watched,
)
from gpucourse.grading.testing.withheld import COURSES_OWN, withheld_in
from gpucourse.judging.orders import OF_A_LAUNCH, checked, order_matters
from virtualgpu.api import awkward_to_device, hurried, is_awkward


class NotebookJudge(Judge):
    """Judge that looks names up in `namespace()` and runs them on the current device."""

    def __init__(self, namespace: Callable[[], dict]) -> None:
        super().__init__()
        self.namespace = namespace

    def came_near(self, what: str) -> None:
        """Do nothing, because only teachers get reports of near misses."""

    def seed(self, name: str) -> np.ndarray:
        return seed_words(PUBLIC_SEED, name.encode())

    def economy(self, work: Callable[[], object], bounds: dict) -> float:
        """Return 1, because a notebook has no reference solution to compare with."""
        work()
        return 1.0

    def _find(self, name: str) -> Any:
        try:
            return self.namespace()[name]
        except KeyError:
            raise PropertyFailed(
                f"'{name}' is not defined", "run the cell that defines it"
            ) from None

    def _written(self, name: str) -> Any:
        """Return the learner's function or kernel. Raises PropertyFailed while it is a stub."""
        found = self._find(name)
        if stub := unsolved(found):
            raise PropertyFailed(f"'{stub}' is not written yet")
        if withheld := withheld_in(found):
            raise PropertyFailed(COURSES_OWN.format(name=withheld))
        return found

    def call(self, asked: Call) -> Any:
        import virtualgpu

        __tracebackhide__ = True
        function = self._written(asked.name)
        # Host and device share one process here. An honest answer cannot tell the difference.
        args = tuple(
            next((by for what, by in asked.exchanged if what is value), value)
            for value in asked.args
        )
        self.launched = []

        if asked.where == "jax":
            return to_host(run_by_jax(function, args, asked.static, asked.squeezed))

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
                    raise PropertyFailed(f"'{asked.name}': {found.message}")
                if order_matters(once, result, range(asked.schedules), agree, orderless):
                    raise PropertyFailed(f"'{asked.name}': {DIFFERS[orderless]}")
        except virtualgpu.VirtualGPUError as error:
            raise explain(error, asked.name) from None
        self.launched = [
            Launched(launch.kernel, launch.grid, launch.block, launch.counters)
            for launch in profile.launches
        ]
        if asked.where == "device" and not self.launched:
            raise PropertyFailed(NOT_ON_DEVICE.format(name=asked.name))
        return result

    def operations(self, asked: Call, elements: str) -> dict[str, int]:
        __tracebackhide__ = True
        return operations(traced(self._written(asked.name), asked.args, asked.static)[0], elements)

    def launch(self, asked: Launch) -> Launched:
        from virtualgpu.api import is_kernel

        kernel = self._find(asked.kernel)
        if not is_kernel(kernel):
            raise PropertyFailed(
                f"'{asked.kernel}' is not a CUDA kernel: decorate it with @cuda.jit"
            )
        self._written(asked.kernel)
        asked = replace(asked, args=tuple(map(awkward_to_device, asked.args)))
        if any(map(is_awkward, asked.args)) and not kernel.extensions:
            raise PropertyFailed(EXTENSIONS.format(name=asked.kernel))

        def run(arguments: list) -> None:
            with warnings.catch_warnings():
                # `launch` passes host arrays on purpose, so that the learner need not copy them.
                warnings.filterwarnings("ignore", message="Host array used in CUDA kernel")
                try:
                    kernel[asked.grid, asked.block, 0, asked.shared](*arguments)
                except Exception as error:
                    if not is_compile_error(error):
                        raise
                    raise PropertyFailed(
                        f"the kernel '{asked.kernel}' cannot be compiled", gist(error)
                    ) from None

        return self._watched(asked, run)

    def launch_source(self, source: str, asked: Launch) -> Launched:
        __tracebackhide__ = True
        try:
            made = loaded(source, asked.kernel)
        except Exception as error:
            raise PropertyFailed(COMPILES_NOT.format(name=asked.kernel), str(error)) from None
        return self._watched(asked, lambda arrays: made(asked.grid, asked.block, arrays))

    def _watched(self, asked: Launch, run: Callable[[list], None]) -> Launched:
        """Launch under the checkers on the virtual GPU, or without them on a real GPU."""
        import virtualgpu

        counters = None
        if virtualgpu.answers():
            with hurried(OF_A_LAUNCH):
                counters = watched(run, asked.kernel, asked.args, asked.schedules, seed=0)
        else:
            run(list(asked.args))
        return self.note(asked, counters)


def to_host(value: Any) -> Any:
    """Return `value` with arrays in device memory copied to NumPy."""
    if hasattr(value, "copy_to_host"):
        return value.copy_to_host()
    if isinstance(value, (list, tuple)):
        return type(value)(to_host(item) for item in value)
    if isinstance(value, dict):
        return {key: to_host(item) for key, item in value.items()}
    return without_awkward(without_jax(value))
