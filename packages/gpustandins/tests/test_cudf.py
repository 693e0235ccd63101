"""cuDF's stand-in: tables on the virtual GPU, and what cuDF refuses.

Above 500 lines: one table of a lesson serves all of it, from reading it to grouping and merging.
"""

from __future__ import annotations

import io
import math
import operator
import runpy
import signal
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import virtualgpu


@pytest.fixture(scope="module", autouse=True)
def stand_ins() -> Iterator[None]:
    virtualgpu.activate()
    yield
    virtualgpu.deactivate()


@pytest.fixture
def cudf(stand_ins):
    import cudf

    return cudf


@pytest.fixture
def cupy(stand_ins):
    import cupy

    return cupy


@pytest.fixture
def frame(cudf):
    """Six particles of three jets; one has no charge."""
    return cudf.DataFrame(
        {
            "jet": [2, 0, 2, 1, 0, 2],
            "px": [1.5, -2.0, 0.25, 4.0, 8.0, -1.0],
            "charge": [1, -1, None, 1, 1, -1],
            "kind": ["muon", "pion", "pion", None, "muon", "pion"],
        }
    )


# -- where data lie ---------------------------------------------------------------------------


def test_a_column_shares_the_memory_of_a_device_array(cudf, cupy):
    array = cupy.arange(5.0)
    series = cudf.Series(array)
    assert series.values.data.ptr == array.data.ptr
    assert cupy.asarray(series).data.ptr == array.data.ptr
    array[2] = 20
    assert series[2] == 20
    frame = cudf.DataFrame({"x": array, "n": cupy.arange(5)})
    assert frame["x"].to_cupy().data.ptr == array.data.ptr
    assert frame["x"].to_cupy(copy=True).data.ptr != array.data.ptr


def test_a_numba_kernel_writes_into_a_column(cudf):
    from numba import cuda

    frame = cudf.DataFrame({"x": cuda.to_device(np.arange(4.0)), "y": [0.0] * 4})

    @cuda.jit
    def double(source, target):
        i = cuda.grid(1)
        if i < source.size:
            target[i] = 2 * source[i]

    double[1, 32](frame["x"], frame["y"])
    assert frame["y"].to_numpy().tolist() == [0, 2, 4, 6]


def test_assignment_goes_into_the_same_memory(cudf, cupy):
    series = cudf.Series(cupy.arange(4.0))
    seen = series.values
    series[1] = 10
    series.iloc[2:] = -1
    assert seen.get().tolist() == [0, 10, -1, -1]


def test_inplace_methods_leave_shared_memory_alone(cudf, cupy):
    array = cupy.array([3.0, 1.0, 3.0])
    series = cudf.Series(array)
    series.drop_duplicates(inplace=True)
    assert series.to_numpy().tolist() == [3, 1]
    assert array.get().tolist() == [3, 1, 3]
    frame = cudf.DataFrame({"x": array})
    frame.sort_index(ascending=False, inplace=True)
    frame.loc[frame["x"] > 1, "x"] = 0
    assert frame["x"].to_numpy().tolist() == [0, 1, 0]
    assert array.get().tolist() == [3, 1, 3]


def test_methods_without_inplace_refuse_it(cudf):
    series = cudf.Series([-1, 2])
    for method in (series.abs, series.head, series.cumsum):
        with pytest.raises(TypeError, match="inplace"):
            method(inplace=True)
    assert series.to_numpy().tolist() == [-1, 2]


def test_a_shallow_copy_is_copied_on_the_first_write(cudf):
    series = cudf.Series([1, 2], index=["a", "b"])
    shallow = series.copy(deep=False)
    series["a"], shallow["b"] = 3, 4
    assert series.to_numpy().tolist() == [3, 2]
    assert shallow.to_numpy().tolist() == [1, 4]
    frame = cudf.DataFrame({"x": [1, 2]})
    frame.copy(deep=False).loc[0, "x"] = 5
    assert frame["x"].to_numpy().tolist() == [1, 2]


def test_a_column_taken_out_is_the_frame_s_column(cudf):
    frame = cudf.DataFrame({"x": [1, 2, 3]})
    column = frame["x"]
    column[0] = 10
    assert frame["x"][0] == 10
    column[3] = 40  # longer than the frame now: a column of its own
    assert len(column) == 4
    assert frame["x"].to_numpy().tolist() == [10, 2, 3]


def test_arithmetic_with_arrays_of_cupy_and_numpy(cudf, cupy):
    series = cudf.Series([1.0, 2.0])
    for other in (cupy.array([10.0, 20.0]), np.array([10.0, 20.0])):
        assert (series + other).to_numpy().tolist() == [11, 22]
    assert isinstance(np.array([10.0, 20.0]) + series, cudf.Series)
    # CuPy's operators take what offers device memory, and answer with an array of their own.
    assert isinstance(cupy.array([10.0, 20.0]) + series, cupy.ndarray)
    assert np.sqrt(cudf.Series([4.0, None])).to_pandas(nullable=True).tolist() == [2.0, pd.NA]
    assert np.sum(series) == 3


def test_a_matrix_of_columns_is_a_copy_in_order_f(cudf, frame):
    matrix = frame[["jet", "px"]].to_cupy()
    assert matrix.dtype == np.float64
    assert matrix.flags.f_contiguous
    assert matrix.get()[:, 0].tolist() == [2, 0, 2, 1, 0, 2]


def test_results_move_to_the_device_once(cudf, cupy):
    series = cudf.Series(cupy.arange(4.0)) + 1
    first = series.values
    assert series.values.data.ptr == first.data.ptr
    first[0] = -5
    assert series[0] == -5, "from then on the column is what lies on the device"


# -- nulls ------------------------------------------------------------------------------------


def test_integers_with_nulls_stay_integers(cudf, frame):
    charge = frame["charge"]
    assert charge.dtype == np.int64
    assert charge.null_count == 1
    assert charge[2] is cudf.NA
    assert repr(charge).splitlines()[2:] == [
        "2    <NA>",
        "3       1",
        "4       1",
        "5      -1",
        "Name: charge, dtype: int64",
    ]
    assert (charge + 1).to_pandas(nullable=True).tolist() == [2, 0, pd.NA, 2, 2, 0]
    assert charge.sum() == 1
    assert charge.mean() == pytest.approx(0.2)
    assert charge.fillna(0).dtype == np.int64


