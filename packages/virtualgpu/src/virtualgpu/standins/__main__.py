"""``python -m virtualgpu.standins FILE`` writes the page about the stand-ins."""

from __future__ import annotations

import sys
from pathlib import Path

from virtualgpu.standins.docs import page

if len(sys.argv) != 2:
    raise SystemExit("usage: python -m virtualgpu.standins docs/standins.md")
Path(sys.argv[1]).write_text(page(), encoding="utf-8")
