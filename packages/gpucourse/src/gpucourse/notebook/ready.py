"""Kernels are ready before ``%load_ext gpucourse``: in a notebook of one's own, after a restart.

``ipython/ipython_kernel_config.py``, installed into the environment's ``etc/ipython``, has every
IPython kernel there load this. Nothing else is imported for it until the first cell runs; that cell
already finds the stand-ins, ``numba.cuda`` on the virtual GPU and errors in twelve lines. It prints
nothing: which device answers is said by ``%load_ext gpucourse``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Have ``shell`` made ready just before its first cell runs."""

    def make_ready(info: object = None) -> None:
        from gpucourse.notebook import extension

        shell.events.unregister("pre_run_cell", make_ready)
        extension.make_ready(shell)

    shell.events.register("pre_run_cell", make_ready)