@pytest.mark.parametrize(
    ("make", "last"),
    [
        (lambda cudf: cudf.Series([1, None]), "dtype: int64"),
        (lambda cudf: cudf.Series(["a"], name="t"), "Name: t, dtype: object"),
        (lambda cudf: cudf.Series([True, None]), "dtype: bool"),
        (lambda cudf: cudf.Series([1.5], dtype="float32"), "dtype: float32"),
        (lambda cudf: cudf.Series([]), "Series([], dtype: object)"),
        (lambda cudf: cudf.Series(["a"], dtype="category"), "Categories (1, object): ['a']"),
        (lambda cudf: cudf.Index(["a", "b"]), "Index(['a', 'b'], dtype='object')"),
        (lambda cudf: cudf.Series([1, 2]).diff(), "dtype: int64"),
    ],
)
def test_dtypes_are_shown_by_their_names_in_cudf(make, last: str, cudf):
    assert repr(make(cudf)).splitlines()[-1] == last


def test_nan_becomes_null_unless_asked_not_to(cudf, cupy):
    values = cupy.array([1.0, np.nan])
    assert cudf.Series(values).null_count == 1
    kept = cudf.Series(values, nan_as_null=False)
    assert kept.null_count == 0
    assert np.isnan(kept[1])
    zero = cudf.Series([0.0, 1.0])
    assert (zero / zero).null_count == 0, "a NaN that arithmetic makes is no null"


def test_a_list_of_nan_alone_is_of_numbers(cudf):
    series = cudf.Series([np.nan], nan_as_null=False)
    assert series.dtype == np.float64
    assert series.sum() == 0


def test_what_is_computed_with_none_is_null(cudf):
    for series in (cudf.Series([1, 2]), cudf.Series([None, 1]), cudf.Series(["a", None])):
        assert (series == None).null_count == 2  # noqa: E711
        assert (cudf.NA != series).null_count == 2
    assert (cudf.Series([1, 2]) + None).null_count == 2


def test_nan_and_null_are_two_things_in_one_column(cudf):
    both = cudf.Series([1, np.nan, None, 3], nan_as_null=False)
    assert both.dtype == np.float64
    assert repr(both).splitlines()[:4] == ["0     1.0", "1     NaN", "2    <NA>", "3     3.0"]
    assert both.null_count == 1
    assert both.isna().to_numpy().tolist() == [False, True, True, False]
    assert both.mean() == 2
    assert both.count() == 2
    assert both.fillna(0).to_numpy().tolist() == [1, 0, 0, 3]
    assert len(both.dropna()) == 2
    assert both.nans_to_nulls().null_count == 2
    assert cudf.Series([1, np.nan], nan_as_null=False).null_count == 0
    assert cudf.Series([1, np.nan]).dtype == np.int64


def test_nan_of_arithmetic_becomes_null_when_asked(cudf):
    quotient = cudf.Series([0.0, 1.0]) / cudf.Series([0.0, 1.0])
    assert quotient.null_count == 0
    assert quotient.nans_to_nulls().null_count == 1
    assert quotient.null_count == 0, "the column itself is as it was"


def test_nan_beside_nulls_becomes_null(cudf):
    quotient = cudf.Series([0.0, 1.0, None]) / cudf.Series([0.0, 1.0, 1.0])
    assert quotient.null_count == 2


def test_a_comparison_with_a_null_is_null_and_selects_nothing(cudf, frame):
    positive = frame["charge"] > 0
    assert positive.dtype == np.bool_
    assert positive.null_count == 1
    assert frame[positive]["jet"].to_numpy().tolist() == [2, 1, 0]


def test_to_cupy_with_nulls(cudf, frame):
    charge = frame["charge"].to_cupy()
    assert charge.dtype == np.float64
    assert np.isnan(charge.get()[2])
    assert frame["charge"].to_cupy(na_value=0).dtype == np.int64
    with pytest.raises(ValueError, match=r"Column must have no nulls\."):
        (frame["charge"] > 0).to_cupy()


def test_a_join_adds_nulls_not_floats(cudf, frame):
    names = cudf.DataFrame({"jet": [0, 2], "seed": [7, 9]})
    joined = frame.merge(names, on="jet", how="left")
    assert joined["seed"].dtype == np.int64
    assert joined.sort_values("px")["seed"].to_pandas(nullable=True).tolist() == [
        7,
        9,
        9,
        9,
        pd.NA,
        7,
    ]


def test_to_pandas_makes_floats_of_integers_with_nulls(cudf, frame):
    host = frame.to_pandas()
    assert host["charge"].dtype == np.float64
    assert frame.to_pandas(nullable=True)["charge"].dtype == "Int64"
    back = cudf.from_pandas(frame.to_pandas(nullable=True))
    cudf.testing.assert_eq(back, frame)


# -- tables as pandas computes them -----------------------------------------------------------

PLAIN = {
    "jet": [2, 0, 2, 1, 0, 2],
    "px": [1.5, -2.0, 0.25, 4.0, 8.0, -1.0],
    "when": pd.date_range("2023-11-02 09:00", periods=6, freq="36h"),
    "kind": ["muon", "pion", "pion", "kaon", "muon", "pion"],
}

SAME = {
    "arithmetic": lambda df: df["px"] * 2 + df["jet"] - 1,
    "reflected": lambda df: 1 / (1 + df["px"] ** 2),
    "negative": lambda df: -df["px"],
    "absolute": lambda df: abs(df["px"]),
    "ufunc": lambda df: np.sqrt(df["px"] ** 2 + 1),
    "comparison": lambda df: df["px"] >= df["jet"],
    "logic": lambda df: (df["px"] > 0) & ~(df["jet"] == 2) | (df["px"] < -1),
    "filter": lambda df: df[df["px"] > 0],
    "query": lambda df: df.query("px > 0 and jet == 2"),
    "two columns": lambda df: df[["px", "jet"]],
    "attribute": lambda df: df.px,
    "slice": lambda df: df[1:4],
    "loc": lambda df: df.loc[2:4, ["px", "kind"]],
    "iloc": lambda df: df.iloc[::2],
    "head": lambda df: df.head(3),
    "sort": lambda df: df.sort_values(["jet", "px"], ascending=[True, False]),
    "sort_index": lambda df: df.sort_values("px").sort_index(),
    "set_index": lambda df: df.set_index("jet").sort_index(),
    "reset_index": lambda df: df[df["px"] > 0].reset_index(drop=True),
    "rename": lambda df: df.rename(columns={"px": "momentum"}),
    "drop": lambda df: df.drop(columns=["when"]),
    "assign": lambda df: df.assign(p2=lambda d: d["px"] ** 2),
    "group sum": lambda df: df.groupby("jet")[["px"]].sum().sort_index(),
    "group series": lambda df: df.groupby("jet")["px"].max().sort_index(),
    "group agg": lambda df: df.groupby("jet").agg({"px": ["min", "max"]}).sort_index(),
    "named aggregations": lambda df: df.groupby("jet", sort=True).agg(
        highest=("px", "max"), rows=("px", "size")
    ),
    "number in the group": lambda df: df.groupby("jet").cumcount(),
    "pairs of a group": lambda df: (
        df.merge(df, on="jet", suffixes=("1", "2"))
        .query("px1 < px2")
        .sort_values(["px1", "px2"], ignore_index=True)
    ),
    "group size": lambda df: df.groupby("jet").size().sort_index(),
    "group transform": lambda df: df.groupby("jet")["px"].transform("mean"),
    "group cumsum": lambda df: df.groupby("jet")["px"].cumsum(),
    "value_counts": lambda df: df["jet"].value_counts().sort_index(),
    "unique": lambda df: df["jet"].drop_duplicates(),
    "isin": lambda df: df["kind"].isin(["muon", "kaon"]),
    "where": lambda df: df["px"].where(df["px"] > 0, 0.0),
    "clip": lambda df: df["px"].clip(0, 2),
    "cumsum": lambda df: df["px"].cumsum(),
    "describe": lambda df: df["px"].describe(),
    "quantile": lambda df: df["px"].quantile([0.25, 0.75]),
    "correlation": lambda df: df[["jet", "px"]].corr(),
    "upper": lambda df: df["kind"].str.upper(),
    "contains": lambda df: df["kind"].str.contains("on"),
    "extract": lambda df: df["kind"].str.extract(r"^(.)(.*)$"),
    "replace": lambda df: df["kind"].str.replace("on", "ON", regex=False),
    "split": lambda df: df["kind"].str.split("o", expand=True),
    "hour": lambda df: df["when"].dt.strftime("%H"),
    "day floor": lambda df: df["when"].dt.floor("D"),
    "time difference": lambda df: df["when"] - df["when"].min(),
    "category": lambda df: df["kind"].astype("category").cat.codes,
    "astype": lambda df: df["px"].astype("float32"),
    "pivot": lambda df: df.pivot_table(
        index="jet", columns="kind", values="px", aggfunc="sum", fill_value=0.0
    ),
    "melt": lambda df: df.melt(id_vars="jet", value_vars=["px"]),
    "mean of columns": lambda df: df[["jet", "px"]].mean(),
    "transpose": lambda df: df[["jet", "px"]].T,
}


