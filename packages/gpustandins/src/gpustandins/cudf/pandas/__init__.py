"""``cudf.pandas`` without a GPU: pandas computes everything, and a message says so.

The original runs each pandas operation on the GPU if cuDF supports it and on pandas otherwise.
Without a GPU, every operation runs on pandas, so ``install`` replaces nothing.
"""

from __future__ import annotations

import warnings

from gpustandins import only_as

only_as("cudf.pandas", __name__)

NOTE = (
    "cudf.pandas: this machine has no GPU, so pandas itself computes every operation on the CPU; "
    "on a machine with a GPU, the same code uses the GPU"
)
LOADED = False


def install() -> None:
    """Warn that pandas computes everything, because there is no GPU."""
    global LOADED
    LOADED = True
    warnings.warn(NOTE, UserWarning, stacklevel=2)


def load_ipython_extension(shell) -> None:
    """Load the extension, with ``%%cudf.pandas.profile`` and ``line_profile``."""
    global LOADED
    LOADED = True
    for magic in ("cudf.pandas.profile", "cudf.pandas.line_profile"):
        shell.register_magic_function(_profile(shell), "cell", magic)
    print(NOTE)


def _profile(shell):
    def profile(line: str, cell: str):
        result = shell.run_cell(cell)
        print("cudf.pandas: 0 operations on the GPU; all ran on the CPU (this machine has no GPU)")
        return result.result

    return profile
