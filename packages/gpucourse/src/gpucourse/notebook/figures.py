"""Colours of Matplotlib figures on a page in JupyterLab's dark theme.

A kernel does not know the theme. It is in JupyterLab's settings, a file in the home directory that
the server and the kernels share, and is read before each cell. Elsewhere (on Colab, in VS Code,
with a theme that follows the system's) figures keep Matplotlib's colours.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import ModuleType

from gpucourse.views.picture import ON_DARK

#: File of the theme setting in the folder of JupyterLab's settings.
SETTING = Path("@jupyterlab/apputils-extension/themes.jupyterlab-settings")
PAPER = "#111111"  # value of JupyterLab's --jp-layout-color0 in the dark theme
DARK = {
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    **dict.fromkeys(
        (
            "text.color",
            "axes.labelcolor",
            "axes.edgecolor",
            "xtick.color",
            "ytick.color",
            "patch.edgecolor",
            "boxplot.flierprops.color",
            "boxplot.boxprops.color",
            "boxplot.whiskerprops.color",
            "boxplot.capprops.color",
            "hatch.color",
        ),
        ON_DARK,
    ),
    "grid.color": "#555555",
}
_before: dict[str, object] = {}  # the values that DARK has replaced; empty on a light page


def follow_theme(matplotlib: ModuleType | None = None) -> None:
    """Give new figures the colours of the page, if Matplotlib is imported."""
    matplotlib = matplotlib or sys.modules.get("matplotlib")
    if matplotlib is None or not hasattr(matplotlib, "rcParams") or is_dark() == bool(_before):
        return
    if _before:
        undo()
    else:
        _before.update((name, matplotlib.rcParams[name]) for name in DARK)
        matplotlib.rcParams.update(DARK)


def undo() -> None:
    """Restore Matplotlib's own colours, except for values that were changed since."""
    for name, value in _before.items():
        if sys.modules["matplotlib"].rcParams[name] == DARK[name]:
            sys.modules["matplotlib"].rcParams[name] = value
    _before.clear()


def is_dark() -> bool:
    """Return True if the user has chosen a dark theme in JupyterLab."""
    from jupyter_core.paths import jupyter_config_dir

    folder = Path(
        os.environ.get("JUPYTERLAB_SETTINGS_DIR")
        or Path(jupyter_config_dir(), "lab", "user-settings")
    )
    try:
        text = (folder / SETTING).read_text(encoding="utf-8")
    except OSError:
        return False
    chosen = re.search(r'^\s*"theme"\s*:\s*"([^"]*)"', text, re.MULTILINE)
    return chosen is not None and "dark" in chosen[1].lower()