@pytest.mark.parametrize("name", SAME)
def test_results_are_those_of_pandas(name: str, cudf):
    compute = SAME[name]
    theirs = compute(pd.DataFrame(PLAIN))
    ours = compute(cudf.DataFrame(PLAIN))
    assert type(ours).__module__.split(".")[0] == "cudf"
    host = ours.to_pandas()
    loosely = {"check_dtype": False, "check_index_type": False, "check_freq": False}
    if isinstance(theirs, pd.DataFrame):
        pd.testing.assert_frame_equal(host, theirs, check_column_type=False, **loosely)
    else:
        pd.testing.assert_series_equal(host, theirs, **loosely)
        if theirs.dtype.kind in "biuf":
            assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("reduction", "sum mean min max std var median count nunique".split())
def test_reductions_are_numbers(reduction: str, cudf):
    ours = getattr(cudf.DataFrame(PLAIN)["px"], reduction)()
    assert ours == getattr(pd.DataFrame(PLAIN)["px"], reduction)()
    assert np.isscalar(ours)


def test_joins(cudf):
    left = cudf.DataFrame({"k": [1, 2, 3], "a": [10, 20, 30]})
    right = cudf.DataFrame({"k": [3, 1, 1], "b": ["x", "y", "z"]})
    inner = left.merge(right, on="k").sort_values(["k", "b"])
    assert inner["b"].to_pandas().tolist() == ["y", "z", "x"]
    assert len(cudf.merge(left, right, on="k", how="outer")) == 4
    indexed = left.set_index("k").join(right.set_index("k"), how="inner")
    assert sorted(indexed["a"].to_numpy()) == [10, 10, 30]


def test_unique_items_update_and_digitize(cudf):
    series = cudf.Series([3, 1, 3, None])
    assert isinstance(series.unique(), cudf.Series)
    assert series.unique().to_pandas(nullable=True).tolist() == [3, 1, pd.NA]
    frame = cudf.DataFrame({"a": [1, 2], "b": [3, 4]})
    for name, column in frame.items():
        assert isinstance(column, cudf.Series)
        assert column.name == name
    frame.update(cudf.DataFrame({"a": [10]}, index=[1]))
    assert frame["a"].to_numpy().tolist() == [1, 10]
    bins = cudf.Series([0.5, 1.5, 2.5]).digitize([1, 2])
    assert bins.dtype == np.int32
    assert bins.to_numpy().tolist() == [0, 1, 2]


def test_groups_go_through_functions_one_by_one_or_by_name(cudf, frame):
    def spread(group):
        return group["px"].max() - group["px"].min()

    assert frame.groupby("jet", sort=True).apply(spread).to_numpy().tolist() == [10.0, 0.0, 2.5]
    assert [(key, len(group)) for key, group in frame.groupby("jet", sort=True)] == [
        (0, 2),
        (1, 1),
        (2, 3),
    ]
    assert frame.groupby("jet", sort=True).px.max().to_numpy().tolist() == [8.0, 4.0, 1.5]
    totals = frame.groupby("jet", sort=True)["px"].agg([np.sum, "count"])
    assert totals["sum"].to_numpy().tolist() == [6.0, 4.0, 0.75]
    with pytest.raises(TypeError, match="cannot aggregate groups with the function"):
        frame.groupby("jet").agg(lambda column: column.sum())


def test_describe_takes_the_columns_of_numbers(cudf):
    table = cudf.DataFrame(PLAIN).describe()
    assert list(table.columns) == ["jet", "px"]
    assert table.loc["max", "px"] == 8.0
    assert cudf.Series(np.float32(2), index=[0, 1]).dtype == np.float32


def test_concat_and_new_columns(cudf, frame):
    both = cudf.concat([frame, frame[["jet", "px"]]], ignore_index=True)
    assert both.shape == (12, 4)
    assert both["jet"].dtype == np.int64
    assert both["charge"].dtype == np.int64
    assert both["charge"].null_count == 7
    frame["p2"] = frame["px"] ** 2
    frame["weight"] = 1.5
    assert list(frame.columns) == ["jet", "px", "charge", "kind", "p2", "weight"]
    assert frame["weight"].sum() == 9
    del frame["weight"]
    assert "weight" not in frame


def test_csv(cudf, frame, tmp_path):
    path = tmp_path / "particles.csv"
    frame.to_csv(path, index=False)
    read = cudf.read_csv(path)
    assert read["charge"].dtype == np.int64
    cudf.testing.assert_eq(read, frame)


def test_made_up_tables(cudf):
    table = cudf.datasets.randomdata(nrows=5, dtypes={"n": int, "name": str}, seed=1)
    assert table.shape == (5, 2)
    assert table["n"].dtype == np.int64
    again = cudf.datasets.randomdata(nrows=5, dtypes={"n": int, "name": str}, seed=1)
    cudf.testing.assert_eq(table, again)
    assert len(cudf.datasets.timeseries(end="2000-01-02", freq="1h")) == 25


