"""The check of a site's pages finds dead links and loads from the network, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucourse.publish.site.offline import css_targets, mistakes

GOOD = """<!doctype html><html><head>
<link rel="stylesheet" href="style.css?v=1"><link rel="next" href="other/b.html">
<script src="code.js"></script><style>p { background: url(data:image/png;base64,AA==) }</style>
</head><body><h1 id="here">A</h1>
<a href="#here">down</a> <a href="other/b.html#there">on</a> <a href="https://example.org/x">out</a>
<a href="mailto:a@example.org">write</a> <img src="data:image/png;base64,AA==" alt="">
<svg xmlns="http://www.w3.org/2000/svg"><use href="#here"/></svg>
<pre>&lt;script src="https://example.org/no.js"&gt;</pre></body></html>
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "other").mkdir()
    (tmp_path / "a.html").write_text(GOOD)
    (tmp_path / "other" / "b.html").write_text('<p id="there">B</p><a href="../a.html">up</a>')
    (tmp_path / "style.css").write_text('p { background: url("picture%20one.png") }')
    (tmp_path / "picture one.png").write_bytes(b"")
    (tmp_path / "code.js").write_text("")
    return tmp_path


def test_a_site_that_works_alone_has_no_mistakes(site: Path):
    assert mistakes(site) == []


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js from"),
        ('<script src="//example.org/x.js"></script>', "loads //example.org/x.js from the network"),
        (
            '<link rel="stylesheet" href="http://example.org/x.css">',
            "loads http://example.org/x.css",
        ),
        ('<link rel="preconnect" href="https://example.org">', "loads https://example.org from"),
        (
            '<link rel="icon" href="HTTPS://example.org/i.ico">',
            "loads HTTPS://example.org/i.ico from",
        ),
        (
            '<img src="https://example.org/x.png">',
            "loads https://example.org/x.png from the network",
        ),
        (
            '<img srcset="a.html 1x, https://example.org/x.png 2x">',
            "loads https://example.org/x.png",
        ),
        (
            '<iframe src="https://example.org/"></iframe>',
            "loads https://example.org/ from the network",
        ),
        (
            '<video poster="https://example.org/x.png"></video>',
            "loads https://example.org/x.png from",
        ),
        (
            '<p style="background:url(https://example.org/x.png)">',
            "loads https://example.org/x.png",
        ),
        (
            '<style>@import "https://example.org/x.css";</style>',
            "loads https://example.org/x.css from",
        ),
        (
            "<style>@font-face{src:url(//example.org/f.woff2)}</style>",
            "loads //example.org/f.woff2",
        ),
        ('<a href="other/c.html">x</a>', "other/c.html leads nowhere"),
        ('<a href="other/">x</a>', "other/ leads nowhere"),
        ('<a href="../elsewhere.html">x</a>', "../elsewhere.html leads out of the folder"),
        ('<a href="#nothing">x</a>', "#nothing: no such place on that page"),
        (
            '<a href="other/b.html#nothing">x</a>',
            "other/b.html#nothing: no such place on that page",
        ),
        ('<img src="missing.png">', "missing.png leads nowhere"),
        ('<script src="missing.js"></script>', "missing.js leads nowhere"),
    ],
)
def test_each_kind_of_mistake_is_found_with_its_line(site: Path, element: str, message: str):
    (site / "a.html").write_text(GOOD.replace("</body>", f"{element}</body>"))
    (found,) = map(str, mistakes(site))
    assert found.startswith(f"a.html:8: {message}")


def test_styles_are_read_too(site: Path):
    (site / "style.css").write_text("/* url(//a.example/no) */\n@import url('//b.example/x.css');")
    (found,) = map(str, mistakes(site))
    assert found == "style.css: loads //b.example/x.css from the network"
    (site / "style.css").write_text("p { background: url(none.png) }")
    (found,) = map(str, mistakes(site))
    assert found == "style.css: none.png leads nowhere"
    assert css_targets("a{b:url( 'x.png' )}@import \"y.css\";") == ["x.png", "y.css"]
