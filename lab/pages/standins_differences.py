"""List of the differences between a stand-in and its original, each with its test.

Names that a stand-in *lacks* are not listed here, because they raise NotImplementedError with the
name and ``docs/standins.md`` lists them. :mod:`.standins_page` generates that page from this list
and from the packages themselves.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Difference between a stand-in and its original.

    Attributes
    ----------
    package : str
        The name of the original: ``cupy``, ``pycuda``, ``cudf`` or ``awkward``.
    what : str
        The name or the subject.
    original, here : str
        What the original does, and what the stand-in does.
    test : str
        The test that shows the behaviour here, as ``file::function`` under ``tests``.
    """

    package: str
    what: str
    original: str
    here: str
    test: str


_CUPY = [
    (
        "times",
        "`get_elapsed_time` returns milliseconds",
        "it returns NaN and warns once, because no GPU ran",
        "test_standins_differences.py::test_events_have_no_times",
    ),
    (
        "`cupyx.profiler.benchmark`",
        "it returns CPU and GPU times",
        "it returns CPU times; the GPU times are NaN",
        "test_standins_differences.py::test_benchmark_has_no_gpu_times",
    ),
    (
        "random numbers",
        "cuRAND generates them",
        "NumPy generates them; a seed repeats them and the distributions are the same, but the "
        "numbers differ",
        "test_standins_differences.py::test_random_numbers_are_of_another_stream",
    ),
    (
        "the last digits of sums, matrix products and transforms",
        "they depend on the order in which the GPU's threads add",
        "they are NumPy's, computed on the host",
        "test_standins_differences.py::test_sums_round_as_on_the_host",
    ),
    (
        "`cupyx.jit.rawkernel`",
        "CuPy translates the function to CUDA C++; `mode` selects C++'s or NumPy's type rules",
        "`numba.cuda` compiles the function after renaming; types follow Numba's rules",
        "test_cupyx_jit.py::test_a_loop_over_the_grid",
    ),
    (
        "arrays of several devices in one operation",
        "it works if the devices have peer access to each other",
        "it raises ValueError, as there is no peer access; copy with `cupy.asarray(array)`",
        "test_cupy_several.py::test_cupy_s_devices",
    ),
    (
        "streams",
        "work of several streams overlaps, and the host runs ahead",
        "all work is done when a call returns, so a missing synchronisation has no effect",
        "test_standins_differences.py::test_work_is_done_when_the_call_returns",
    ),
    (
        "uninitialised memory",
        "`empty` returns memory with its previous contents",
        "every byte that `empty` returns is 0xFE (int32 −16843010), so it is never 0 by chance",
        "test_standins_differences.py::test_fresh_memory_is_poisoned",
    ),
    (
        "`a[i] = values` with repeated indices",
        "it is undefined which value remains",
        "the last value remains",
        "test_cupy_differences.py::test_one_of_the_values_for_a_repeated_index_is_stored",
    ),
    (
        "`%` and `divmod` of floats",
        "it is `x - floor(x / y) * y`, and a GPU may combine the last two steps into one",
        "each step is rounded, as when the virtual GPU runs the same CUDA C++",
        "test_cupy_casting.py::test_floor_division_and_remainder_are_cupys_kernels",
    ),
    (
        "lists and NumPy arrays in place of a device array",
        "they raise TypeError or AttributeError, depending on the function",
        "they raise a TypeError that names the type",
        "test_cupy_differences.py::test_lists_are_refused_by_type",
    ),
    (
        "`linalg.inv` and `linalg.solve` of a singular matrix",
        "they return cuSOLVER's intermediate values",
        "they return NaN and raise no error",
        "test_cupy_differences.py::test_singular_matrices_raise_nothing",
    ),
    (
        "`vectorize`",
        "CuPy translates the function to CUDA, and supports a part of Python",
        "Python itself calls it for each element, which does not prove that CuPy can translate it",
        "test_cupy_cuda.py::test_vectorize_and_polynomials",
    ),
    (
        "DLPack",
        "other libraries get capsules of CUDA memory",
        'with `device="cpu"` they get a copy on the host; with `stream=-1`, as cuTile and '
        "`cuda.core` pass, a capsule of device memory; otherwise a BufferError is raised, because "
        "no other library has a driver here",
        "test_cupy_cuda.py::test_dlpack_to_the_host_is_a_copy",
    ),
    (
        "the positions of arrays in a pool",
        "arrays are adjacent, in multiples of 512 bytes",
        "each array is separate, with guard zones; `used_bytes`, `total_bytes` and `free_bytes` "
        "are the same as in CuPy",
        "test_cupy_memory.py::test_a_larger_block_is_split_and_joined_again",
    ),
    (
        "array operations on uninitialised memory",
        "compute-sanitizer's initcheck also checks CuPy's own kernels",
        "`check()` checks only your own kernels, so it does not report reads by array operations",
        "test_cupy_arrays.py::test_array_work_on_unwritten_memory_is_not_found",
    ),
    (
        "accesses of a kernel beyond the end of an array",
        "they give wrong values, or an error without a line",
        "they raise an error with the source line, the block and the thread",
        "test_standins_walk.py::test_without_a_guard_the_last_block_is_caught_beyond_the_end",
    ),
    (
        "textures and surfaces (`cupy.cuda.texture`)",
        "sRGB, cube maps and gathers are supported",
        "these are not supported; behaviour that is undefined on a GPU raises an error with "
        "the line, the block and the thread",
        "test_cupy_textures.py::test_errors_name_line_and_thread",
    ),
    (
        "the launched kernels",
        "a profiler shows them",
        "`virtualgpu.launches()` lists the kernels that CuPy would have launched",
        "test_standins_walk.py::test_the_formula_is_nine_passes_in_numpy_and_nine_kernels_in_cupy",
    ),
    (
        "arguments of a `RawKernel` of another type or number than it declares",
        "they are not checked, which gives wrong numbers or an error elsewhere",
        "they are not checked, but too few raise an error; `virtualgpu.check()` reports each",
        "test_cupy_kernels_raw.py::test_an_array_of_another_type_is_a_finding",
    ),
    (
        "`fuse`",
        "it also fuses several reductions, and functions that are not ufuncs",
        "it fuses ufuncs, `where`, `astype` and one `sum`, `prod`, `max` or `min` at the end",
        "test_cupy_kernels_fused.py::test_what_cannot_be_fused_is_named",
    ),
    (
        "`RawModule(path=...)`",
        "it loads cubin and PTX files",
        "it loads only PTX files",
        "test_cupy_kernels_raw.py::test_modules_from_files",
    ),
    (
        "`RawKernel(backend='nvcc')` and `jitify=True`",
        "nvcc compiles, and Jitify finds host headers",
        "NVRTC compiles, and C library headers are available",
        "test_cupy_kernels_raw.py::test_host_headers_with_nvcc_or_jitify",
    ),
    (
        "`cupyx.profiler.benchmark` without `max_duration`",
        "it makes `n_repeat` calls, however long they take",
        "it stops after 10 s",
        "test_cupy_kernels_cupyx.py::test_a_benchmark_ends_when_its_time_is_up",
    ),
]

