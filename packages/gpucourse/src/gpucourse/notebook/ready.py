"""Extension that prepares a kernel before ``%load_ext gpucourse``, also after a restart.

The Jupyter server makes every kernel in the course's folder load it
(:mod:`gpucourse.notebook.server`); ``GPUCOURSE_READY=0`` disables it. Nothing else is imported
until the first cell runs. This cell already finds the stand-ins, ``numba.cuda`` on the virtual
GPU, and errors in at most twelve lines. Nothing is printed, because ``%load_ext gpucourse`` prints
the device.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the preparation of ``shell``, which happens just before its first cell runs."""
    if os.environ.get("GPUCOURSE_READY") == "0":
        return

    def make_ready(info: object = None) -> None:
        from gpucourse.notebook import extension

        shell.events.unregister("pre_run_cell", make_ready)
        extension.make_ready(shell)

    shell.events.register("pre_run_cell", make_ready)
