"""``jaxpile.jit(backend="cuda")`` against ``jax.jit`` on the GPU: three ocean model programs.

Arguments and results stay on the device, and both compilers use the same JAX arrays. Without a GPU
the arrays are CuPy's, since JAX has none on a device there. Both are timed with the clock
``queue``, because JAX has its own streams.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lab.benchmarks.gpu_work import Group, Ready, Work, jax_ready, virtual
from lab.benchmarks.jit_programs import PROGRAMS, arguments
from lab.benchmarks.jit_speed import errors

#: Tolerance of a result relative to NumPy's, in units of its largest element; on an H200 results
#: differed by 2e-13.
MOST = 1e-11


def program(name: str) -> Callable[[int], Work]:
    """Return a builder of the work: one call of the program."""

    def build(size: int) -> Work:
        import cupy as cp

        jax = jax_ready()
        function, host = PROGRAMS[name], arguments(name, size)
        on_jax = [jax.numpy.asarray(array) for array in host]
        results = jax.eval_shape(function, *host)
        work = Work(
            size,
            "elements",
            bytes=sum(array.nbytes for array in host)
            + sum(array.size * array.dtype.itemsize for array in jax.tree.leaves(results)),
        )

        exact = jax.tree.leaves(function(*host))

        def check(found) -> None:
            off = max(errors([np.asarray(one) for one in jax.tree.leaves(found)], exact))
            assert off < MOST, f"{off:.2g} of the largest element off"

        @work.add("jaxpile", "jaxpile, CUDA kernels", "queue")
        def _():
            import jaxpile

            ours = jaxpile.jit(function, backend="cuda")
            given = [cp.asarray(array) for array in host] if virtual() else on_jax
            return Ready(lambda: ours(*given), check)

        @work.add("jax", "JAX, jit", "queue", "JAX")
        def _():
            theirs = jax.jit(function)
            return Ready(lambda: theirs(*on_jax), check)

        return work

    return build


GROUPS = tuple(
    Group(f"jaxpile.{name}", title, program(name), (2**16, 2**20), (900,), patience=0.5, x64=True)
    for name, title in (
        ("equation_of_state", "Equation of state of sea water"),
        ("isoneutral_mixing", "Isoneutral mixing"),
        ("turbulent_kinetic_energy", "Turbulent kinetic energy"),
    )
)