_PYCUDA = [
    (
        "the compiler",
        "nvcc compiles, and must be installed together with a C++ compiler",
        "NVRTC compiles, with nothing to install; it refuses host code in the source",
        "test_standins_differences.py::test_sources_are_for_the_device_alone",
    ),
    (
        "times",
        "`Event.time_till` returns milliseconds",
        "it returns NaN",
        "test_standins_differences.py::test_pycuda_events_have_no_times",
    ),
    (
        "arguments of a kernel of another type or number than it declares",
        "they are not checked, which gives wrong numbers or an error elsewhere",
        "they are not checked, but too few raise an error; `virtualgpu.check()` reports each",
        "test_pycuda_driver.py::test_arguments_that_do_not_fit_are_findings",
    ),
    (
        "a kernel's access outside its arrays",
        "a later call raises `LogicError`, and the context is lost",
        "the launch raises `LogicError` with the line, block and thread, and work can continue",
        "test_pycuda_driver.py::test_out_of_bounds",
    ),
    (
        "`compile` and `module_from_buffer`",
        "they support cubin, PTX and fatbin",
        "they support only PTX",
        "test_pycuda_driver.py::test_options_of_nvcc",
    ),
    (
        "`curandom`",
        "cuRAND generates the numbers",
        "NumPy generates them; the distributions are the same, but the numbers differ",
        "test_pycuda_arrays.py::test_random_numbers",
    ),
    (
        "page-locked host arrays",
        "they cannot be paged out, are copied faster and may be mapped",
        "they are ordinary arrays; kernels can access those of `managed_empty`",
        "test_pycuda_driver.py::test_host_arrays",
    ),
    (
        "`DeviceMemoryPool`",
        "it rounds sizes up to bins",
        "it reuses a freed block only for the same size",
        "test_pycuda_driver.py::test_pools",
    ),
    (
        "`gpuarray.take` outside the array",
        "it returns arbitrary values",
        "it raises `IndexError`",
        "test_pycuda_arrays.py::test_choosing_elements",
    ),
]

