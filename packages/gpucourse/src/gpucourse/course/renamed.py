"""Earlier names of lessons.

A learner's records, board, saved work and notebooks may still have them. A record under an earlier
name counts for the present lesson; new records have the present name.
"""

from __future__ import annotations

from pathlib import PurePosixPath

#: Present names of lessons by their earlier names.
LESSONS = {
    "20_first_steps": "01_first_steps",
    "01_why_gpus": "02_why_gpus",
    "05_numba_cuda": "06_numba_cuda",
    "06_thinking_in_threads": "06_numba_cuda",
    "21_memory_and_sharing": "11_memory_and_sharing",
    "18_thinking_in_warps": "12_thinking_in_warps",
    "03_cupy": "05_cupy",
    "02_pycuda": "04_pycuda",
    "04_compiling_python": "16_compiling_python",
    "07_random_numbers": "08_random_numbers",
    "08_jax": "09_jax",
    "19_jax_in_depth": "17_jax_in_depth",
    "09_cudf": "15_cudf",
    "22_scans_tiles_atomics": "14_scans_tiles_atomics",
    "11_one_problem_every_tool": "18_one_problem_every_tool",
    "17_a_port_done": "19_a_port_done",
    "12_more_than_one_gpu": "21_more_than_one_gpu",
    "16_blocks": "22_blocks",
    "14_kernel_detective": "23_kernel_detective",
    "13_write_your_own_jit": "24_write_your_own_jit",
    "09_pycuda": "04_pycuda",
    "08_cupy": "05_cupy",
    "03_numba_cuda": "06_numba_cuda",
    "04_thinking_in_threads": "06_numba_cuda",
    "05_trees_and_barriers": "07_trees_and_barriers",
    "11_random_numbers": "08_random_numbers",
    "12_jax": "09_jax",
    "17_awkward_and_the_z": "10_awkward_and_the_z",
    "06_memory_and_sharing": "11_memory_and_sharing",
    "07_thinking_in_warps": "12_thinking_in_warps",
    "15_scan": "13_scan",
    "16_scans_tiles_atomics": "14_scans_tiles_atomics",
    "14_cudf": "15_cudf",
    "10_compiling_python": "16_compiling_python",
    "13_jax_in_depth": "17_jax_in_depth",
    "20_more_than_one_gpu": "21_more_than_one_gpu",
    "21_blocks": "22_blocks",
    "22_kernel_detective": "23_kernel_detective",
    "23_write_your_own_jit": "24_write_your_own_jit",
    "24_pytorch_as_a_neighbour": "25_pytorch_as_a_neighbour",
}
_STREAMS = ("20_streams", frozenset({"pipeline", "race"}))
#: Lessons that were split: the second part, with the exercises and predictions that moved to it.
SPLIT = {
    "12_more_than_one_gpu": _STREAMS,
    "20_more_than_one_gpu": _STREAMS,
    "21_more_than_one_gpu": _STREAMS,  # its name has not changed
    "06_thinking_in_threads": (
        "07_trees_and_barriers",
        frozenset(
            {
                "fold",
                "block-max",
                "tree",
                "tree-broken",
                "tree-one-launch",
                "barrier-missing",
                "early-return",
                "barrier-in-if",
                "count",
            }
        ),
    ),
}


def today(id: str, part: str = "") -> str:
    """Return the present name of a lesson, or of the part that has this exercise or prediction."""
    second, parts = SPLIT.get(id, ("", frozenset()))
    return second if part in parts else LESSONS.get(id, id)


def lessons(id: str) -> list[str]:
    """Return the present lessons of a name, which are two for a split lesson's old notebook."""
    return [today(id), *(SPLIT[id][:1] if id in SPLIT and id in LESSONS else ())]


def path(name: str) -> str:
    """Return the present path of a notebook, given its earlier path."""
    known = PurePosixPath(name)
    if known.parent.name not in ("lectures", "solutions"):
        return name
    return known.with_stem(today(known.stem)).as_posix()
