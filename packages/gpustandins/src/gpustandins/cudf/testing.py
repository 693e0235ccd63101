"""Assertions on Series, DataFrames and indexes, made with pandas' assertions."""

from __future__ import annotations

import pandas as pd

from ._wrapping import unwrap


def assert_frame_equal(left, right, **kwargs) -> None:
    pd.testing.assert_frame_equal(unwrap(left, True), unwrap(right, True), **kwargs)


def assert_series_equal(left, right, **kwargs) -> None:
    pd.testing.assert_series_equal(unwrap(left, True), unwrap(right, True), **kwargs)


def assert_index_equal(left, right, **kwargs) -> None:
    pd.testing.assert_index_equal(unwrap(left), unwrap(right), **kwargs)


def assert_eq(left, right, **kwargs) -> None:
    """Assert that two objects, each from cuDF or pandas, are equal."""
    kinds = {"DataFrame": assert_frame_equal, "Series": assert_series_equal}
    kinds.get(type(left).__name__, assert_index_equal)(left, right, **kwargs)
