"""Scripts that a notebook starts (``!python script.py``) find the virtual GPU as the notebook does.

Such a script is another process, in which ``activate()`` was not called. Where a Jupyter kernel
runs on the virtual GPU because there is no other, it puts ``startup/`` first on the ``PYTHONPATH``
of the processes that it starts. Each Python that has it there reads ``sitecustomize.py`` in it as
it starts (https://docs.python.org/3/library/site.html), which runs the ``sitecustomize`` that would
have been found without, and switches the virtual GPU on when a script imports what needs a GPU.

``VIRTUALGPU_SCRIPTS`` holds the environment whose Python is meant, ``sys.prefix``; set to 0, before
or in the notebook, it switches this off. ``python -I``, ``-E`` and ``-S`` read no such file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = str(Path(__file__).parent / "startup")
SWITCH = "VIRTUALGPU_SCRIPTS"


def reach() -> None:
    """Have the Pythons that this process starts find the virtual GPU, if it is a Jupyter kernel."""
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
    """Return True if this process is a Jupyter kernel; IPython in a terminal is none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _others() -> list[str]:
    """Return the other entries of ``PYTHONPATH``; an empty one, the current folder, is kept."""
    value = os.environ.get("PYTHONPATH")
    return [one for one in value.split(os.pathsep) if one != FOLDER] if value else []
