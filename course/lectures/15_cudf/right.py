"""Right answers to the exercises of "Tables on the device" in other styles than the lecture's."""

from __future__ import annotations

import numpy as np

from wrong_answers import other_styles

import cudf  # isort: skip  (after the virtual GPU is active)
import cupy as cp  # isort: skip

RIGHT, right = other_styles("15_cudf")


@right("per-event")
def sorts_afterwards(table):
    return table.groupby("event").agg(
        leading=("pt", "max"), muons=("number", "count"), charge=("charge", "sum")).sort_index()


@right("per-event")
def column_by_column(table):
    groups = table.groupby("event", sort=True)
    return cudf.DataFrame({"muons": groups["pt"].count(), "charge": groups["charge"].sum(),
                           "leading": groups["pt"].max()})


@right("pairs")
def one_cut_after_the_other(table):
    both = table.merge(table, on="event", suffixes=("1", "2"))
    both = both[both["number2"] > both["number1"]]
    return both[both["charge1"] + both["charge2"] == 0]


@right("pairs")
def positive_with_negative(table):
    plus, minus = table[table["charge"] > 0], table[table["charge"] < 0]
    return plus.merge(minus, on="event", suffixes=("1", "2"))


@right("missing")
def from_those_that_are_left(series):
    known = series.dropna()
    nulls = series.null_count
    return nulls, len(series) - len(known) - nulls


@right("missing")
def by_two_counts(series):
    nulls = int(series.null_count)
    return [nulls, int(series.isnull().sum()) - nulls]


@right("missing")
def by_a_mask(series):
    known = series[~series.isna()]
    return np.array([series.null_count, len(series) - len(known) - series.null_count])


@right("no-detour")
def by_a_search(pairs, edges):
    masses = pairs["mass"].dropna().values
    masses = masses[(masses >= edges[0]) & (masses <= edges[-1])]
    places = cp.clip(cp.searchsorted(edges, masses, side="right") - 1, 0, edges.size - 2)
    return cp.bincount(places, minlength=edges.size - 1)


@right("no-detour")
def through_a_filled_column(pairs, edges):
    return cp.histogram(pairs["mass"].fillna(-1e9).values, bins=edges)[0]


@right("own-function")
def from_the_outside_in(eta):
    size = abs(eta)
    if size > 2.4:
        return -1
    if size >= 1.2:
        return 2
    return 1 if size >= 0.9 else 0


@right("own-function")
def by_adding(eta):
    size = eta if eta >= 0 else -eta
    return -1 if size > 2.4 else (size >= 0.9) * 1 + (size >= 1.2) * 1
