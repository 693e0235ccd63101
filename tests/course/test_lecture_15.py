"""What the text of "Tables on the device: cuDF" says is what its cells show."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest

import virtualgpu

pytestmark = pytest.mark.rehearsal


def numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*\.?\d*", text)]


def test_pandas_and_cudf_give_the_same_three_events(shown):
    text = shown["the-question"].text
    in_pandas, in_cudf = text.removeprefix("pandas\n").split("cudf\n")
    assert in_pandas == in_cudf
    assert len(in_pandas.strip().splitlines()) == 5
    for library, name in ((pd, "pandas"), (shown["the-question"].names["cudf"], "cudf")):
        answer = shown["the-question"].names["hardest_balanced"](library)
        assert type(answer).__module__.split(".")[0] == name
    assert len(shown["the-table"].names["table"]) == 71_009


def test_groups_come_sorted_only_when_asked(shown):
    in_pandas, in_cudf, asked = (
        [int(key) for key in re.findall(r"(\d): ", line.split(":", 1)[1])]
        for line in shown["groups"].text.splitlines()
    )
    assert in_pandas == asked == [3, 5, 7]
    assert sorted(in_cudf) == asked != in_cudf


def test_three_muons_make_nine_rows(shown):
    names = shown["joins"].names
    first = names["first"]
    assert len(first.merge(first, on="event")) == 9
    assert len(names["both"]) == sum(
        n**2 for n in np.unique(names["columns"]["event"], return_counts=True)[1]
    )
    assert "71,009 rows joined with themselves: 156,705 rows" in shown["joins"].text


def test_the_spectrum_has_the_z(shown):
    names = shown["pairs-exercise"].names
    assert 60 + int(np.argmax(names["counts"][59:])) in (90, 91)
    assert len(names["pairs"]) == 29_448


def test_integers_stay_integers_where_a_join_leaves_a_hole(shown):
    assert shown["left-join"].text.strip().endswith("cuDF: int64   pandas: float64")
    assert shown["left-join"].names["known"]["tried"].null_count == 1


def test_text_is_taken_apart_by_columns(shown):
    known = shown["strings"].names["known"]
    assert "version" in shown["strings"].text
    lines = [line.split() for line in shown["strings"].text.splitlines()[1:]]
    assert [line[-2:] for line in lines] == [
        ["False", "3"],
        ["True", "5"],
        ["True", "1"],
        ["<NA>", "<NA>"],
        ["<NA>", "<NA>"],
    ]
    assert known is not None


def test_null_and_nan(shown):
    text = shown["missing"].text
    assert "3    <NA>" in text and "4     NaN" in text
    assert text.strip().endswith("null: 1   isna: 2   mean: 0.9")
    border = shown["missing-border"].text.splitlines()
    assert border[0].endswith("1 null") and border[1].endswith("0 null")
    assert border[2] == "runs above 0.9: [0 2]   not above: [1 4]"
    assert border[3] == "float64 or Int64"


def test_loops_and_functions_of_the_host_are_refused(shown):
    assert "Series object is not iterable" in str(shown["loop"].error)
    names = shown["loop"].names
    for refused in (
        lambda: names["pairs"].iterrows(),
        lambda: names["pairs"].itertuples(),
        lambda: names["pairs"]["mass"].tolist(),
        lambda: np.histogram(names["pairs"]["mass"]),
    ):
        with pytest.raises(TypeError):
            refused()


def test_who_shares_memory(shown):
    said = [line.rsplit(" ", 1)[1] for line in shown["sharing"].text.splitlines()]
    assert said == ["True", "True", "True", "False", "False", "False"]


def test_what_cupy_writes_stands_in_the_table(shown):
    cudf = shown["sharing"].names["cudf"]
    table = cudf.DataFrame({"mass": np.array([91.0, 3.0])})
    table["mass"].values[0] = 9.5
    assert table["mass"].to_numpy().tolist() == [9.5, 3.0]
    holes = cudf.Series([1, None])
    assert holes.values.dtype == np.float64 and np.isnan(holes.values.get()[1])


def test_apply_is_one_launch(shown):
    names = shown["own"].names
    with virtualgpu.profile() as profile:
        angle = names["table"].apply(names["polar_angle"], axis=1)
    assert len(profile.launches) == 1
    eta, pt = (names["columns"][name].astype(float) for name in ("eta", "pt"))
    right = np.where((np.abs(eta) > 2.4) | (pt < 3.5), -1, np.degrees(2 * np.arctan(np.exp(-eta))))
    assert np.allclose(angle.to_numpy(), right, rtol=1e-5)


def test_a_function_that_does_not_compile_says_little_and_its_cause_more(shown):
    assert str(shown["own-refused"].error) == "user defined function compilation failed."
    assert shown["own-cause"].text.startswith("TypingError No implementation of function")
    assert "sorted" in shown["own-cause"].text


def test_the_last_three_fall_back(shown):
    lines = shown["fallback-run"].text.splitlines()
    places = [re.search(r" (GPU|CPU) ", line)[1] for line in lines]
    assert places == ["GPU"] * 4 + ["CPU"] * 3
    assert all(int(line.split()[-3].replace(",", "")) == 64_000 for line in lines[4:])
    names = shown["fallback-run"].names
    for operation in list(names["operations"].values())[4:]:
        with pytest.raises((TypeError, ValueError)):
            operation(names["small"])


def test_seventy_five_passes(shown):
    journey, once, passes = numbers(shown["pays"].text)
    assert (journey, once, passes) == (1250, 17, 75)
    assert math.isclose(1 / (1 + 300 / 75), 0.2)
    assert math.isclose(2 / (2 + 150 / 75), 0.5)


def test_where_there_is_no_gpu_no_time_is_shown(shown):
    assert shown["measure"].text.startswith("no GPU here")
    names = shown["measure"].names
    assert names["sizes"] == ()
    # The cell itself works: on a GPU it runs for five sizes.
    assert all(0 < names["seconds"](library, 100, 1) < 10 for library in (pd, names["cudf"]))


def test_the_bars_of_the_join_are_its_rows(shown):
    names = shown["joins-picture"].names
    assert sum(names["events"] * names["sizes"]) == len(names["table"])
    assert sum(names["events"] * names["sizes"] ** 2) == len(names["both"])
