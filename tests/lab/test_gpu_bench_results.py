"""What reads a recorded run: rows, ratios, aims, and pictures that never invent a number."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gpu_example
from gpucourse.course import checkout
from gpucourse.views import measured, results
from gpucourse.views.picture import Picture
from gpucourse.views.results import NotMeasured, Results, Row
from lab.benchmarks import gpu_aims
from lab.benchmarks.gpu_bench import PATH
from lab.benchmarks.gpu_worker import ORDER


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Results:
    """A made-up run in the place of the recorded one."""
    found = Results(gpu_example.document())
    monkeypatch.setattr(results, "recorded", lambda: found)
    return found


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nothing has been measured."""
    monkeypatch.setattr(results, "recorded", lambda: None)


# -- numbers ----------------------------------------------------------------------------------


def test_medians_quartiles_and_bandwidth() -> None:
    row = Row.of(
        {
            "id": "g/c/1",
            "group": "g",
            "title": "t",
            "size": 1,
            "bytes": 8_000_000,
            "device_ms": [4.0, 1.0, 2.0, 3.0, 100.0],
            "call_ms": [7.0],
            "new_key": 1,
        }
    )
    assert row.median("device") == 3.0 and row.quartiles("device") == (2.0, 4.0)
    assert row.quartiles("call") == (7.0, 7.0)
    assert row.bandwidth("device") == pytest.approx(8e6 / 3e-3)
    assert row.clocks == ("device", "call") and row.measured


def test_ratios_go_by_a_clock_that_both_have(example: Results) -> None:
    numba = example.row("quadratic.float64", "numba")
    cpp = example.row("quadratic.float64", "cpp")
    jax = example.row("quadratic.float64", "jax")
    assert example.times_as_fast(numba, cpp) == cpp.median("device") / numba.median("device")
    assert example.times_as_fast(numba, jax) == jax.median("queue") / numba.median("queue")
    with pytest.raises(NotMeasured, match="no clock timed all"):
        results.common_clock(numba, Row("x", "x", "x", 1))


def test_a_row_that_failed_says_so(example: Results) -> None:
    with pytest.raises(NotMeasured, match="reduction/cub: RuntimeError: there is no nvcc here"):
        example.row("reduction", "cub")
    assert "cub" not in {row.contender for row in example.of("reduction")}
    with pytest.raises(NotMeasured, match=r"no times of 'sampling\.disc'"):
        example.of("sampling.disc")


def test_aims_are_met_missed_or_not_run(example: Results) -> None:
    found = {aim.name: aim for aim in gpu_aims.aims(example)}
    shared = found["histogram.peaks/shared: times as fast as cupy.histogram"]
    assert shared.verdict == "met" and shared.value == pytest.approx(2.0, rel=0.1)
    missed = found["quadratic.float64/jax: times as fast as CuPy's fuse"]
    assert missed.verdict == "missed" and missed.value < 1
    absent = found["quadratic.float32/jax: times as fast as CuPy's fuse"]
    assert absent.verdict == gpu_aims.UNKNOWN and "no times of quadratic.float32/jax" in absent.why
    share = found["quadratic.float64/numba: share of the copy bandwidth"]
    row = example.row("quadratic.float64", "numba")
    assert share.value == row.bandwidth("device") / example.copy_bandwidth()
    assert {aim.verdict for aim in gpu_aims.aims(None)} == {gpu_aims.UNKNOWN}


# -- pictures ---------------------------------------------------------------------------------

