"""Where a stand-in does something other than its original: the one list, each with its test.

What a stand-in *lacks* is not here: it raises NotImplementedError with the name, and
``docs/standins.md`` lists the names. ``python -m virtualgpu.standins docs/standins.md`` writes that
page from this list and from the packages themselves.
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


_CUDF = [
    Difference(
        "cudf", "where results lie",
        "every column lies in device memory",
        "columns made from device arrays share them; results of table work are NumPy's until a "
        "kernel, CuPy or `.values` asks for them, and are on the device from then on",
        "test_cudf.py::test_results_move_to_the_device_once"),
    Difference(
        "cudf", "`groupby` without `sort=True`",
        "groups in any order, another one each time",
        "groups in the order in which they first appear",
        "test_cudf.py::test_groups_are_not_sorted_unless_asked"),
    Difference(
        "cudf", "NaN in a column that also has nulls",
        "NaN and `<NA>` are two things",
        "arithmetic on such a column makes `<NA>` of NaN; without nulls NaN stays NaN",
        "test_cudf.py::test_nan_beside_nulls_becomes_null"),
    Difference(
        "cudf", "`apply` with `x is cudf.NA`",
        "the function sees nulls and may ask",
        "nulls stay null without a call; a function that asks is refused by name",
        "test_cudf.py::test_what_is_missing_says_what_to_use"),
    Difference(
        "cudf", "`apply` on text",
        "some string methods compile",
        "refused: use the `.str` methods",
        "test_cudf.py::test_what_is_missing_says_what_to_use"),
    Difference(
        "cudf", "lists and structs in columns, `str.split` without `expand=True`",
        "column types of their own",
        "refused with what to use",
        "test_cudf.py::test_what_is_missing_says_what_to_use"),
    Difference(
        "cudf", "`cudf.pandas`",
        "runs pandas code on the GPU, falls back to pandas for the rest",
        "says that all of it runs on pandas",
        "test_cudf.py::test_cudf_pandas_says_that_pandas_runs"),
    Difference(
        "cudf", "`cudf.datasets`",
        "random tables",
        "random tables with other numbers",
        "test_cudf.py::test_made_up_tables"),
]

_AWKWARD = [
    Difference(
        "awkward", "operations on the CUDA backend",
        "Awkward's CUDA kernels, and cuda.compute for reducers",
        "Awkward's CPU kernels on the virtual GPU's memory: the same results, no launches",
        "test_awkward_cuda.py::test_operations_launch_no_kernels"),
    Difference(
        "awkward", "errors of operations",
        "at the next synchronisation",
        "at once",
        "test_awkward_cuda.py::test_errors_come_when_they_happen"),
]

DIFFERENCES = (*_CUDF, *_AWKWARD)
