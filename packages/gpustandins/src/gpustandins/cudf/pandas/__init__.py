"""``cudf.pandas`` without a GPU: everything runs on pandas, and it says so.

The original runs each operation of pandas on the GPU where cuDF has it, and falls back to pandas
where not. Without a GPU all of it falls back, so there is nothing to install.
"""

from __future__ import annotations

import warnings

from gpustandins import only_as

only_as("cudf.pandas", __name__)

NOTE = (
    "cudf.pandas: there is no GPU here, so every operation of pandas runs on pandas itself, on "
    "the CPU; the same code uses the GPU where there is one"
)
LOADED = False


def install() -> None:
    """Say that pandas stays pandas."""
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
        print("cudf.pandas: 0 operations on the GPU, all of them on the CPU (no GPU here)")
        return result.result

    return profile
