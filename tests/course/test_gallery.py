"""The gallery notebook runs from top to bottom and shows what it promises."""

from __future__ import annotations

from itertools import chain

import nbclient
import nbformat
import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import load_course
from gpucourse.publish.notebooks.derive import cell_id
from gpucourse.publish.source.gallery import LESSON, read_gallery

pytestmark = pytest.mark.rehearsal

#: Bytes of one cell's output: two pictures side by side count as one.
LIMIT = 300_000


@pytest.fixture(scope="module")
def outputs() -> dict[str, list]:
    """What came out of each code cell of the gallery, by the cell's name."""
    source = read_gallery(load_course(REPOSITORY))
    notebook = nbformat.read(REPOSITORY / "lectures" / "gallery.ipynb", as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", extra_arguments=["--log-level=ERROR"]
    ).execute()
    ran = {cell.id: cell.get("outputs", []) for cell in notebook.cells}
    return {
        cell.name: ran[cell_id(LESSON.id, cell.name)]
        for cell in source.cells
        if cell.kind == "code"
    }


def shown(outputs: list) -> list[dict]:
    return [output.data for output in outputs if "data" in output]


def test_nothing_complains(outputs):
    assert [o for o in chain(*outputs.values()) if o.get("name") == "stderr"] == []


def test_every_picture_is_there_with_its_words_and_small(outputs):
    pictures = {name: data for name, found in outputs.items() for data in shown(found)}
    assert pictures.keys() == outputs.keys() - {"load", "card-kernels"}
    for name, data in pictures.items():
        assert len(data["text/html"]) < LIMIT, name
        assert len(data["text/plain"]) > 80, name
        assert "<script" not in data["text/html"] and "http" not in data["text/html"].replace(
            'xmlns="http://www.w3.org/2000/svg"', ""
        ).replace('xmlns:xlink="http://www.w3.org/1999/xlink"', ""), name


def test_good_and_bad_kernels_are_told_apart(outputs):
    def words(name: str) -> str:
        return " ".join(shown(outputs[name])[0]["text/plain"].split())

    assert "as few as would do" in words("card-good") and "✗" not in words("card-good")
    assert "32 sectors of 32 bytes; 4 would do" in words("card-strided")
    assert "✗ race" in words("card-race") and "put cuda.syncthreads()" in words("card-race")
    assert "✗ bad address" in words("card-out-of-bounds")
    assert "32 wavefronts; 1 would do" in words("banks")
    assert "no bank is accessed twice" in words("banks")
    assert "66 at the end" in words("tree-right")
    assert "2 values never reach the top: element 10 (11), element 4 (15)" in words("tree-wrong")
    assert "that update is lost" in words("race-update")
    assert "reads unwritten" in words("race-order")
    assert "nothing to replay" in words("race-none")
    assert "✗ forgot half" in words("compare-kernels")


def test_messages_name_the_cells_lines(outputs):
    text = shown(outputs["card-race"])[0]["text/plain"]
    assert "line 5: s[t] = x[i]" in text and "cell In[" in text
