"""Entry point of ``python -m virtualgpu``, which does the same as the command ``virtualgpu``."""

import sys

from virtualgpu.cli import main

sys.exit(main())
