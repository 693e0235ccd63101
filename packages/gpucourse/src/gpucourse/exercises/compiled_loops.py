"""Limits for compiled host loops, which neither signals nor a launch's limit can stop.

Loops compiled by Numba first run as Python with few elements, because Python is 50 times slower.
There, :mod:`gpucourse.exercises.bounds` stops them. Loops in JAX count their steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from gpucourse.exercises.methods import as_python

#: Steps allowed in a JAX loop; right answers take at most 50.
MOST = 10_000


def ended(function: Any, *arguments: Any) -> Any:
    """Run a Numba function or ufunc as Python first, then return the compiled result."""
    with contextlib.suppress(Exception), np.errstate(all="ignore"):  # the compiled run reports it
        plain = as_python(function)
        if hasattr(function, "nin"):
            plain = np.frompyfunc(plain, function.nin, 1)
        plain(*arguments)
    return function(*arguments)


@contextlib.contextmanager
def while_loops_end() -> Iterator[None]:
    """Bound every ``jax.lax.while_loop`` that is traced inside the context.

    A loop stops after :data:`MOST` steps, and its check then rejects the unfinished result.
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
