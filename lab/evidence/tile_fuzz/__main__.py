"""Fuzz the virtual GPU with damaged bytecode of tile kernels.

``python -m lab.evidence.tile_fuzz --cases 100000`` runs cases 0 to 99,999 in worker processes and
writes ``lab/results/tile_fuzz.json`` as it goes; stopped and started again, it tries what failed
once more and goes on where it was. The bytes are cuTile's own, of ten kernels in four versions of
the bytecode, with one to four things done to them; what can still be read is launched. A failure is
an exception that is not one of ``virtualgpu.errors``, an error of the reader that names no offset,
or a worker that dies or hangs; the command ends with status 1 where there was one.
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
