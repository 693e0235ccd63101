"""Detection of Numba's CUDA simulator, which tutorials use on machines without a GPU.

With ``NUMBA_ENABLE_CUDASIM=1``, or ``enable_cudasim: 1`` in ``.numba_config.yaml``, ``import
numba.cuda`` provides Python threads in place of compiled kernels. The virtual GPU cannot run
these.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

VARIABLE = "NUMBA_ENABLE_CUDASIM"
#: Numba reads this file in the current directory; the environment variable takes precedence.
FILE = ".numba_config.yaml"
# modules that read the variable and the file on import
_CONFIGURATIONS = ("numba.core.config", "numba.cuda.core.config")


class SimulatorError(RuntimeError):
    """Error: ``numba.cuda`` was imported as the simulator."""


def take_its_place() -> None:
    """Switch the simulator off before ``numba.cuda`` is imported, and warn that it was on.

    Raises SimulatorError if the simulator has already been imported.
    """
    if told := switch_off():
        warnings.warn(told, UserWarning, stacklevel=3)


def switch_off() -> str:
    """Switch the simulator off without a warning; return the message, or "" if it was off."""
    asked = _asked()
    read = [sys.modules[name] for name in _CONFIGURATIONS if name in sys.modules]
    if not asked and not any(getattr(one, "ENABLE_CUDASIM", 0) for one in read):
        return ""
    asked = asked or VARIABLE
    mend = (
        f"in a shell: unset {VARIABLE}"
        if asked == VARIABLE
        else f"remove enable_cudasim from {Path(FILE).absolute()}"
    )
    # The modules alone prove nothing, because numba-cuda imports some of them with compiled
    # kernels.
    jit = getattr(sys.modules.get("numba.cuda"), "jit", None)
    if getattr(jit, "__module__", "").startswith("numba.cuda.simulator"):
        raise SimulatorError(
            f"because of {asked}, numba.cuda was imported as Numba's simulator, which the "
            "virtual GPU cannot replace afterwards: switch the simulator off and start Python "
            f"again ({mend})"
        )
    os.environ[VARIABLE] = "0"  # overrides the file, also in child processes
    for one in read:
        setattr(one, "ENABLE_CUDASIM", 0)  # noqa: B010  (no attribute that a type checker knows)
    return (
        f"{asked} selects Numba's simulator, but the virtual GPU, which runs the compiled "
        f"kernels, is used instead. To remove this warning, switch the simulator off ({mend})"
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
