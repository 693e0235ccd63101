"""Numba's own simulator of CUDA, which tutorials switch on where there is no GPU.

``NUMBA_ENABLE_CUDASIM=1`` makes ``import numba.cuda`` give threads of Python in place of compiled
kernels: nothing of it is left that the virtual GPU could be put under.
"""

from __future__ import annotations

import os
import sys
import warnings

VARIABLE = "NUMBA_ENABLE_CUDASIM"
# Each reads the variable when it is imported.
_CONFIGURATIONS = ("numba.core.config", "numba.cuda.core.config")


def take_its_place() -> None:
    """Switch the simulator off before ``numba.cuda`` is imported, and warn that it was on.

    Raises RuntimeError where it was imported as the simulator.
    """
    read = [sys.modules[name] for name in _CONFIGURATIONS if name in sys.modules]
    asked = os.environ.get(VARIABLE, "").strip() not in ("", "0")
    if not asked and not any(getattr(one, "ENABLE_CUDASIM", 0) for one in read):
        return
    # Its modules alone say nothing: numba-cuda imports some of them beside compiled kernels.
    jit = getattr(sys.modules.get("numba.cuda"), "jit", None)
    if getattr(jit, "__module__", "").startswith("numba.cuda.simulator"):
        raise RuntimeError(
            f"{VARIABLE} had numba.cuda imported as Numba's simulator, which cannot become the "
            f"virtual GPU: unset the variable and start Python anew (in a shell: unset {VARIABLE})")
    os.environ.pop(VARIABLE, None)
    for one in read:
        setattr(one, "ENABLE_CUDASIM", 0)  # noqa: B010  (no attribute that a type checker knows)
    warnings.warn(
        f"{VARIABLE} asks for Numba's simulator; the virtual GPU takes its place, which runs the "
        f"compiled kernels. Unset the variable (in a shell: unset {VARIABLE}), and this warning "
        "goes", UserWarning, stacklevel=3)
