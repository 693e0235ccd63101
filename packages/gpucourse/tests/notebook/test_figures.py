"""Figures on JupyterLab's dark theme."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.colors import to_hex

from gpucourse.notebook import figures
from gpucourse.views import picture


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that JupyterLab keeps the theme in."""
    monkeypatch.setenv("JUPYTERLAB_SETTINGS_DIR", str(tmp_path))
    setting = tmp_path / figures.SETTING
    setting.parent.mkdir(parents=True)
    with mpl.rc_context():
        yield setting
        setting.unlink(missing_ok=True)
        figures.follow_theme()


def test_figures_follow_the_theme_that_is_chosen(chosen: Path):
    light = dict(mpl.rcParams)
    figures.follow_theme()
    assert dict(mpl.rcParams) == light
    chosen.write_text('// Theme\n{\n    // Selected Theme\n    "theme": "JupyterLab Dark"\n}')
    figures.follow_theme()
    figure, axes = picture.canvas(2, 2)
    assert to_hex(figure.get_facecolor()) == to_hex(axes.get_facecolor()) == figures.PAPER
    assert axes.set_title("t").get_color() == picture.ON_DARK
    # Views stand in the page itself, whose colour of text they take.
    assert picture.ON_DARK.lower() not in picture.themed_svg(figure, "t")
    mpl.rcParams["grid.color"] = "red"  # the user's own
    chosen.write_text('{"theme": "JupyterLab Light"}')
    figures.follow_theme()
    assert dict(mpl.rcParams) == light | {"grid.color": "red"}


def test_a_picture_has_the_paper_of_its_figure(chosen: Path):
    from base64 import b64decode

    chosen.write_text('{\n  "theme": "JupyterLab Dark"\n}')
    for paper in (figures.PAPER, "#ffffff"):
        figures.follow_theme()
        shown = picture.Picture(picture.canvas(2, 2)[0], "t")._repr_mimebundle_()["text/html"]
        svg = b64decode(shown.partition("base64,")[2].partition('"')[0]).decode()
        assert re.search(r"fill: (#\w{6})", svg)[1] == paper
        chosen.unlink(missing_ok=True)