_CUDF = [
    (
        "the memory of results",
        "every column lies in device memory",
        "a column made from a device array shares its memory; other results are NumPy arrays until "
        "a kernel, CuPy or `.values` needs them, and lie on the device from then on",
        "test_cudf.py::test_results_move_to_the_device_once",
    ),
    (
        "`groupby` without `sort=True`",
        "the groups come in an arbitrary order, which may change each time",
        "the groups come in the order in which they first appear",
        "test_cudf.py::test_groups_are_not_sorted_unless_asked",
    ),
    (
        "NaN in a column that also has nulls",
        "NaN and `<NA>` are different",
        "arithmetic on such a column converts NaN to `<NA>`; without nulls NaN stays NaN",
        "test_cudf.py::test_nan_beside_nulls_becomes_null",
    ),
    (
        "`apply` for a null",
        "the compiled function gets the null, and may test `x is cudf.NA`",
        "Python calls the function with the null on the host; for other values it is compiled",
        "test_cudf.py::test_a_function_sees_nulls_and_may_give_them",
    ),
    (
        "`apply` on strings",
        "some string methods can be compiled",
        "Python itself runs the function, which does not prove that cuDF can compile it",
        "test_cudf.py::test_a_function_of_texts",
    ),
    (
        "lists and structs in columns, `str.split` without `expand=True`",
        "they have their own column types",
        "they raise an error that says what to use",
        "test_cudf.py::test_what_is_missing_says_what_to_use",
    ),
    (
        "`cudf.pandas`",
        "it runs pandas code on the GPU, and on pandas where cuDF does not support it",
        "it reports that everything runs on pandas",
        "test_cudf.py::test_cudf_pandas_says_that_pandas_runs",
    ),
    (
        "`cudf.datasets`",
        "it returns random tables",
        "it returns random tables with other numbers",
        "test_cudf.py::test_made_up_tables",
    ),
]

_AWKWARD = [
    (
        "operations on the CUDA backend",
        "Awkward's CUDA kernels compute them, and cuda.compute the reducers",
        "Awkward's CPU kernels compute them on the virtual GPU's memory; the results are the same, "
        "and nothing is launched",
        "test_awkward_cuda.py::test_operations_launch_no_kernels",
    ),
    (
        "errors of operations",
        "they are raised at the next synchronisation",
        "they are raised at once",
        "test_awkward_cuda.py::test_errors_come_when_they_happen",
    ),
    (
        "`ak.to_cudf`, `ak.from_cudf`",
        "they convert from and to cuDF columns",
        "they fail, because Awkward needs pylibcudf, which cuDF's stand-in lacks; use "
        "`ak.to_dataframe` with `cudf.from_pandas`, or `ak.to_cupy`",
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
