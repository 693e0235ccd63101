"""Fuzz the virtual GPU with random and mutated PTX.

``python -m lab.evidence.fuzz --cases 1000000`` runs cases 0 to 999,999 in worker processes and
writes ``lab/results/fuzz.json`` as it goes; stopped and started again, it tries what failed
once more and goes on where it was. ``--show NUMBER`` prints a case. A failure is an exception that
is not one of ``virtualgpu.errors``, a worker that dies or hangs, or memory that changed outside
every allocation; the command ends with status 1 where there was one.
"""

from __future__ import annotations

import sys

from lab.evidence import campaign


def show(number: int) -> None:
    from lab.evidence.fuzz import worker

    case = worker.make(number)
    print(case.text)
    print({k: v for k, v in vars(case).items() if k != "text"}, file=sys.stderr)
    print(*worker.outcome(case, worker.Bench(), number), file=sys.stderr)


if __name__ == "__main__":
    # A worker's leaks are bounded by its life.
    sys.exit(
        campaign.main(
            "lab.evidence.fuzz.worker",
            __doc__,
            "random and mutated PTX against the virtual GPU",
            "cases",
            1_000_000,
            chunk=2000,
            show=show,
        )
    )
