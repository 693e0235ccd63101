"""Who learns alone sees the answers too: `make course` and Binder put this before hub/learner.

A learner on a hub does not: the projects may count there (docs/graded_class.md).
"""

import json
import os
import sys
from pathlib import Path

c = get_config()  # noqa: F821

_learner = Path(__file__).parents[1] / "learner" / "jupyter_server_config.json"
_hidden = json.loads(_learner.read_text(encoding="utf-8"))["ContentsManager"]["hide_globs"]
c.ContentsManager.hide_globs = [name for name in _hidden if name != "solutions"]

# `pip` and `gpucourse` in a terminal are those of the notebooks. Jupyter would start a login shell,
# whose settings begin PATH anew.
_shell = os.environ.get("SHELL") or "sh"
os.environ["COURSE_PROGRAMS"] = str(Path(sys.executable).parent)
_settings = ["--rcfile", str(Path(__file__).with_name("bashrc"))]
c.ServerApp.terminado_settings = {
    "shell_command": [_shell, *(_settings if Path(_shell).name == "bash" else [])]
}
