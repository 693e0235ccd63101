"""Numba's own simulator of CUDA, which tutorials switch on where there is no GPU.

``NUMBA_ENABLE_CUDASIM=1``, or ``enable_cudasim: 1`` in ``.numba_config.yaml``, makes
``import numba.cuda`` give threads of Python in place of compiled kernels: nothing of it is left
that the virtual GPU could be put under.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

VARIABLE = "NUMBA_ENABLE_CUDASIM"
#: Numba reads it in the folder in which Python stands; the environment comes before it.
FILE = ".numba_config.yaml"
# Each reads variable and file when it is imported.
_CONFIGURATIONS = ("numba.core.config", "numba.cuda.core.config")


class SimulatorError(RuntimeError):
    """``numba.cuda`` was imported as the simulator."""


def take_its_place() -> None:
    """Switch the simulator off before ``numba.cuda`` is imported, and warn that it was on.

    Raises SimulatorError where it was imported as the simulator.
    """
    if told := switch_off():
        warnings.warn(told, UserWarning, stacklevel=3)


def switch_off() -> str:
    """Switch the simulator off without a warning; return the message, "" where it was off."""
    asked = _asked()
    read = [sys.modules[name] for name in _CONFIGURATIONS if name in sys.modules]
    if not asked and not any(getattr(one, "ENABLE_CUDASIM", 0) for one in read):
        return ""
    asked = asked or VARIABLE
    mend = (
        f"in a shell: unset {VARIABLE}"
        if asked == VARIABLE
        else f"take enable_cudasim out of {Path(FILE).absolute()}"
    )
    # Its modules alone say nothing: numba-cuda imports some of them beside compiled kernels.
    jit = getattr(sys.modules.get("numba.cuda"), "jit", None)
    if getattr(jit, "__module__", "").startswith("numba.cuda.simulator"):
        raise SimulatorError(
            f"{asked} had numba.cuda imported as Numba's simulator, which cannot become the "
            f"virtual GPU: switch the simulator off and start Python again ({mend})"
        )
    os.environ[VARIABLE] = "0"  # which a file cannot change, nor in processes that this one starts
    for one in read:
        setattr(one, "ENABLE_CUDASIM", 0)  # noqa: B010  (no attribute that a type checker knows)
    return (
        f"{asked} asks for Numba's simulator; the virtual GPU takes its place, which runs the "
        f"compiled kernels. Switch the simulator off ({mend}), and this warning goes"
    )


def _asked() -> str:
    """Return the setting that selects the simulator: the variable, the file, or ""."""
    value = os.environ.get(VARIABLE)
    if value is not None:
        return VARIABLE if value.strip() not in ("", "0") else ""
    try:
        text = Path(FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return FILE if "enable_cudasim" in text.lower() else ""