def test_small_integers_are_divided_as_small_floats(cudf):
    quotient = cudf.Series([1, 2], dtype="int32") / 2
    assert quotient.dtype == np.float32
    assert (cudf.Series([1, 2], dtype="int64") / 2).dtype == np.float64


def test_groups_are_not_sorted_unless_asked(cudf, frame):
    assert cudf.DataFrame(PLAIN).groupby("jet")["px"].sum().index.to_pandas().tolist() == [2, 0, 1]
    sums = frame.groupby("jet", sort=True)["px"].sum()
    assert sums.index.to_pandas().tolist() == [0, 1, 2]
    assert sums.to_numpy().tolist() == [6.0, 4.0, 0.75]


def test_parts_of_dates_and_lengths_are_small_integers(cudf):
    when = cudf.Series(pd.date_range("2023-11-02", periods=2))
    assert when.dt.year.dtype == np.int16
    assert when.dt.day.to_numpy().tolist() == [2, 3]
    assert when.dt.quarter.dtype == np.int8
    assert when.dt.microsecond.dtype == np.int32
    assert (when - when).dt.seconds.dtype == np.int64
    assert cudf.Series(["a", "bcd"]).str.len().dtype == np.int32


# -- functions of the user --------------------------------------------------------------------


def test_apply_compiles_for_the_device(cudf):
    series = cudf.Series([1, 2, 3])

    def shifted(x, by):
        return x * 0.5 + by if x > 1 else -1.0

    assert series.apply(shifted, args=(10,)).to_numpy().tolist() == [-1.0, 11.0, 11.5]


def test_a_signal_while_apply_compiles_is_no_error_of_the_function(cudf, monkeypatch):
    def interrupted(*given, **named):
        signal.raise_signal(signal.SIGUSR1)

    def late(number, frame):
        raise TimeoutError

    monkeypatch.setattr("numba.cuda.compile", interrupted)
    before = signal.signal(signal.SIGUSR1, late)
    try:
        with pytest.raises(TimeoutError):
            cudf.Series([1.0]).apply(lambda x: x + 1)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(("always", "kind"), [(-1, "int64"), (0.5, "float64"), (True, "bool")])
def test_apply_takes_functions_that_give_the_same_always(always, kind: str, cudf):
    result = cudf.Series([1.0, 2.0]).apply(lambda x: always)
    assert result.dtype == kind
    assert result.to_numpy().tolist() == [always, always]
    assert cudf.Series([1.0]).apply(lambda x: -1).to_numpy().tolist() == [-1]


def test_apply_leaves_nulls_null(cudf):
    result = cudf.Series([1, None, 3]).apply(lambda x: x + 1)
    assert result.dtype == np.int64
    assert result.to_pandas(nullable=True).tolist() == [2, pd.NA, 4]


def test_a_function_sees_nulls_and_may_give_them(cudf):
    series = cudf.Series([1, None, 3])
    answers = {
        "asks": (lambda x: 42 if x is cudf.NA else x + 1, [2, 42, 4]),
        "takes no notice": (lambda x: 5, [5, 5, 5]),
        "compares": (lambda x: 1 if x > 2 else 2, [2, 2, 1]),  # a null is not larger
        "gives": (lambda x: cudf.NA if x > 2 else x, [1, pd.NA, pd.NA]),
        "calls": (lambda x: math.sqrt(x), [1, pd.NA, math.sqrt(3)]),
    }
    for function, expected in answers.values():
        assert series.apply(function).to_pandas(nullable=True).tolist() == expected
    # The type is that of both branches, whether there are nulls or not.
    assert cudf.Series([1]).apply(lambda x: 1.5 if x is cudf.NA else x).dtype == np.float64

    def larger(row):
        return row["b"] if row["a"] is cudf.NA else row["a"] * 2.5

    frame = cudf.DataFrame({"a": [1, None, 3], "b": [10, 20, None]})
    assert frame.apply(larger, axis=1).to_pandas(nullable=True).tolist() == [2.5, 20, 7.5]


def test_a_function_of_texts(cudf):
    def kind(text):
        if len(text) > 3:
            return 1 if text.startswith("a") else 2
        return 0

    texts = cudf.Series(["ab", "abcd", "bcde", None])
    assert texts.apply(kind).to_pandas(nullable=True).tolist() == [0, 1, 2, pd.NA]
    frame = cudf.DataFrame({"text": ["ab", "c"], "n": [1, 2]})
    lengths = frame.apply(lambda row: len(row["text"]) + row["n"], axis=1)
    assert lengths.to_numpy().tolist() == [3, 3]


def test_apply_takes_rows(cudf, frame):
    def signed(row):
        return row["px"] * row["charge"]

    result = frame.apply(signed, axis=1)
    assert result.null_count == 1
    assert result.fillna(0).to_numpy().tolist() == [1.5, 2.0, 0.0, 4.0, 8.0, 1.0]


def test_what_no_gpu_can_run_cannot_be_applied(cudf):
    def remembers(x):
        return {"value": x}["value"]

    for function in (remembers, np.ceil):
        with pytest.raises(ValueError, match=r"user defined function compilation f") as caught:
            cudf.Series([1.0]).apply(function)
        assert caught.value.__cause__ is not None


def test_apply_runs_on_the_virtual_gpu(cudf):
    with virtualgpu.profile() as profile:
        cudf.Series(np.arange(100.0)).apply(lambda x: x * x)
    assert len(profile.launches) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda cudf: cudf.Series(np.array([0], "M8[ns]")).apply(lambda x: x),
            r"applying a function to datetime64\[ns\] values",
        ),
        (lambda cudf: cudf.DataFrame({"a": [1]}).apply(lambda c: c, axis=0), "row wise ops"),
        (lambda cudf: cudf.Series(["a b"]).str.split(" "), "pass expand=True"),
        (lambda cudf: cudf.Series([[1, 2], [3]]), "columns of lists and structs"),
        (lambda cudf: cudf.set_option("mode.pandas_compatible", True), "is not in the stand-in"),
    ],
)
def test_what_is_missing_says_what_to_use(make, message: str, cudf):
    with pytest.raises(NotImplementedError, match=message):
        make(cudf)


