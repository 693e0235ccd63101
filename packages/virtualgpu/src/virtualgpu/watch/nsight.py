"""Nsight Compute (``ncu``) metrics that correspond to this package's counters.

The names are those of Nsight Compute 2021 to 2025. Its Profiling Guide explains their parts: unit,
quantity, restriction and roll-up. A counter without an entry has no metric that is known to count
the same.
"""

from __future__ import annotations

_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_SHARED = "l1tex__data_{}_mem_shared_op_{}.sum"

#: Counter of :class:`~virtualgpu.watch.counters.Counters` → the metrics whose sum it is.
METRICS: dict[str, tuple[str, ...]] = {
    "global_load_requests": (_GLOBAL.format("requests", "ld"),),
    "global_load_sectors": (_GLOBAL.format("sectors", "ld"),),
    "global_store_requests": (_GLOBAL.format("requests", "st"),),
    "global_store_sectors": (_GLOBAL.format("sectors", "st"),),
    # An atomic whose old value is not used is a reduction.
    "global_atomic_requests": (
        _GLOBAL.format("requests", "atom"),
        _GLOBAL.format("requests", "red"),
    ),
    "shared_load_wavefronts": (_SHARED.format("pipe_lsu_wavefronts", "ld"),),
    "shared_store_wavefronts": (_SHARED.format("pipe_lsu_wavefronts", "st"),),
    "shared_load_conflicts": (_SHARED.format("bank_conflicts_pipe_lsu", "ld"),),
    "shared_store_conflicts": (_SHARED.format("bank_conflicts_pipe_lsu", "st"),),
    "divergent_branches": ("smsp__sass_branch_targets_threads_divergent.sum",),
    "warp_instructions": ("smsp__inst_executed.sum",),
    "thread_instructions": ("smsp__thread_inst_executed.sum",),
}

#: Counted on PTX here and on SASS there. The numbers differ, but the ratio of two kernels differs
#: much less.
OF_INSTRUCTIONS = frozenset({"divergent_branches", "warp_instructions", "thread_instructions"})
