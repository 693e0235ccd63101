"""Kernels of this environment know the course before a lesson's first cell has run.

``GPUCOURSE_READY=0`` in the environment switches it off.
"""

import os

c = get_config()  # noqa: F821  (IPython's own)

if os.environ.get("GPUCOURSE_READY") != "0":
    c.InteractiveShellApp.extensions.append("gpucourse.notebook.ready")
