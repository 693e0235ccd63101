"""Who learns alone sees the answers too: `make course` and Binder put this before hub/learner.

A learner on a hub does not: the projects may count there (docs/graded_class.md).
"""

import json
from pathlib import Path

c = get_config()  # noqa: F821

_learner = Path(__file__).parents[1] / "learner" / "jupyter_server_config.json"
_hidden = json.loads(_learner.read_text(encoding="utf-8"))["ContentsManager"]["hide_globs"]
c.ContentsManager.hide_globs = [name for name in _hidden if name != "solutions"]
