"""All labelled kernels: importing this registers each."""

from labelled import (  # noqa: F401
    async_cases,
    clean_cases,
    cluster_cases,
    cuda_cases,
    fault_cases,
    global_races,
    order_cases,
    shared_races,
    tensor_cases,
    warp_cases,
)
from labelled.catalog import CASES, KINDS

#: Of the random orders in which each runs.
SEEDS = range(10)

__all__ = ["CASES", "KINDS", "SEEDS"]
