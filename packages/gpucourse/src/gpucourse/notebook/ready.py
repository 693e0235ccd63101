"""The extension, loaded before ``%load_ext gpucourse``: in the user's notebooks, after restarts.

The Jupyter server has the kernels load this that it starts in the course's folder
(:mod:`gpucourse.notebook.server`); ``GPUCOURSE_READY=0`` switches it off. Nothing else is imported
for it until the first cell runs; that cell already finds the stand-ins, ``numba.cuda`` on the
virtual GPU and errors in twelve lines. It prints nothing: which device answers is said by
``%load_ext gpucourse``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Have ``shell`` made ready just before its first cell runs."""
    if os.environ.get("GPUCOURSE_READY") == "0":
        return

    def make_ready(info: object = None) -> None:
        from gpucourse.notebook import extension

        shell.events.unregister("pre_run_cell", make_ready)
        extension.make_ready(shell)

    shell.events.register("pre_run_cell", make_ready)
