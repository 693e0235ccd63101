"""Pictures: what they say, and what they refuse."""

from __future__ import annotations

import base64
import html
import io
import re
import runpy
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from conftest import REPOSITORY
from gpucourse.notebook import figures
from gpucourse.views.dial import dial
from gpucourse.views.picture import ON_DARK, Picture, canvas
from gpucourse.views.threads import draw_lanes
from gpucourse.views.tree import draw_levels

IMAGES = REPOSITORY / "img"


@pytest.mark.parametrize(
    "draw",
    [
        lambda: draw_levels([np.arange(5), np.arange(3), np.arange(2), np.arange(1)]),
        lambda: draw_lanes(np.arange(64) % 4, per="muon"),
    ],
)
def test_what_stands_on_the_page_can_be_read_on_a_dark_one(draw):
    """Dark ink is for what is filled with a colour; the page's own letters follow its theme."""
    with mpl.rc_context(figures.DARK):
        texts = [text for axes in draw().figure.axes for text in axes.texts]
    assert texts and all(text.get_bbox_patch() or text.get_color() == ON_DARK for text in texts)


def test_a_picture_is_an_image_with_its_alt_text():
    figure, axes = canvas(2, 1)
    axes.plot([0, 1])
    bundle = Picture(figure, 'a line, "rising"')._repr_mimebundle_()
    assert bundle["text/plain"] == 'a line, "rising"'
    assert 'alt="a line, &quot;rising&quot;"' in bundle["text/html"]
    assert 150 < int(re.search(r'width="(\d+)"', bundle["text/html"])[1]) < 170  # 2 inches at 80
    data = re.search(r"svg\+xml;base64,([^\"]+)", bundle["text/html"])[1]
    assert b"<svg " in base64.b64decode(data)


def test_a_picture_of_many_points_is_one_of_pixels():
    figure, axes = canvas(2, 1)
    axes.plot(np.arange(5000), np.arange(5000) % 7, ".")
    markup = Picture(figure, "points")._repr_mimebundle_()["text/html"]
    data = re.search(r"png;base64,([^\"]+)", markup)[1]
    assert base64.b64decode(data).startswith(b"\x89PNG")
    assert 150 < int(re.search(r'width="(\d+)"', markup)[1]) < 170


def test_pictures_are_not_kept_by_pyplot():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    draw_lanes(np.arange(4))
    assert plt.get_fignums() == before


def test_a_dial_shows_a_picture_for_each_setting_and_says_them_all_in_words():
    def drawn(most):
        return draw_lanes(np.arange(32) % (most + 1))

    turned = dial("most <turns>", {n: drawn(n) for n in (2, 4, 8)})
    assert re.findall(r'<label class="s\d" .*?>(\d)</label>', turned.markup) == ["2", "4", "8"]
    assert re.findall(r'type="radio" .*?aria-label="(.*?)"( checked)?', turned.markup) == [
        (f"most &lt;turns&gt;: {n}", checked) for n, checked in ((2, " checked"), (4, ""), (8, ""))
    ]
    for n, frame in zip((2, 4, 8), turned.markup.split('<div class="f f')[1:], strict=True):
        assert f"{32 * n} are executed" in frame
    told = turned.text.splitlines()
    for n, line in zip((2, 4, 8), told, strict=True):
        assert line.startswith(f"most <turns>: {n}. Bars") and f"{32 * n} are executed" in line


def test_lanes_counts_useful_and_paid_turns():
    work = np.zeros(40, int)
    work[:3] = 5, 1, 2
    work[39] = 3
    picture = draw_lanes(work)
    assert "need 11 iterations" in picture.alt
    assert f"{32 * 5 + 32 * 3} are executed" in picture.alt
    assert draw_lanes(np.zeros(32, int)).alt.endswith("0 are executed.")


def test_lanes_numbers_the_warps_from_the_first_thread():
    picture = draw_lanes(np.ones(64, int), first=320)
    texts = [text.get_text() for text in picture.figure.axes[0].texts]
    assert texts == ["warp 10", "warp 11"]


