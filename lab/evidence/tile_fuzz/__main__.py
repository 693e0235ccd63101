"""Fuzz the virtual GPU with damaged bytecode of tile kernels.

``python -m lab.evidence.tile_fuzz --cases 100000`` runs cases 0 to 99,999 in worker processes and
writes ``lab/results/tile_fuzz.json`` continually. When it is stopped and started again, it repeats
the failed cases once and then continues where it was. The bytecode is cuTile's own, for ten
kernels in four versions of the format, with one to four changes; whatever can still be read is
launched. Each of these is a failure: an exception that is not one of ``virtualgpu.errors``, an
error of the reader without an offset, and a worker that dies or hangs. After a failure the exit
status is 1.
"""

from __future__ import annotations

import sys

from lab.evidence import campaign

if __name__ == "__main__":
    sys.exit(
        campaign.main(
            "lab.evidence.tile_fuzz.worker",
            __doc__,
            "damaged Tile IR bytecode against the virtual GPU",
            "cases",
            100_000,
            chunk=5000,
        )
    )
