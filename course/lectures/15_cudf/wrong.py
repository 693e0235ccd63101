"""Wrong answers to the exercises of "Tables on the device", with what the check says of each."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import collection

WRONG, wrong = collection("15_cudf")

# --- per-event ----------------------------------------------------------------------------------

NAMED = {"muons": ("pt", "count"), "charge": ("charge", "sum"), "leading": ("pt", "max")}


def grouped(table, sort=True, **other):
    return table.groupby("event", sort=sort).agg(**{**NAMED, **other})


@wrong("per-event", "number, pt, eta, phi, charge; they should be muons, charge, leading")
def starter_sums_everything(table):
    return table.groupby("event").sum()


@wrong("per-event", "the events come in the order .*sort the groups yourself")
def in_any_order(table):
    return grouped(table, sort=False)


@wrong("per-event", "`charge` .* is .*, not .*with which function")
def mean_of_the_charges(table):
    return grouped(table, charge=("charge", "mean"))


@wrong("per-event", "`leading` .* is .*, not ")
def first_for_highest(table):
    return grouped(table, leading=("pt", "first"))


@wrong("per-event", "`event` is a column, not the index")
def event_as_a_column(table):
    return grouped(table).reset_index()


@wrong("per-event", "the result is a pandas.DataFrame, not a cudf.DataFrame")
def on_the_host(table):
    return grouped(table.to_pandas())


@wrong("per-event", "`muons` of event .* is .*, not ")
def number_of_the_last(table):
    return grouped(table, muons=("number", "max"))


@wrong("per-event", "the result is a cudf.Series")
def one_column_only(table):
    return table.groupby("event", sort=True)["pt"].max()


@wrong("per-event", "takes data from the device")
def by_pandas_there_and_back(table):
    import cudf

    host = table.to_pandas()
    made = host.groupby("event").agg(muons=("pt", "size"), charge=("charge", "sum"),
                                     leading=("pt", "max"))
    return cudf.from_pandas(made.sort_index())


@wrong("per-event", "`to_csv` takes data from the device")
def by_text(table):
    import io

    import cudf
    import pandas as pd

    host = pd.read_csv(io.StringIO(table.to_csv(index=False)))
    return cudf.from_pandas(host.groupby("event").agg(**NAMED))


@wrong("per-event", "has changed its input table.*work on a copy")
def counts_by_a_new_column(table):
    table["one"] = 1
    return grouped(table, muons=("one", "sum"))


# --- pairs --------------------------------------------------------------------------------------


def joined(table):
    return table.merge(table, on="event", suffixes=("1", "2"))


@wrong("pairs", "is paired with itself.*drop the rows")
def starter_keeps_all(table):
    return joined(table)


@wrong("pairs", "some pairs occur twice")
def each_pair_twice(table):
    pairs = joined(table)
    return pairs[(pairs["number1"] != pairs["number2"]) & (pairs["charge1"] != pairs["charge2"])]


@wrong("pairs", "have the same charge")
def any_charge(table):
    pairs = joined(table)
    return pairs[pairs["number1"] < pairs["number2"]]


@wrong("pairs", "pairs of opposite charge, not")
def first_two_muons_only(table):
    pairs = joined(table)
    return pairs[(pairs["number1"] == 0) & (pairs["number2"] == 1)
                 & (pairs["charge1"] != pairs["charge2"])]


@wrong("pairs", "pairs of opposite charge, not")
def first_is_positive(table):
    pairs = joined(table)
    return pairs[(pairs["number1"] < pairs["number2"]) & (pairs["charge1"] > pairs["charge2"])]


@wrong("pairs", "these columns are missing: .*charge1")
def pandas_own_suffixes(table):
    pairs = table.merge(table, on="event")
    return pairs[(pairs["number_x"] < pairs["number_y"]) & (pairs["charge_x"] != pairs["charge_y"])]


@wrong("pairs", "TypeError: .*ambiguous")
def python_s_and(table):
    pairs = joined(table)
    return pairs[pairs["number1"] < pairs["number2"] and pairs["charge1"] != pairs["charge2"]]


@wrong("pairs", "not a cudf.DataFrame")
def selection_without_table(table):
    pairs = joined(table)
    return pairs["number1"] < pairs["number2"]


@wrong("pairs", "takes data from the device")
def by_pandas(table):
    import cudf

    host = table.to_pandas()
    both = host.merge(host, on="event", suffixes=("1", "2"))
    both = both[(both.number1 < both.number2) & (both.charge1 + both.charge2 == 0)]
    return cudf.from_pandas(both.reset_index(drop=True))


@wrong("pairs", "`phi1` of a pair of event .* is .*; its muon .* has .*as the join returns them")
def angles_of_the_other(table):
    pairs = joined(table)
    pairs = pairs[(pairs["number1"] < pairs["number2"]) & (pairs["charge1"] != pairs["charge2"])]
    return pairs.assign(phi1=pairs["phi2"], phi2=pairs["phi1"])


@wrong("pairs", "has changed its input table")
def renumbers_the_table(table):
    table["number"] = table["number"] + 1
    return angles_of_the_other(table)


# --- missing ------------------------------------------------------------------------------------


@wrong("missing", "counts 3 null rows; the right number is 2.*also finds NaN")
def isna_tells_all(series):
    return int(series.isna().sum()), 0


@wrong("missing", "counts 0 NaN rows; the right number is 1")
def nulls_alone(series):
    return series.null_count, 0


@wrong("missing", "counts 3 NaN rows; the right number is 1")
def nan_with_the_nulls(series):
    return series.null_count, int(series.isna().sum())


@wrong("missing", "counts 3 null rows; the right number is 2")
def made_nulls_of_nans(series):
    return (series.nans_to_nulls() if series.dtype.kind == "f" else series).null_count, 1


@wrong("missing", "counts 3 NaN rows; the right number is 1")
def numpy_s_isnan(series):
    return series.null_count, int(np.isnan(series.to_numpy()).sum())


@wrong("missing", "returns 2, not two ints")
def one_number(series):
    return series.null_count


@wrong("missing", "null rows; the right number is")
def two_as_in_the_example(series):
    return 2, int(series.isna().sum()) - 2


@wrong("missing", "`to_pandas` takes data from the device.*cuDF counts both")
def pandas_counts(series):
    return series.null_count, int(series.to_pandas().isna().sum()) - series.null_count


@wrong("missing", "the answer is right, but your function has changed its input column")
def fills_what_it_has_counted(series):
    answer = series.null_count, int(series.isna().sum()) - series.null_count
    series[:] = None
    return answer


# --- no-detour ----------------------------------------------------------------------------------


def cp():
    import cupy

    return cupy


@wrong("no-detour", "the count of bin")
def starter_counts_nothing(pairs, edges):
    return cp().zeros(edges.size - 1, int)


@wrong("no-detour", "`to_numpy` takes data from the device")
def as_it_was(pairs, edges):
    return cp().asarray(np.histogram(pairs["mass"].to_numpy(), edges.get())[0])


@wrong("no-detour", "`get` takes data from the device")
def get_is_a_copy_too(pairs, edges):
    masses = pairs["mass"].dropna().values.get()
    return cp().asarray(np.histogram(masses, cp().asnumpy(edges))[0])


@wrong("no-detour", "`to_pandas` takes data")
def through_pandas(pairs, edges):
    return cp().histogram(cp().asarray(pairs.to_pandas()["mass"].dropna()), edges)[0]


@wrong("no-detour", "`tolist` takes data from the device")
def by_lists(pairs, edges):
    masses = pairs["mass"].dropna().values.tolist()
    return cp().asarray(np.histogram(masses, edges.tolist())[0])


@wrong("no-detour", "the count of bin")
def edges_of_the_example(pairs, edges):
    return cp().histogram(pairs["mass"].dropna().values, cp().linspace(1, 121, 25))[0]


@wrong("no-detour", "the result is a tuple, not a CuPy array")
def counts_and_edges(pairs, edges):
    return cp().histogram(pairs["mass"].dropna().values, edges)


@wrong("no-detour", "the count of bin 0 is ")
def missing_counted_as_two(pairs, edges):
    return cp().histogram(pairs["mass"].fillna(2.0).values, edges)[0]


@wrong("no-detour", "25 counts for 24 bins")
def number_of_edges(pairs, edges):
    return cp().histogram(pairs["mass"].dropna().values, edges.size, (1, 121))[0]


@wrong("no-detour", "the count of bin .* is")
def bins_of_equal_width(pairs, edges):
    masses = pairs["mass"].dropna().values
    return cp().histogram(masses, edges.size - 1, (float(edges[0]), float(edges[-1])))[0]


@wrong("no-detour", "the count of bin 23 is")
def without_the_last_edge(pairs, edges):
    places = cp().searchsorted(edges, pairs["mass"].dropna().values, side="right") - 1
    inside = (places >= 0) & (places < edges.size - 1)
    return cp().bincount(places[inside], minlength=edges.size - 1)


@wrong("no-detour", "the counts are right, but `pairs` or `edges` has changed")
def fills_the_table(pairs, edges):
    pairs["mass"] = pairs["mass"].fillna(-1e9)
    return cp().histogram(pairs["mass"].values, edges)[0]


# --- own-function -------------------------------------------------------------------------------


@wrong("own-function", "for eta = 0, your function returns -1, not 0")
def starter(eta):
    return -1


@wrong("own-function", "for eta = -0.9, your function returns 0, not 1.*which sign")
def without_the_sign(eta):
    if eta < 0.9:
        return 0
    if eta < 1.2:
        return 1
    return 2 if eta <= 2.4 else -1


@wrong("own-function", "for eta = 0.9, your function returns 0, not 1.*to which region does a value")
def limits_on_the_wrong_side(eta):
    eta = abs(eta)
    if eta <= 0.9:
        return 0
    if eta <= 1.2:
        return 1
    return 2 if eta <= 2.4 else -1


@wrong("own-function", "for eta = 2.4, your function returns -1, not 2")
def limit_of_the_endcap(eta):
    eta = math.fabs(eta)
    if eta < 0.9:
        return 0
    if eta < 1.2:
        return 1
    return 2 if eta < 2.4 else -1


@wrong("own-function", "user defined function compilation failed")
def looked_up_in_a_dict(eta):
    for limit, region in {0.9: 0, 1.2: 1, 2.4: 2}.items():
        if abs(eta) <= limit:
            return region
    return -1


@wrong("own-function", "user defined function compilation failed")
def names_for_numbers(eta):
    return "barrel" if abs(eta) < 0.9 else "beyond"
