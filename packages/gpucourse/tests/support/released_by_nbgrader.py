"""What stock nbgrader makes of an assignment, to compare ours with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpucourse.system.programs import search_path


def nbgrader_release(source: Path, name: str, folder: Path) -> Path:
    """What stock ``nbgrader generate_assignment`` makes of ``source``/NAME/NAME.ipynb."""
    folder.mkdir()
    options = [
        f"--CourseDirectory.root={folder}",
        f"--CourseDirectory.source_directory={source}",
        f"--db=sqlite:///{folder}/gradebook.db",
    ]
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", name, *options]
    environment = {**os.environ, "PATH": search_path()}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return folder / "release" / name / f"{name}.ipynb"