DRAWN = {
    "bars": lambda: measured.recorded_times("quadratic.float64"),
    "some bars": lambda: measured.recorded_times("reduction", ["tree", "cupy"]),
    "copies": lambda: measured.recorded_times("zmass"),
    "scan": lambda: measured.recorded_scaling("scaling.quadratic"),
    "roofline": lambda: measured.recorded_roofline(),
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_a_picture_says_where_it_was_measured(draw, example: Results) -> None:
    picture = draw()
    assert isinstance(picture, Picture) and "image" not in picture.alt
    assert "EXAMPLE, NOT MEASURED (numbers made up in a test)" in picture.alt
    titles = [axes.get_title() for axes in picture.figure.axes]
    assert any("EXAMPLE, NOT MEASURED" in title for title in titles)
    assert "<img" in picture._repr_mimebundle_()["text/html"]
    del example.document["example"]
    assert "NVIDIA Example, driver 1.2.3, 2000-01-01" in draw().alt


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_without_a_run_there_are_words_and_no_plot(draw, nothing: None) -> None:
    view = draw()
    assert view.text == results.NOT_YET and "<img" not in view.markup and "svg" not in view.markup


def test_a_row_that_the_run_lacks_is_told(example: Results) -> None:
    view = measured.recorded_times("sampling.disc")
    assert view.text == (
        "There is nothing to draw, because the recorded run has no times of 'sampling.disc'. "
        "`make bench-gpu` measures it."
    )
    assert "There is nothing to draw" in measured.recorded_scaling("scaling.reduction").text


def test_bars_tell_times_shares_and_the_order(example: Results) -> None:
    picture = measured.recorded_times("histogram.peaks")
    assert "Medians of the time on the GPU, measured with CUDA events" in picture.alt
    order = ("CUDA C++ twin", "cupy.histogram", "one for each thread")
    assert [picture.alt.index(name) for name in order] == sorted(map(picture.alt.index, order))
    row = example.row("histogram.peaks", "shared")
    share = row.bandwidth("device") / example.copy_bandwidth()
    assert f"{share:.0%} of the copy bandwidth" in picture.alt
    assert "by the host's clock" in measured.recorded_times("quadratic.float64").alt, "JAX's clock"


def test_a_scan_tells_where_the_gpu_wins(example: Results) -> None:
    alt = measured.recorded_scaling("scaling.quadratic").alt
    assert "Numba kernel is faster than the CPU from 65,536 upwards" in alt
    assert "from 256 to 1,048,576 particles" in alt


# -- where the file is ------------------------------------------------------------------------


def test_the_package_has_a_copy_where_there_is_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    package = tmp_path / "site" / "gpucourse"
    (package / "recorded").mkdir(parents=True)
    monkeypatch.setattr(checkout, "PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    assert results.recorded() is None
    (package / "recorded" / results.NAME).write_text(json.dumps(gpu_example.document()))
    assert results.recorded().example


def test_a_checkout_comes_before_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "course.toml").write_text("")
    folder = tmp_path / "lab" / "results"
    folder.mkdir(parents=True)
    document = {**gpu_example.document(), "example": "of the checkout"}
    (folder / results.NAME).write_text(json.dumps(document))
    (tmp_path / "lectures").mkdir()
    monkeypatch.chdir(tmp_path / "lectures")
    assert results.recorded().example == "of the checkout"


def test_what_is_committed_was_measured() -> None:
    """Neither an example nor a part of a run is committed."""
    found = results.recorded()
    if found is None:
        assert not PATH.exists()
        return
    assert not found.example and found.document["gpu"]["name"]
    assert {row.group for row in found.rows.values()} <= set(ORDER)
    assert found.of("copy") and found.of("quadratic.float64")


def test_each_picture_of_the_course_has_its_rows() -> None:
    """No page, slide or notebook says that something was not measured."""
    calls = [
        call
        for path in sorted((PATH.parents[2] / "course").rglob("notebook.py"))
        for call in re.findall(r"\brecorded_\w+\([^()]*\)", path.read_text(encoding="utf-8"))
    ]
    assert len(calls) >= 10
    for call in calls:
        name, argument = re.fullmatch(r"(\w+)\((?:\"([\w.]+)\")?\)", call).groups()
        drawn = getattr(measured, name)(*([argument] if argument else []))
        assert isinstance(drawn, Picture), f"{call}: {drawn.text}"


def test_pictures_of_one_place_are_shown_together(example: Results, capsys) -> None:
    measured.recorded(measured.recorded_scaling("scaling.quadratic"), measured.recorded_roofline())
    assert [line[:5] for line in capsys.readouterr().out.splitlines()] == ["Lines", "Roofl"]


def test_that_nothing_was_measured_is_said_once(nothing: None, capsys) -> None:
    measured.recorded(measured.recorded_times("launch"), measured.recorded_roofline())
    assert capsys.readouterr().out == f"{results.NOT_YET}\n"