def test_levels_draws_every_value_and_marks_what_is_left_out():
    whole = draw_levels([np.array([3, 1, 2]), np.array([5, 1]), np.array([6])])
    texts = [text.get_text() for text in whole.figure.axes[0].texts]
    assert sorted(t for t in texts if t.isdigit()) == ["1", "1", "2", "3", "5", "6"]
    assert "left out" not in whole.alt and whole.alt.endswith("the last value is 6.")
    short = draw_levels([np.array([3, 1, 7]), np.array([4])])
    assert "1 value is left out on the way: 7" in short.alt


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: draw_levels([np.zeros(33)]), "33 values are too many"),
        (lambda: draw_lanes(np.zeros(129, int)), "129 threads cannot be drawn"),
        (lambda: draw_lanes(np.zeros(0, int)), "0 threads cannot be drawn"),
        (lambda: draw_lanes(np.ones(32, int), first=5), "not the first of its warp"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


DRAWN = [path for path in sorted(IMAGES.glob("*.py")) if path.with_suffix(".svg").exists()]


@pytest.mark.parametrize("script", DRAWN, ids=lambda path: path.stem)
def test_every_figure_is_what_its_script_draws(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """To the byte, and with a description; after a change run ``python img/NAME.py``."""
    monkeypatch.syspath_prepend(IMAGES)
    figure = runpy.run_path(str(script))
    figure["sketch"].save(figure["draw"](), str(tmp_path / script.name), figure["ALT"])
    drawn = (tmp_path / script.name).with_suffix(".svg").read_text(encoding="utf-8")
    kept = script.with_suffix(".svg").read_text(encoding="utf-8")
    assert html.unescape(title(kept)) == figure["ALT"] and len(figure["ALT"]) > 100
    assert drawn == kept or not same_matplotlib(kept)


def test_no_figure_lacks_its_script():
    for figure in [*IMAGES.glob("*.svg"), *IMAGES.glob("*.png")]:
        assert figure.with_suffix(".py").is_file(), figure


def title(svg: str) -> str:
    return re.search(r"<dc:title>(.*?)</dc:title>", svg, re.DOTALL)[1]


def same_matplotlib(svg: str) -> bool:
    """Another release of matplotlib may place a curve's points a little differently."""
    return f"matplotlib {mpl.__version__}" in svg


def test_a_figure_of_pyplot_is_shown_with_its_words_and_once(monkeypatch):
    from matplotlib import pyplot

    from gpucourse.views.picture import Picture, show_figure

    shown = []
    monkeypatch.setattr("gpucourse.exercises.outcomes.show", shown.append)
    pyplot.figure(figsize=(2, 1))
    pyplot.plot([1, 2])
    show_figure("A line that rises from 1 to 2.")
    (picture,) = shown
    assert isinstance(picture, Picture) and picture.alt == "A line that rises from 1 to 2."
    assert 'alt="A line that rises from 1 to 2."' in picture._repr_mimebundle_()["text/html"]
    assert pyplot.get_fignums() == [], "the notebook would show it again"


@pytest.mark.parametrize(("layout", "height"), [(None, 1), ("constrained", 3)])
def test_nothing_of_a_figure_is_cut_off_at_its_edge(layout, height, monkeypatch):
    from matplotlib import pyplot

    monkeypatch.setattr("gpucourse.views.picture.MOST_VECTORS", 0)
    figure, axes = pyplot.subplots(1, 4, figsize=(11, height), layout=layout)
    for each in axes:  # squares: low for their labels in either layout
        each.imshow(np.zeros((40, 40)))
        each.set(title="patient", xlabel="mass of the muon pair [GeV]")
    markup = Picture(figure, "Four squares.")._repr_mimebundle_()["text/html"]
    pyplot.close(figure)
    png = base64.b64decode(re.search(r'base64,([^"]+)"', markup)[1])
    pixels = mpl.image.imread(io.BytesIO(png))[..., :3]
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert (edge == 1).all()
    assert f'width="{pixels.shape[1] // 2}"' in markup
