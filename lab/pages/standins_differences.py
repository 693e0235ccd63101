"""Differences between a stand-in and its original: the one list, each with its test.

Names that a stand-in *lacks* are not here: they raise NotImplementedError with the name, and
``docs/standins.md`` lists the names. :mod:`.standins_page` writes that page from this list and
from the packages themselves.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """One thing that is not as in the original.

    Attributes
    ----------
    package : str
        The original: ``cupy``, ``pycuda``, ``cudf`` or ``awkward``.
    what : str
        The name or the subject.
    original, here : str
        What the original does, and what the stand-in does.
    test : str
        ``file::function`` under ``tests``: shows what happens here.
    """

    package: str
    what: str
    original: str
    here: str
    test: str


_CUPY = [
    (
        "times",
        "`get_elapsed_time` gives milliseconds",
        "NaN, and a warning the first time: no GPU ran",
        "test_standins_differences.py::test_events_have_no_times",
    ),
    (
        "`cupyx.profiler.benchmark`",
        "times of the CPU and of the GPU",
        "times of the CPU; those of the GPU are NaN",
        "test_standins_differences.py::test_benchmark_has_no_gpu_times",
    ),
    (
        "random numbers",
        "cuRAND's streams",
        "NumPy's: a seed repeats them, the distributions are the same, the numbers are not",
        "test_standins_differences.py::test_random_numbers_are_of_another_stream",
    ),
    (
        "the last digits of sums, products of matrices and transforms",
        "rounded in the order in which a GPU's threads work",
        "rounded as NumPy does on the host",
        "test_standins_differences.py::test_sums_round_as_on_the_host",
    ),
    (
        "`cupyx.jit.rawkernel`",
        "CuPy's own compiler, to CUDA C++; types as in C++, or as NumPy's by `mode`",
        "`numba.cuda` compiles the function, whose names are rewritten; types are Numba's",
        "test_cupyx_jit.py::test_a_loop_over_the_grid",
    ),
    (
        "arrays of several devices in one operation",
        "computed where the devices have peer access to each other",
        "ValueError: there is no peer access; `cupy.asarray(array)` copies",
        "test_cupy_several.py::test_cupy_s_devices",
    ),
    (
        "streams",
        "work of several streams overlaps, and the host runs ahead",
        "everything is done when the call returns: a missing synchronisation does not show",
        "test_standins_differences.py::test_work_is_done_when_the_call_returns",
    ),
    (
        "memory that was never written",
        "`empty` shows what was there before",
        "`empty` shows 0xFE in every byte (int32 −16843010), never a lucky zero",
        "test_standins_differences.py::test_fresh_memory_is_poisoned",
    ),
    (
        "`a[i] = values` with repeated indices",
        "which of the values stays is undefined",
        "the last one",
        "test_cupy_differences.py::test_one_of_the_values_for_a_repeated_index_is_stored",
    ),
    (
        "`%` and `divmod` of floats",
        "`x - floor(x / y) * y`, whose last two steps a GPU may take in one",
        "each step rounded, as the virtual GPU runs the same CUDA C++",
        "test_cupy_casting.py::test_floor_division_and_remainder_are_cupys_kernels",
    ),
    (
        "lists and NumPy arrays where an array of the device belongs",
        "TypeError or AttributeError, depending on the function",
        "TypeError that names the type",
        "test_cupy_differences.py::test_lists_are_refused_by_type",
    ),
    (
        "`linalg.inv` and `linalg.solve` of a singular matrix",
        "cuSOLVER's intermediate values",
        "NaN; neither raises",
        "test_cupy_differences.py::test_singular_matrices_raise_nothing",
    ),
    (
        "`vectorize`",
        "translates the function to CUDA, and knows a part of Python",
        "Python itself runs it for each element: no proof that CuPy can translate it",
        "test_cupy_cuda.py::test_vectorize_and_polynomials",
    ),
    (
        "DLPack",
        "capsules of CUDA memory for other libraries",
        'a copy on the host (`device="cpu"`); of device memory for those who ask with `stream=-1`, '
        "as cuTile and `cuda.core` do; else BufferError: no other library has a driver here",
        "test_cupy_cuda.py::test_dlpack_to_the_host_is_a_copy",
    ),
    (
        "where arrays lie in a pool",
        "side by side in blocks of 512 bytes",
        "apart, with guard zones; `used_bytes`, `total_bytes` and `free_bytes` are CuPy's",
        "test_cupy_memory.py::test_a_larger_block_is_split_and_joined_again",
    ),
    (
        "array work on memory that was never written",
        "compute-sanitizer's initcheck sees CuPy's own kernels too",
        "`check()` watches your own kernels; reads by array work are not found",
        "test_cupy_arrays.py::test_array_work_on_unwritten_memory_is_not_found",
    ),
    (
        "accesses beyond the end in a kernel",
        "wrong values, or an error without a line",
        "an error with the source line, the block and the thread",
        "test_standins_walk.py::test_without_a_guard_the_last_block_is_caught_beyond_the_end",
    ),
    (
        "textures and surfaces (`cupy.cuda.texture`)",
        "there are sRGB, cube maps and gathers",
        "none of these; what is undefined on a GPU is an error with the line, "
        "the block and the thread",
        "test_cupy_textures.py::test_errors_name_line_and_thread",
    ),
    (
        "what was launched",
        "a profiler shows it",
        "`virtualgpu.launches()` lists the kernels that CuPy would have launched",
        "test_standins_walk.py::test_the_formula_is_nine_passes_in_numpy_and_nine_kernels_in_cupy",
    ),
    (
        "arguments of a `RawKernel` that are not what it declares",
        "not checked: wrong numbers, or an error elsewhere",
        "not checked, except that too few raise; `virtualgpu.check()` reports each",
        "test_cupy_kernels_raw.py::test_an_array_of_another_type_is_a_finding",
    ),
    (
        "`fuse`",
        "also fuses several reductions and functions that are no ufuncs",
        "ufuncs, `where`, `astype` and one `sum`, `prod`, `max` or `min` at the end",
        "test_cupy_kernels_fused.py::test_what_cannot_be_fused_is_named",
    ),
    (
        "`RawModule(path=...)`",
        "cubin and PTX",
        "PTX",
        "test_cupy_kernels_raw.py::test_modules_from_files",
    ),
    (
        "`RawKernel(backend='nvcc')` and `jitify=True`",
        "nvcc compiles; Jitify finds host headers",
        "NVRTC compiles, with the C library's headers at hand",
        "test_cupy_kernels_raw.py::test_host_headers_with_nvcc_or_jitify",
    ),
    (
        "`cupyx.profiler.benchmark` without `max_duration`",
        "`n_repeat` calls, however long",
        "stops after 10 s",
        "test_cupy_kernels_cupyx.py::test_a_benchmark_ends_when_its_time_is_up",
    ),
]

_PYCUDA = [
    (
        "the compiler",
        "nvcc, which must be installed with a C++ compiler",
        "NVRTC: nothing to install; host code in the source is refused",
        "test_standins_differences.py::test_sources_are_for_the_device_alone",
    ),
    (
        "times",
        "`Event.time_till` gives milliseconds",
        "NaN",
        "test_standins_differences.py::test_pycuda_events_have_no_times",
    ),
    (
        "arguments of a kernel that are not what it declares",
        "not checked: wrong numbers, or an error elsewhere",
        "not checked, except that too few raise; `virtualgpu.check()` reports each",
        "test_pycuda_driver.py::test_arguments_that_do_not_fit_are_findings",
    ),
    (
        "a kernel's access outside its arrays",
        "`LogicError` at a later call, and the context is lost",
        "`LogicError` at the launch, with line, block and thread; work can go on",
        "test_pycuda_driver.py::test_out_of_bounds",
    ),
    (
        "`compile` and `module_from_buffer`",
        "cubin, PTX and fatbin",
        "PTX",
        "test_pycuda_driver.py::test_options_of_nvcc",
    ),
    (
        "`curandom`",
        "cuRAND's streams",
        "NumPy's: the same distributions, other numbers",
        "test_pycuda_arrays.py::test_random_numbers",
    ),
    (
        "page-locked host arrays",
        "cannot be paged out, copy faster, may be mapped",
        "ordinary arrays; `managed_empty` is shared with kernels",
        "test_pycuda_driver.py::test_host_arrays",
    ),
    (
        "`DeviceMemoryPool`",
        "rounds sizes up to bins",
        "reuses a freed block only for the same size",
        "test_pycuda_driver.py::test_pools",
    ),
    (
        "`gpuarray.take` outside the array",
        "arbitrary values",
        "`IndexError`",
        "test_pycuda_arrays.py::test_choosing_elements",
    ),
]

_CUDF = [
    (
        "where results lie",
        "every column lies in device memory",
        "columns made from device arrays share them; results of table work are NumPy's until a "
        "kernel, CuPy or `.values` asks for them, and are on the device from then on",
        "test_cudf.py::test_results_move_to_the_device_once",
    ),
    (
        "`groupby` without `sort=True`",
        "groups in any order, another one each time",
        "groups in the order in which they first appear",
        "test_cudf.py::test_groups_are_not_sorted_unless_asked",
    ),
    (
        "NaN in a column that also has nulls",
        "NaN and `<NA>` are two things",
        "arithmetic on such a column makes `<NA>` of NaN; without nulls NaN stays NaN",
        "test_cudf.py::test_nan_beside_nulls_becomes_null",
    ),
    (
        "`apply` where a value is null",
        "the compiled function sees the null, and may ask `x is cudf.NA`",
        "Python calls it with the null, on the host; all else is compiled",
        "test_cudf.py::test_a_function_sees_nulls_and_may_give_them",
    ),
    (
        "`apply` on text",
        "some string methods compile",
        "Python itself runs the function: no proof that cuDF can compile it",
        "test_cudf.py::test_a_function_of_texts",
    ),
    (
        "lists and structs in columns, `str.split` without `expand=True`",
        "column types of their own",
        "refused with what to use",
        "test_cudf.py::test_what_is_missing_says_what_to_use",
    ),
    (
        "`cudf.pandas`",
        "runs pandas code on the GPU, falls back to pandas for the rest",
        "reports that everything runs on pandas",
        "test_cudf.py::test_cudf_pandas_says_that_pandas_runs",
    ),
    (
        "`cudf.datasets`",
        "random tables",
        "random tables with other numbers",
        "test_cudf.py::test_made_up_tables",
    ),
]

_AWKWARD = [
    (
        "operations on the CUDA backend",
        "Awkward's CUDA kernels, and cuda.compute for reducers",
        "Awkward's CPU kernels on the virtual GPU's memory: the same results, no launches",
        "test_awkward_cuda.py::test_operations_launch_no_kernels",
    ),
    (
        "errors of operations",
        "at the next synchronisation",
        "at once",
        "test_awkward_cuda.py::test_errors_come_when_they_happen",
    ),
    (
        "`ak.to_cudf`, `ak.from_cudf`",
        "columns of cuDF",
        "Awkward needs pylibcudf, which cuDF's stand-in lacks: use `ak.to_dataframe` and "
        "`cudf.from_pandas`, or by `ak.to_cupy`",
        "test_awkward_cuda.py::test_columns_of_cudf_are_out_of_reach",
    ),
]

DIFFERENCES = [
    Difference(package, *row)
    for package, rows in (
        ("cupy", _CUPY),
        ("pycuda", _PYCUDA),
        ("cudf", _CUDF),
        ("awkward", _AWKWARD),
    )
    for row in rows
]
