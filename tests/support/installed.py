"""Check that .venv has the packages in requirements/base.txt, before the tests run.

    .venv/bin/python tests/support/installed.py

The Makefile runs it before pytest, so it uses only the standard library. A package counts as
missing if it has no metadata, or if the first module in its metadata does not exist.
"""

from __future__ import annotations

import csv
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

LOCK = Path(__file__).parents[2] / "requirements" / "base.txt"
# A pin with a marker may be for another system.
PIN = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==\S+ \\$", re.MULTILINE)


def main() -> int:
    ours = sorted(path.parent.name for path in LOCK.parents[1].glob("packages/*/pyproject.toml"))
    names = [*PIN.findall(LOCK.read_text(encoding="utf-8")), *ours]
    missing = [name for name in names if not is_here(name)]
    if missing:
        others = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        print(
            f"{Path(sys.prefix).name} lacks {', '.join(missing[:3])}{others}. "
            f"Install everything anew: rm -rf {Path(sys.prefix).name} && make setup",
            file=sys.stderr,
        )
    return bool(missing)


def is_here(name: str) -> bool:
    """Return True if the distribution is installed and its first module exists."""
    try:
        distribution = Distribution.from_name(name)
    except PackageNotFoundError:
        return False
    for path, *_ in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
        if path.endswith(".py"):
            return Path(str(distribution.locate_file(path))).exists()
    return True


if __name__ == "__main__":
    sys.exit(main())