# -- what cuDF refuses ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (
            lambda s: list(s),
            TypeError,
            "Series object is not iterable. Consider using `.to_arrow()`",
        ),
        (lambda s: [1 for _ in s.index], TypeError, "RangeIndex object is not iterable."),
        (
            lambda s: np.asarray(s),
            TypeError,
            "Implicit conversion to a host NumPy array via __array__",
        ),
        (lambda s: np.asarray(s.to_frame("x")), TypeError, "consider using .to_numpy()"),
        (lambda s: s.tolist(), TypeError, "cuDF does not support conversion to host memory"),
        (lambda s: s.to_frame("x").to_dict(), TypeError, "Consider using `.to_pandas().to_dict()`"),
        (lambda s: s.to_frame("x").iterrows(), TypeError, "iteration of DataFrame via iterrows"),
        (
            lambda s: s.to_frame("x").itertuples(),
            TypeError,
            "iteration of DataFrame via itertuples",
        ),
        (lambda s: s.items(), TypeError, "Series object is not iterable."),
        (lambda s: bool(s), TypeError, "is ambiguous"),
        (lambda s: s.to_numpy(copy=False), ValueError, "copy=False is not supported"),
        (lambda s: s.str, AttributeError, "Can only use .str accessor with string values"),
        (lambda s: s.dt, AttributeError, "Can only use .dt accessor with datetimelike values"),
        (lambda s: type(s)([1, "a"]), TypeError, "Cannot create column with mixed types"),
        (lambda s: type(s)([1j]), TypeError, "Unsupported type complex128"),
        (
            lambda s: (s * 0.5) & s,
            TypeError,
            "Operation 'bitwise and' not supported between float64",
        ),
        (lambda s: np.where(s > 1, 1, 0), TypeError, "no implementation found for 'numpy.where'"),
        (lambda s: type(s)([1.0, {1}]), TypeError, "Cannot create column with mixed types"),
        (lambda s: type(s)(np.zeros((2, 2))), ValueError, "Data must be 1-dimensional"),
        (lambda s: type(s)(np.zeros(2, np.float16)), TypeError, "Unsupported type float16"),
        (lambda s: type(s)(["a"]).values, TypeError, "cupy does not support object"),
    ],
)
def test_what_cudf_refuses_is_refused(refused, error, message: str, cudf):
    with pytest.raises(error) as caught:
        refused(cudf.Series([1, 2, 3]))
    assert message in str(caught.value)


def test_columns_are_of_equal_length(cudf):
    with pytest.raises(ValueError, match="All columns must be of equal length"):
        cudf.DataFrame({"a": [1, 2], "b": [1]})


@pytest.mark.parametrize(
    "name", ["Series.resample", "DataFrame.to_arrow", "DataFrame.hash_values", "cut", "Grouper"]
)
def test_missing_names_say_so(name: str, cudf):
    owner, _, attribute = name.rpartition(".")
    thing = {"Series": cudf.Series([1]), "DataFrame": cudf.DataFrame({"a": [1]}), "": cudf}[owner]
    with pytest.raises(NotImplementedError, match=rf"cudf\.{name} is not in the stand-in for cuDF"):
        getattr(thing, attribute)
    assert not hasattr(thing, attribute)


@pytest.mark.parametrize("name", ["momentums", "plot", "to_excel"])
def test_a_name_that_cudf_lacks_is_an_attribute_error(name: str, cudf):
    """Some of these are names of pandas."""
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
        getattr(cudf.Series([1]), name)
    assert not isinstance(caught.value, NotImplementedError)


def test_iterating_a_frame_gives_its_names(cudf, frame):
    assert list(frame) == ["jet", "px", "charge", "kind"]


# -- cudf.pandas ------------------------------------------------------------------------------


def test_cudf_pandas_says_that_pandas_runs(cudf):
    import cudf.pandas

    with pytest.warns(UserWarning, match="this machine has no GPU, so pandas itself computes"):
        cudf.pandas.install()
    assert cudf.pandas.LOADED
    assert pd.DataFrame({"a": [1]})["a"].sum() == 1


def test_the_cudf_pandas_extension(capsys: pytest.CaptureFixture[str]):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "cudf.pandas")
    assert "on the CPU" in capsys.readouterr().out
    shell.run_cell_magic("cudf.pandas.profile", "", "six = 2 * 3")
    assert shell.user_ns["six"] == 6
    assert "0 operations on the GPU" in capsys.readouterr().out


# -- random tables ----------------------------------------------------------------------------

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.eq]


@pytest.mark.parametrize("seed", range(5))
def test_random_columns_with_nulls_follow_pandas_masked_arrays(seed: int, cudf):
    random = np.random.default_rng(seed)
    kinds = ["Int64", "Float64", "Int32", "UInt8"]
    n = 40
    for left_kind in kinds:
        for right_kind in kinds:
            pair = [
                pd.Series(random.integers(1, 50, n))
                .astype(kind)
                .mask(pd.Series(random.random(n) < 0.2))
                for kind in (left_kind, right_kind)
            ]
            for operation in OPERATORS:
                theirs = operation(*pair)
                ours = operation(*(cudf.Series(one) for one in pair))
                gone = theirs.isna().to_numpy()
                assert ours.isna().to_numpy().tolist() == gone.tolist()
                np.testing.assert_allclose(
                    ours.to_pandas(nullable=True)[~gone].to_numpy(float),
                    theirs[~gone].to_numpy(float),
                    rtol=1e-6,
                )


def test_where_libraries_look_for_its_classes():
    """Datashader asks so of every column."""
    import cudf
    from cudf.core.dataframe import DataFrame
    from cudf.core.dtypes import CategoricalDtype, Decimal64Dtype, ListDtype
    from cudf.core.index import Index
    from cudf.core.series import Series

    assert (DataFrame, Series, Index) == (cudf.DataFrame, cudf.Series, cudf.Index)
    assert cudf.core.dtypes.CategoricalDtype is cudf.CategoricalDtype is CategoricalDtype
    assert isinstance(cudf.Series(["a"], dtype="category").dtype, CategoricalDtype)
    assert not isinstance(cudf.Series([1.5]).dtype, (CategoricalDtype, ListDtype, Decimal64Dtype))
    with pytest.raises(NotImplementedError, match=r"cudf.ListDtype is not in the stand-in"):
        ListDtype(int)


