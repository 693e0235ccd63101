"""Stopping compiled host loops that never end, which no signal and no GPU limit stops.

Numba's run as Python first, where :mod:`gpucourse.exercises.bounds` stops them: with few elements,
since Python takes 50 times as long. JAX's count their steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from gpucourse.exercises.methods import as_python

#: Steps of a loop in JAX: right answers take 50 at most.
MOST = 10_000


def ended(function: Any, *arguments: Any) -> Any:
    """Return the result of a function that Numba compiled, also of a ufunc; see above."""
    with contextlib.suppress(Exception), np.errstate(all="ignore"):  # the compiled one will tell
        plain = as_python(function)
        if hasattr(function, "nin"):
            plain = np.frompyfunc(plain, function.nin, 1)
        plain(*arguments)
    return function(*arguments)


@contextlib.contextmanager
def while_loops_end() -> Iterator[None]:
    """Bound every ``jax.lax.while_loop`` that is traced inside the context.

    It makes at most :data:`MOST` steps; what it has by then, a check calls wrong.
    """
    import jax

    loop = jax.lax.while_loop

    def limited(cond_fun: Callable, body_fun: Callable, init_val: Any) -> Any:
        def goes_on(carry: tuple) -> Any:
            return (carry[0] < MOST) & cond_fun(carry[1])

        def body(carry: tuple) -> tuple:
            return carry[0] + 1, body_fun(carry[1])

        return loop(goes_on, body, (0, init_val))[1]

    with mock.patch.object(jax.lax, "while_loop", limited):
        yield
