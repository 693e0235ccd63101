"""Detector of kernels whose result may depend on the order of their blocks without a race.

The blocks of such a kernel run one after the other on one core, so that the same launch always
gives the same bits. These kernels contain atomic sums of floats (another order rounds
differently), atomics whose old value is used (a ticket, an index in a list), exchanges, loads that
may see another block's stores, or printing. Sums and extremes of integers are the same in any
order.
"""

from __future__ import annotations

from virtualgpu.native.flow import spin_loops
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.flow.decode import IntrinsicCall
from virtualgpu.program.site import Site
from virtualgpu.program.steps import MemoryAccess, Step

COMMUTATIVE = {"add", "and", "or", "xor", "min", "max"}


def is_commutative(site: Site) -> bool:
    """Return True if such atomics leave the same memory in any order."""
    return site.operation in COMMUTATIVE and site.dtype.kind in "iu"


def is_ordered(places: list[Place], steps: list[list[Step]]) -> bool:
    """Return True if a kernel's blocks have to run in order."""
    used = spin_loops.used_registers(places, steps)
    if any(isinstance(step, IntrinsicCall) for some in steps for step in some):
        return True
    for step in (step for some in steps for step in some if isinstance(step, MemoryAccess)):
        if step.site.space in ("shared", "local"):
            continue
        if step.site.kind == "load" and step.site.strong:
            return True
        if step.site.kind == "atomic" and (
            not is_commutative(step.site) or used & set(step.writes)
        ):
            return True
    return False
