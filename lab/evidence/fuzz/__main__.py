"""Fuzz the virtual GPU with random and mutated PTX.

``python -m lab.evidence.fuzz --cases 1000000`` runs cases 0 to 999,999 in worker processes and
writes ``lab/results/fuzz.json`` continually. When it is stopped and started again, it repeats the
failed cases once and then continues where it was. ``--show NUMBER`` prints a case. Each of these
is a failure: an exception that is not one of ``virtualgpu.errors``, a worker that dies or hangs,
and a change of memory outside every allocation. After a failure the exit status is 1.
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
    # Each worker's leaks end with its process.
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