# --- where cuDF is not pandas -----------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda cudf: cudf.DataFrame(np.arange(4).reshape(2, 2), columns=["A", "A"]),
        lambda cudf: cudf.DataFrame({"A": [1]}, columns=["A", "A"]),
        lambda cudf: cudf.from_pandas(pd.DataFrame(np.ones((1, 2)), columns=["a", "a"])),
        lambda cudf: cudf.concat([cudf.DataFrame({"k": [1]}), cudf.DataFrame({"k": [2]})], axis=1),
        lambda cudf: setattr(cudf.DataFrame({"a": [1], "b": [2]}), "columns", ["x", "x"]),
    ],
)
def test_a_column_has_a_name_of_its_own(make):
    """One of the two was kept, or lost, without a word."""
    import cudf

    with pytest.raises(ValueError, match="Duplicate column names are not allowed"):
        make(cudf)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (
            lambda s, f: s.sort_values(inplace=True),
            r"Series\.sort_values .*inplace=True \(only",
        ),
        (
            lambda s, f: f.sort_values("a", key=abs),
            "key=<built-in .* neither on a GPU",
        ),
        (lambda s, f: f.sort_values("a", 1), r"axis=1 \(only axis=0"),
        (lambda s, f: f.sort_index(key=abs), "sort_index does not accept key="),
        (lambda s, f: s.fillna(0, limit=1), "limit=1"),
        (lambda s, f: s.interpolate("spline", order=2), r"'spline' \(only method='linear' or"),
        (lambda s, f: f.merge(f, indicator=True), r"indicator=True \(only indicator=False"),
        (lambda s, f: f.merge(f, on="a", validate="1:1"), "validate='1:1'"),
        (lambda s, f: f.join(f, on="a", lsuffix="_"), "on='a'"),
        (lambda s, f: f.rank(axis="columns"), r"axis='columns' \(only axis=0"),
        (lambda s, f: f.corr("kendall"), r"'kendall' \(only method='pearson' or"),
        (lambda s, f: s.add(s, level=0), "level=0"),
        (lambda s, f: s.shift(1, freq="D"), "freq='D'"),
        (lambda s, f: f.pivot_table(index="a", margins=True), "margins=True"),
        (lambda s, f: f.groupby("a", observed=False), "observed=False"),
        (lambda s, f: f.groupby("a").corr(method="spearman"), r"groupby\(\.\.\.\)\.corr"),
        (lambda s, f: s.astype(str).str.match("A", case=False), r"Series\.str\.match .*case=False"),
        (lambda s, f: s.astype(str).str.contains("A", case=False), "only supported when"),
        (lambda s, f: s.astype(str).str.wrap(3), r"Series\.str\.wrap is not in the stand-in"),
        (lambda s, f: f.agg(lambda one: one), "callable parameter"),
        (lambda s, f: f.agg({"a": max}), "callable parameter"),
        (lambda s, f: f.agg("sum", axis=1), "axis not implemented"),
        (lambda s, f: f.assign(t="x").agg("max"), "containing string columns"),
        (lambda s, f: f.assign(b=[1, None]).cov(), "cov does not support nulls"),
    ],
)
def test_arguments_that_pandas_alone_takes_are_refused(cudf, use, words):
    with pytest.raises(NotImplementedError, match=words):
        use(cudf.Series([1, 2]), cudf.DataFrame({"a": [1, 2], "b": [3.0, 4]}))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda cudf: cudf.date_range("2020", periods=2, tz="UTC"), "date_range .*tz='UTC'"),
        (lambda cudf: cudf.get_dummies(cudf.Series(["a"]), sparse=True), "sparse=True"),
        (lambda cudf: cudf.to_datetime(cudf.Series(["x"]), errors="coerce"), "errors='coerce'"),
    ],
)
def test_functions_refuse_what_pandas_alone_takes(cudf, make, words):
    with pytest.raises(NotImplementedError, match=words):
        make(cudf)


def test_text_is_replaced_by_a_regular_expression(cudf):
    """pandas takes the pattern as it stands unless asked, and backslashes for groups."""
    texts = cudf.Series(["a.b", None]).str
    assert texts.replace(".", "x")[0] == "xxx"
    assert texts.replace(".", "x", regex=False)[0] == "axb"
    assert texts.replace("(a)", r"\1")[0] == r"\1.b"


def test_aggregations_of_a_table_come_sorted(cudf):
    frame = cudf.DataFrame({"b": [1, 2], "a": [3, 4]})
    several = frame.agg(["sum", "max"])
    assert list(several.columns) == ["a", "b"]
    assert several.to_pandas().index.tolist() == ["sum", "max"]
    by_column = frame.agg({"b": ["sum", "max"]})
    assert by_column.to_pandas().index.tolist() == ["max", "sum"]
    assert frame.agg("sum").to_pandas().tolist() == [3, 7]


def test_a_null_is_in_what_has_a_null():
    import cudf

    for values, wanted, right in (
        ([-1], [None], [False]),
        ([1, None], [None], [False, True]),
        ([1.0, None], [None, 1.0], [True, True]),
        (["a", None], ["b"], [False, False]),
        ([1, None], [1], [True, False]),
    ):
        assert cudf.Series(values).isin(wanted).to_pandas().tolist() == right
    with pytest.raises(TypeError, match="only list-like objects"):
        cudf.Series(["a"]).isin("a")


def test_types_of_columns_in_order():
    import cudf

    read = cudf.read_csv(
        io.StringIO("1,2,007\n3,4,008\n"), names=["a", "b", "c"], dtype=["int32", "float32", "str"]
    )
    assert [str(one) for one in read.dtypes] == ["int32", "float32", "object"]
    assert read["c"].to_pandas().tolist() == ["007", "008"]
    with pytest.raises(ValueError, match="2 types for 1 column"):
        cudf.read_csv(io.StringIO("a\n1\n"), dtype=["int32", "int32"])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.1234567891234564, "1.123456789"),
        (2e9, "2.0e+09"),
        (1e9, "1000000000.0"),
        (0.0, "0.0"),
        (-0.5, "-0.5"),
        (1e-5, "1.0e-05"),
        (123456.789, "123456.789"),
        (9.99999999999e12, "1.0e+13"),
        (1.5e300, "1.5e+300"),
        (np.inf, "Inf"),
        (-np.inf, "-Inf"),
        (np.nan, "NaN"),
    ],
)
def test_floats_become_text_as_in_cudf(number, text):
    """libcudf's rule: ten significant digits, an exponent above 1e9 and below 1e-4."""
    import cudf

    column = cudf.Series([number, 1.0], nan_as_null=False)
    assert column.astype(str).to_pandas().tolist() == [text, "1.0"]
    assert cudf.Series([number, None]).astype("str").to_pandas().isna().tolist()[1]
    if np.isfinite(number):
        assert cudf.DataFrame({"a": column}).to_csv(index=False) == f"a\n{text}\n1.0\n"


def test_joins_that_only_ask():
    import cudf

    left, right = cudf.DataFrame({"a": [1, 2, 2], "b": [7, 8, 9]}), cudf.DataFrame({"a": [2, 2]})
    semi, anti = (left.merge(right, on="a", how=how) for how in ("leftsemi", "leftanti"))
    assert semi.to_pandas()["b"].tolist() == [8, 9] and anti.to_pandas()["b"].tolist() == [7]
    other = right.rename(columns={"a": "z"})
    assert left.merge(
        other, left_on="a", right_on="z", how="leftsemi"
    ).to_pandas().columns.tolist() == ["a", "b"]


