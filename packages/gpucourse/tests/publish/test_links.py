"""Links of documents and notebooks: a dead one is found, and the repository has none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gpucourse.publish.source.links import anchored, dead_links, links, slug, without_anchors


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("1. From a loop to a kernel", "1-from-a-loop-to-a-kernel"),
        ("5. π, and by how much it may be off", "5-π-and-by-how-much-it-may-be-off"),
        ("`jit`: compile & run", "jit-compile--run"),
        ("See [the guide](guide.md)", "see-the-guide"),
    ],
)
def test_a_headings_place(heading: str, name: str):
    assert slug(heading) == name


def test_what_counts_as_a_link():
    text = (
        "[a](a.md) ![two\nlines](b.svg) [`code`](c.md#d) [e](<e.md>) `[f](f.md)`\n"
        '```\n[g](g.md)\n```\n[h](h.md "title") [i[0]](i.md) kernel[1, 32](x, y)\n'
    )
    assert list(links(text)) == ["a.md", "b.svg", "c.md#d", "e.md", "h.md", "i.md"]


def test_dead_links_are_found(tmp_path: Path):
    (tmp_path / "b.md").write_text("# One place\n\n# One place\n")
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "[dead](../none.ipynb)"]},
            {"cell_type": "code", "source": ["# [not a link](none.md)"]},
        ]
    }
    (tmp_path / "n.ipynb").write_text(json.dumps(notebook))
    (tmp_path / "a.md").write_text(
        "# Here\n[1](b.md) [2](b.md#one-place) [3](b.md#one-place-1) [4](#here) [5](n.ipynb#title) "
        "[6](https://example.org/none#none) [7](mailto:a@example.org)\n"
        "[x](c.md) [x](b.md#none) [x](#none) [x](n.ipynb#none)\n"
    )
    files = [tmp_path / "a.md", tmp_path / "n.ipynb"]
    assert [str(problem) for problem in dead_links(tmp_path, files)] == [
        "a.md: links to c.md, which does not exist",
        "a.md: links to b.md#none: b.md has no such heading",
        "a.md: links to #none: a.md has no such heading",
        "a.md: links to n.ipynb#none: n.ipynb has no such heading",
        "n.ipynb: links to ../none.ipynb, which does not exist",
    ]


def test_the_repository_has_no_dead_link(repository: Path):
    names = subprocess.run(
        ["git", "ls-files", "-z", "*.md", "*.ipynb"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files = [repository / name for name in names.split("\0") if name]
    # docs/site/index.md and docs/handout/README.md stand at the root of the site and of the
    # handout; tests build both.
    # Those in grading/source lead from where the notebooks are released to, which is tested there.
    files = [
        path
        for path in files
        if path.is_file()
        and path.parent.name not in ("site", "handout")
        and not path.is_relative_to(repository / "grading" / "source")
    ]
    assert len(files) > 20
    assert list(map(str, dead_links(repository, files))) == []


def test_each_section_of_a_notebook_has_an_anchor_of_the_name_that_links_use():
    sources = [
        "# Title\n\n## A `b`, c?",
        "```\n## no heading\n```\n## Again\n\ntext",
        "### Again",
        "### BEGIN SOLUTION\nwords\n### END SOLUTION",
    ]
    with_anchors = anchored(sources)
    assert with_anchors == [
        '# Title\n\n<a id="a-b-c"></a>\n## A `b`, c?',
        '```\n## no heading\n```\n<a id="again"></a>\n## Again\n\ntext',
        '<a id="again-1"></a>\n### Again',
        sources[3],
    ]
    assert [without_anchors(text) for text in with_anchors] == sources
