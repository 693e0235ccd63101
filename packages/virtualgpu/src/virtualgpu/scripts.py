"""Virtual GPU for the scripts that a notebook starts (``!python script.py``).

Such a script is a separate process, in which ``activate()`` was not called. If a Jupyter kernel
runs on the virtual GPU because there is no real one, it puts ``startup/`` first on the
``PYTHONPATH`` of the processes that it starts. Each Python with this ``PYTHONPATH`` reads
``startup/sitecustomize.py`` as it starts (https://docs.python.org/3/library/site.html). That file
runs the ``sitecustomize`` module that Python would otherwise have found. It switches the virtual
GPU on when the script imports a package that needs a GPU.

``VIRTUALGPU_SCRIPTS`` holds the ``sys.prefix`` of the environment whose Python this applies to. If
it is set to 0, before or in the notebook, this is switched off. ``python -I``, ``-E`` and ``-S``
do not read the file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = str(Path(__file__).parent / "startup")
SWITCH = "VIRTUALGPU_SCRIPTS"


def reach() -> None:
    """Make Python processes that this Jupyter kernel starts find the virtual GPU.

    Do nothing if this process is not a Jupyter kernel.
    """
    if not in_a_kernel() or os.environ.get(SWITCH) == "0":
        return
    os.environ[SWITCH] = os.path.realpath(sys.prefix)
    os.environ["PYTHONPATH"] = os.pathsep.join([FOLDER, *_others()])


def withdraw() -> None:
    """Undo :func:`reach`."""
    if os.environ.get(SWITCH, "0") != "0":
        del os.environ[SWITCH]
    if FOLDER not in os.environ.get("PYTHONPATH", ""):
        return
    if others := _others():
        os.environ["PYTHONPATH"] = os.pathsep.join(others)
    else:
        del os.environ["PYTHONPATH"]


def in_a_kernel() -> bool:
    """Return True if this process is a Jupyter kernel, and not IPython in a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _others() -> list[str]:
    """Return the other entries of ``PYTHONPATH``, also an empty one, the current folder."""
    value = os.environ.get("PYTHONPATH")
    return [one for one in value.split(os.pathsep) if one != FOLDER] if value else []