def test_a_query_knows_the_variables_of_its_caller(tmp_path):
    """In a function, and at the top level of a program or a notebook."""
    import cudf

    limit = 2
    frame = cudf.DataFrame({"a": [1, 2, 3]})
    assert frame.query("a > @limit")["a"].to_pandas().tolist() == [limit + 1]
    assert frame.query("a > @other", local_dict={"other": 1})["a"].to_pandas().tolist() == [2, 3]
    script = tmp_path / "program.py"
    script.write_text(
        "import cudf\nlimit = 1\nfound = cudf.DataFrame({'a': [1, 2]}).query('a > @limit')\n"
    )
    assert runpy.run_path(str(script))["found"]["a"].to_pandas().tolist() == [2]


def test_memory_is_what_the_columns_take(cudf):
    labelled = cudf.Series(range(3), index=["a", "b", "c"])
    assert labelled.memory_usage() == 43 and labelled.memory_usage(index=False) == 24
    frame = cudf.DataFrame({"n": [1, None], "text": ["ab", None], "f": np.zeros(2, np.float32)})
    used = frame.memory_usage().to_pandas()
    assert used.to_dict() == {"n": 16 + 64, "text": 2 + 12 + 64, "f": 8, "Index": 0}
    kinds = cudf.Series(["x", "y", "x"], dtype="category")
    assert kinds.memory_usage() == 3 + 2 + 12
    assert cudf.Index([1, 2, 3]).memory_usage() == 24
    assert frame.set_index(["n", "f"]).index.memory_usage() == 16 + 64 + 8


@pytest.mark.parametrize("aggregation", [list, "collect", "unique"])
def test_groups_as_lists_are_refused_by_name(cudf, aggregation):
    with pytest.raises(NotImplementedError, match=r"of groups returns a column of lists.*Awkward"):
        cudf.DataFrame({"k": [1, 1], "v": [1, 2]}).groupby("k").agg({"v": aggregation})


def test_blanks_as_delimiter(cudf):
    read = cudf.read_csv(io.StringIO("a   b\n1 2\n3    4\n"), delim_whitespace=True)
    assert read.to_pandas().to_dict("list") == {"a": [1, 3], "b": [2, 4]}
    with pytest.raises(ValueError, match="cannot set both"):
        cudf.read_csv(io.StringIO("a b"), sep=",", delim_whitespace=True)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda cudf: cudf.Series(["a"]).str.findall, r"use `\.to_pandas\(\)\.str\.findall`"),
        (lambda cudf: cudf.Series(["a"]).str.edit_distance, "pandas has no such name either"),
        (lambda cudf: cudf.Series([1]).hash_values, "pandas has no such name either"),
        (lambda cudf: cudf.Series([1]).resample, r"use `\.to_pandas\(\)\.resample`"),
        (
            lambda cudf: cudf.DataFrame({"k": [1]}).groupby("k").fillna,
            "pandas has no such name either",
        ),
        (lambda cudf: cudf.cut, "apply the pandas function of that name"),
    ],
)
def test_what_is_missing_names_what_pandas_has(cudf, ask, words):
    with pytest.raises(NotImplementedError, match=words):
        ask(cudf)


def test_labels_of_several_levels_stay_so(cudf):
    pairs = pd.MultiIndex.from_product([[0, 1], ["x", "y"]], names=["n", "t"])
    for labels in (pairs, cudf.MultiIndex.from_product([[0, 1], ["x", "y"]], names=["n", "t"])):
        series = cudf.Series(range(4), index=labels)
        assert series.to_pandas().index.equals(pairs)
        assert series.unstack().shape == (2, 2)
        frame = cudf.DataFrame({"a": range(4)})
        frame.index = labels
        assert int(frame.loc[(1, "y"), "a"]) == 3
        wide = cudf.DataFrame([range(4)])
        wide.columns = labels
        assert wide.columns.equals(pairs)
    taken = cudf.from_pandas(pairs)
    assert taken.names == ["n", "t"]
    taken.rename(["u", "v"], inplace=True)
    assert taken.names == ["u", "v"]
    assert taken.dtypes.to_dict() == {"u": np.int64, "v": object}
    again = cudf.MultiIndex.from_frame(cudf.DataFrame({"a": [1, 2], "b": [3, 4]}))
    assert again.swaplevel(0, 1).to_pandas().tolist() == [(3, 1), (4, 2)]


def test_groups_keep_their_names_in_covariances(cudf):
    host = pd.DataFrame({"k": [1, 1, 2, 2], "a": [1.0, 2, 3, 4], "b": [1.0, 3, 2, 5]})
    frame = cudf.from_pandas(host)
    for name in ("cov", "corr", "describe"):
        expected = getattr(host.groupby("k"), name)()
        pd.testing.assert_frame_equal(getattr(frame.groupby("k"), name)().to_pandas(), expected)
    assert {key: one.tolist() for key, one in frame.groupby("k").indices.items()} == {
        1: [0, 1],
        2: [2, 3],
    }
    jitted = frame.groupby("k").apply(lambda group: group["b"].max(), engine="jit")
    assert jitted.to_numpy().tolist() == [3, 5]


def test_days_have_names_in_columns_and_labels(cudf):
    days = pd.to_datetime(["2016-12-31", "2017-01-01"])
    assert cudf.Series(days).dt.day_name().to_pandas().tolist() == ["Saturday", "Sunday"]
    with warnings.catch_warnings():  # pandas drops these names, cuDF does not
        warnings.simplefilter("error")
        assert cudf.Series(days).dt.weekday.to_numpy().tolist() == [5, 6]
        assert cudf.Series(days).dt.dayofyear.to_numpy().tolist() == [366, 1]
    assert cudf.Series(days).dt.month_name().to_pandas().tolist() == ["December", "January"]
    labels = cudf.DatetimeIndex(days)
    assert labels.weekday.to_numpy().tolist() == [5, 6]
    assert labels.quarter.to_numpy().tolist() == [4, 1]
    assert labels.day_name().to_pandas().tolist() == ["Saturday", "Sunday"]
    assert labels.floor("h").to_pandas().equals(days)


def test_products_of_tables(cudf):
    frame = cudf.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert (frame @ frame.T).to_numpy().tolist() == [[10, 14], [14, 20]]
    assert cudf.Series([1, 2]) @ cudf.Series([3, 4]) == [1, 2] @ cudf.Series([3, 4]) == 11


def test_a_dict_of_tables_side_by_side_and_other_forms(cudf):
    one, two = cudf.DataFrame({"n": [1]}), cudf.DataFrame({"n": [2]})
    joined = cudf.concat({"first": one, "second": two}, axis=1)
    assert joined.columns.tolist() == [("first", "n"), ("second", "n")]
    codes, texts = cudf.factorize(["b", None, "a", "b"])
    assert codes.tolist() == [0, -1, 1, 0]
    assert texts.to_pandas().tolist() == ["b", "a"]
    assert cudf.Index([1.0, None]).isna().tolist() == [False, True]
    assert len(cudf.RangeIndex(range(1, 10, 3))) == 3


def test_windows_over_rows(cudf):
    series = cudf.Series([1, 2, 3, None, 4])
    assert repr(series.rolling(2)) == "Rolling [window=2,min_periods=2,center=False]"
    for name in ("sum", "mean", "max", "count"):
        for arguments in ({"window": 2}, {"window": 3, "min_periods": 1, "center": True}):
            ours = getattr(series.rolling(**arguments), name)()
            theirs = getattr(series.to_pandas().rolling(**arguments), name)()
            assert ours.dtype == np.float64
            np.testing.assert_array_equal(ours.to_numpy(), theirs.to_numpy())
    assert series.rolling(2).sum().null_count == 3
    by_group = cudf.DataFrame({"k": [1, 1, 2, 2], "v": [1, 2, 3, 4]}).groupby("k").rolling(2).sum()
    assert by_group["v"].to_pandas(nullable=True).tolist() == [pd.NA, 3, pd.NA, 7]
    smooth = cudf.Series([0.0, 1, 2]).ewm(com=0.5).mean()
    assert smooth.to_numpy().tolist() == pytest.approx([0, 0.75, 1.615385])
    with pytest.raises(NotImplementedError, match=r"^Rolling.median\(\) is not yet implemented$"):
        series.rolling(2).median()


def test_functions_of_windows_run_on_the_device(cudf):
    def larger(window):
        count = 0
        for value in window:
            if value > 3:
                count += 1
        return count

    series = cudf.Series([0, 1.1, 5.8, 3.1, 6.2, 2.0, 1.5])
    with virtualgpu.profile() as profile:
        counts = series.rolling(3, min_periods=1).apply(larger)
    assert len(profile.launches) == 1
    assert counts.to_numpy().tolist() == [0, 0, 1, 2, 3, 2, 1]
    frame = cudf.DataFrame({"a": series})
    assert frame.rolling(3).apply(larger)["a"].null_count == 2
    for window in (3, 4):
        ours = series.rolling(window, 1, center=True).apply(lambda one: one[0] + 10 * one[-1])
        theirs = series.to_pandas().rolling(window, 1, center=True)
        theirs = theirs.apply(lambda one: one[0] + 10 * one[-1], raw=True)
        assert ours.to_numpy().tolist() == pytest.approx(theirs.tolist())
    with pytest.raises(NotImplementedError, match="UDF with null values"):
        cudf.Series([1, None]).rolling(2).apply(larger)


def test_what_is_asked_of_texts_one_by_one(cudf):
    texts = cudf.Series(["1.1", "+5", "a  b", "", None, "1A2", "10.0.0.1"])
    yes = {
        "isfloat": [0, 1],
        "isinteger": [1],
        "ishex": [5],
        "isipv4": [6],
        "isempty": [3],
    }
    for name, places in yes.items():
        answers = getattr(texts.str, name)()
        assert answers.dtype == bool
        assert np.flatnonzero(answers.fillna(False).to_numpy()).tolist() == places
    assert texts.str.token_count().dtype == np.int32
    assert cudf.Series(["Thanks 😊"]).str.byte_count()[0] == 11
    assert cudf.Series(["A/B e"]).str.url_encode()[0] == "A%2FB%20e"
    assert cudf.Series(["A%2FB%20e"]).str.url_decode()[0] == "A/B e"
    assert cudf.Series(["abcd"]).str.insert(2, "_")[0] == "ab_cd"
    assert cudf.Series(["abcd"]).str.insert(-1, "_")[0] == "abcd_"
    assert cudf.Series(["a_b", "c"]).str.split_part("_", 1).null_count == 1
    assert cudf.Series(["ddbc", "b"]).str.like("%b_").to_numpy().tolist() == [True, False]
    assert cudf.Series(["50%"]).str.like("50/%", esc="/")[0]
    assert cudf.Series(["is a"]).str.translate({"a": "1"})[0] == "is 1"
    assert cudf.Series(["A54"]).str.replace_with_backrefs(r"(\d)(\d)", r"V\2\1")[0] == "AV45"
    assert cudf.Series(["cafe"]).str.htoi()[0] == 0xCAFE
    assert cudf.Series([" a \t b"]).str.normalize_spaces()[0] == "a b"
    with pytest.raises(ValueError, match="substring not found"):
        cudf.Series(["a"]).str.index("b")


def test_questions_about_types(cudf):
    from cudf.api import types

    assert types.is_string_dtype(cudf.Series(["a"]))
    assert not types.is_string_dtype(cudf.Series([1]))
    assert types.is_categorical_dtype(cudf.Series(["a"], dtype="category"))
    assert types.is_datetime_dtype(cudf.Series(pd.to_datetime(["2020"])))
    assert types.is_numeric_dtype(np.dtype("int8"))
    assert types.is_list_like([1])


def test_no_time_has_no_parts_and_is_no_number(cudf):
    times = cudf.Series(pd.to_datetime(["2020-01-01", None]))
    for parts in (times.dt.year, times.dt.nanosecond, times.dt.dayofyear, times.astype("int64")):
        assert parts.null_count == 1
        assert parts.dtype.kind == "i"
    assert times.astype("int64")[0] == 1577836800 * 10 ** (9 if "ns" in str(times.dtype) else 6)
    steps = times - times.shift(1)
    assert steps.dt.days.null_count == 2


def test_rows_of_groups_without_a_row_before_are_null(cudf):
    large = 2**60 + 1  # which no float64 holds
    frame = cudf.DataFrame({"k": [1, 1, 2], "x": [large, 5, 6]})
    before = frame.groupby("k").shift(1)["x"]
    assert before.dtype == np.int64
    assert before.to_pandas(nullable=True).tolist() == [pd.NA, large, pd.NA]
    assert frame.groupby("k")["x"].shift(-1)[0] == 5
    assert frame["x"].groupby(frame["k"]).diff().to_pandas(nullable=True)[1] == 5 - large
    assert cudf.Series([1.0, 2.0]).pct_change().null_count == 1


def test_what_pandas_is_about_to_change_is_not_said(cudf):
    frame = cudf.DataFrame({"k": [1], "v": [2]}).set_index("k")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(frame.join(frame, lsuffix="l", rsuffix="r").columns) == ["vl", "vr"]


def test_a_function_of_every_element(cudf):
    frame = cudf.DataFrame({"a": [1, 2], "b": [0.5, None]})
    doubled = frame.map(lambda x: 2 * x)
    assert doubled["a"].to_numpy().tolist() == [2, 4]
    assert doubled["b"].null_count == 1
    assert frame[["a"]].to_records(index=False).tolist() == [(1,), (2,)]
