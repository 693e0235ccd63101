"""Forty ways in which a correct notebook of project 1 is submitted.

They come from editors, platforms and habits. Each style is a function that changes a solved
notebook (a dict, in place) as the tool or the person does. Styles that change the file's bytes
return them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

Style = Callable[[dict], bytes | None]
STYLES: dict[str, Style] = {}
PICTURE = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
        "gg=="
    )
).decode()
WRITTEN = (
    "The total agrees although each event may be one bin off.",
    "A race needs two threads at one slot at one moment.",
    "I would copy the five hot slots into shared memory.",
)


def style(change: Style) -> Style:
    """Register a function under its name, with hyphens."""
    STYLES[change.__name__.strip("_").replace("_", "-")] = change
    return change


# --- parts of a notebook ------------------------------------------------------------------------


def place(notebook: dict, name: str) -> int:
    """Return the index of the first cell with the grade_id `name`."""
    return next(
        n
        for n, cell in enumerate(notebook["cells"])
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == name
    )


def cell(source: str, kind: str = "code") -> dict:
    """Return a cell that a student adds, as JupyterLab makes it."""
    made = {"cell_type": kind, "metadata": {}, "source": source}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def split(notebook: dict, name: str, *parts: str, marked: Sequence[bool] = ()) -> list[dict]:
    """Replace an answer by cells with `parts`; all, or those `marked`, get its metadata."""
    at = place(notebook, name)
    whole = notebook["cells"][at]
    made = []
    for n, part in enumerate(parts):
        one = deepcopy(whole) | {"source": part}
        one.pop("id", None)
        if marked and not marked[n]:
            one["metadata"] = {}
        made.append(one)
    notebook["cells"][at : at + 1] = made
    return made


def source(notebook: dict, name: str) -> str:
    """Return the answer in the cell `name`."""
    return notebook["cells"][place(notebook, name)]["source"]


def in_functions(text: str) -> list[str]:
    """Split a text where one of its functions begins."""
    return [part.strip() for part in re.split(r"(?m)^(?=@cuda\.jit)", text) if part.strip()]


def helper(notebook: dict) -> tuple[str, str]:
    """Return `fill_atomic` in two parts, with the slot computed by a device function."""
    return (
        "@cuda.jit(device=True)\n"
        "def slot_of(value, low, high, counts):\n"
        "    return bin_index(value, low, high, counts.size - 2)",
        "@cuda.jit\n"
        "def fill_atomic(values, low, high, counts):\n"
        "    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):\n"
        "        cuda.atomic.add(counts, slot_of(values[i], low, high, counts), 1)",
    )


def without_ids(notebook: dict) -> None:
    for one in notebook["cells"]:
        one.pop("id", None)
    notebook["nbformat_minor"] = 4


def without_metadata(notebook: dict) -> None:
    notebook["metadata"] = {}
    for one in notebook["cells"]:
        one["metadata"] = {}


# --- split cells --------------------------------------------------------------------------------


@style
def as_it_was_saved(notebook: dict) -> None:
    pass


@style
def split_by_functions(notebook: dict) -> None:
    for name in ("bin-index", "golf-kernels"):
        split(notebook, name, *in_functions(source(notebook, name)))


@style
def split_helper_above(notebook: dict) -> None:
    split(notebook, "fill-atomic", *helper(notebook))


@style
def split_helper_below(notebook: dict) -> None:
    split(notebook, "fill-atomic", *helper(notebook)[::-1])


@style
def split_from_notes_and_a_check(notebook: dict) -> None:
    for name, more in (
        ("fill-private", "# my notes: rows are private"),
        ("predict-passes", "predict_passes(np.random.rand(320), 0.0, 1.0, 5)"),
        ("histogram", "plt.stairs(histogram(masses, 0.0, 120.0, 80))"),
    ):
        split(notebook, name, source(notebook, name), more)


@style
def split_in_three_with_prose_between(notebook: dict) -> None:
    above, below = helper(notebook)
    split(notebook, "fill-atomic", "SHIFT = 0", above, below)
    at = place(notebook, "fill-atomic") + 1
    notebook["cells"][at:at] = [cell("Now the kernel itself.", "markdown"), cell("print(SHIFT)")]


@style
def split_with_a_part_as_text(notebook: dict) -> None:
    made = split(notebook, "merge-rows", "My tree, row by row.", source(notebook, "merge-rows"))
    made[0]["cell_type"] = "markdown"


@style
def split_by_vs_code_below(notebook: dict) -> None:
    split(notebook, "fill-atomic", *helper(notebook), marked=(True, False))
    parts = in_functions(source(notebook, "bin-index"))
    split(notebook, "bin-index", *parts, marked=(True, False))


@style
def split_by_vs_code_above(notebook: dict) -> None:
    split(notebook, "fill-atomic", *helper(notebook), marked=(False, True))


@style
def split_with_the_starter_left(notebook: dict) -> None:
    at = place(notebook, "fill-shared")
    answer = notebook["cells"][at]["source"]
    stub = (
        "@cuda.jit\ndef fill_shared(values, low, high, counts):\n"
        "    # YOUR CODE HERE\n    raise NotImplementedError()"
    )
    split(notebook, "fill-shared", answer, stub)


@style
def split_between_decorator_and_body(notebook: dict) -> None:
    lines = source(notebook, "merge-rows").split("\n")
    split(notebook, "merge-rows", "\n".join(lines[:5]), "\n".join(lines[5:]))


@style
def split_far_apart(notebook: dict) -> None:
    """Move the upper half to the top."""
    above, _ = split(notebook, "fill-atomic", *helper(notebook))
    notebook["cells"].remove(above)
    notebook["cells"].insert(4, above)


@style
def an_older_version_above(notebook: dict) -> None:
    old = "@cuda.jit\ndef fill_atomic(values, low, high, counts):\n    counts[0] += 1"
    split(notebook, "fill-atomic", old, source(notebook, "fill-atomic"))


@style
def written_answer_split(notebook: dict) -> None:
    split(notebook, "reflection", *WRITTEN)


@style
def written_answer_below(notebook: dict) -> None:
    at = place(notebook, "reflection")
    notebook["cells"][at]["source"] = "YOUR ANSWER HERE"
    notebook["cells"].insert(at + 1, cell(" ".join(WRITTEN), "markdown"))


# --- merged and moved cells ---------------------------------------------------------------------


def merge(notebook: dict, first: str, last: str) -> None:
    """Merge cells as JupyterLab does, keeping the first one's metadata."""
    at, end = place(notebook, first), place(notebook, last)
    code = [one for one in notebook["cells"][at : end + 1] if one["cell_type"] == "code"]
    notebook["cells"][at]["source"] = "\n\n".join(one["source"] for one in code)
    del notebook["cells"][at + 1 : end + 1]


@style
def two_answers_merged(notebook: dict) -> None:
    merge(notebook, "golf-kernels", "histogram-golf")


@style
def an_answer_merged_with_its_test(notebook: dict) -> None:
    merge(notebook, "fill-weighted", "test-fill-weighted")


@style
def a_test_merged_with_the_next_answer(notebook: dict) -> None:
    merge(notebook, "test-histogram", "predict-passes")


@style
def answers_below_their_starters(notebook: dict) -> None:
    for name in ("histogram", "merge-rows"):
        at = place(notebook, name)
        answer = notebook["cells"][at]["source"]
        head = answer[: answer.index('"""')]
        notebook["cells"][at]["source"] = (
            f'{head}"""As it was."""\n    # YOUR CODE HERE\n    raise NotImplementedError()'
        )
        notebook["cells"].insert(at + 1, cell(answer))


@style
def reversed_(notebook: dict) -> None:
    notebook["cells"].reverse()


@style
def answers_moved_to_the_end(notebook: dict) -> None:
    names = ("fill-private", "fill-atomic", "histogram")
    moved = [notebook["cells"][place(notebook, name)] for name in names]
    notebook["cells"] = [one for one in notebook["cells"] if one not in moved] + moved


@style
def cells_of_ones_own_everywhere(notebook: dict) -> None:
    mixed = []
    for one in notebook["cells"]:
        mixed += [one, cell("values = np.arange(5.0)\nprint(values)"), cell("A note.", "markdown")]
    notebook["cells"] = mixed


# --- converters ---------------------------------------------------------------------------------


@style
def metadata_stripped(notebook: dict) -> None:
    without_metadata(notebook)


@style
def nbstripout(notebook: dict) -> None:
    """Keep all keys of the metadata, but number the cells' ids."""
    without_metadata(notebook)
    for n, one in enumerate(notebook["cells"]):
        one["id"] = str(n)


@style
def stripped_and_split(notebook: dict) -> None:
    split(notebook, "fill-atomic", *helper(notebook))
    split(notebook, "bin-index", *in_functions(source(notebook, "bin-index")))
    split(notebook, "reflection", *WRITTEN)
    without_metadata(notebook)
    without_ids(notebook)


@style
def jupytext_percent(notebook: dict) -> bytes:
    return _through_jupytext(notebook, "py:percent", keep="nbgrader")


@style
def jupytext_light(notebook: dict) -> bytes:
    return _through_jupytext(notebook, "py:light", keep="-all")


@style
def jupytext_markdown(notebook: dict) -> bytes:
    return _through_jupytext(notebook, "md", keep="-all")


def _through_jupytext(notebook: dict, form: str, keep: str) -> bytes:
    whole = nbformat.from_dict(notebook)
    whole.metadata["jupytext"] = {"cell_metadata_filter": keep, "notebook_metadata_filter": keep}
    text = jupytext.writes(whole, form)
    return nbformat.writes(jupytext.reads(text, form)).encode()


@style
def nbconvert_to_a_script_and_back(notebook: dict) -> bytes:
    """As VS Code's *Import Notebook* makes one of ``# In[ ]:``, prose in comments."""
    cells = []
    for one in notebook["cells"]:
        if one["cell_type"] != "code":
            cells.append(new_markdown_cell(one["source"]))
            continue
        text = re.sub(
            r"(?m)^%(\w+) ?(.*)$", r"get_ipython().run_line_magic('\1', '\2')", one["source"]
        )
        cells.append(new_code_cell(text + "\n"))
    return _bare(cells)


@style
def all_code_in_one_cell(notebook: dict) -> bytes:
    """Put all code into one cell, as converters without cells do."""
    code = [one["source"] for one in notebook["cells"] if one["cell_type"] == "code"]
    text = [one["source"] for one in notebook["cells"] if one["cell_type"] != "code"]
    return _bare([new_code_cell("\n\n".join(code)), new_markdown_cell("\n\n".join(text))])


@style
def a_cell_for_each_function(notebook: dict) -> bytes:
    """Copy the answers into a new notebook."""
    cells = []
    for one in notebook["cells"]:
        data = one["metadata"].get("nbgrader", {})
        if data.get("solution") and one["cell_type"] == "code":
            parts = in_functions(one["source"])
            cells += [new_code_cell(part) for part in parts]
    return _bare(cells)


def _bare(cells: list) -> bytes:
    return nbformat.writes(new_notebook(cells=cells)).encode()


# --- editors and platforms ----------------------------------------------------------------------


@style
def vs_code(notebook: dict) -> None:
    for one in notebook["cells"]:
        one["metadata"]["vscode"] = {"languageId": "python"}
    notebook["metadata"] = {"language_info": {"name": "python"}, "vscode": {"interpreter": {}}}


@style
def colab(notebook: dict) -> None:
    without_ids(notebook)
    for n, one in enumerate(notebook["cells"]):
        one["metadata"] |= {"id": f"x{n}", "executionInfo": {"status": "ok"}}
    notebook["metadata"] = {"colab": {"provenance": []}, "accelerator": "GPU"}


@style
def colab_split(notebook: dict) -> None:
    split(notebook, "fill-atomic", *helper(notebook), marked=(True, False))
    split(notebook, "reflection", *WRITTEN, marked=(True, False, False))
    colab(notebook)


@style
def deepnote(notebook: dict) -> None:
    """Put each paragraph into a separate cell, with one of the platform's cells at the end."""
    without_ids(notebook)
    cells = []
    for one in notebook["cells"]:
        name = one["metadata"].get("nbgrader", {}).get("grade_id")
        texts = [one["source"]] if one["cell_type"] == "code" else one["source"].split("\n\n")
        for n, text in enumerate(texts):
            block = deepcopy(one) | {"source": text}
            block["metadata"] |= {"cell_id": f"{len(cells):032x}", "deepnote_cell_type": "code"}
            if name and n:
                del block["metadata"]["nbgrader"]
            cells.append(block)
    cells.append(cell("<a href='https://deepnote.com'>Created in Deepnote</a>", "markdown"))
    notebook["cells"] = cells
    notebook["metadata"] = {"deepnote": {}, "deepnote_notebook_id": "0" * 32}


@style
def kaggle(notebook: dict) -> None:
    for one in notebook["cells"]:
        one["metadata"] |= {"_uuid": "a-b", "_cell_guid": "c-d", "trusted": True}
        one["metadata"]["execution"] = {"iopub.status.busy": "2026-11-20T10:00:00Z"}


@style
def windows(notebook: dict) -> bytes:
    for one in notebook["cells"]:
        one["source"] = one["source"].replace("\n", "\r\n").splitlines(keepends=True)
    return b"\xef\xbb\xbf" + json.dumps(notebook, indent=1).replace("\n", "\r\n").encode()


@style
def powershell(notebook: dict) -> bytes:
    """Write the file through ``>``, which uses UTF-16."""
    return json.dumps(notebook, indent=1).replace("\n", "\r\n").encode("utf-16")


@style
def an_older_jupyter(notebook: dict) -> None:
    without_ids(notebook)
    notebook["nbformat_minor"] = 0
    for one in notebook["cells"]:
        one["source"] = one["source"].splitlines(keepends=True)
        one["metadata"]["collapsed"] = True


@style
def exporters_imports(notebook: dict) -> None:
    at = place(notebook, "predict-passes")
    notebook["cells"][at]["source"] = (
        "import IPython\nfrom IPython import get_ipython\n"
        "from IPython.display import HTML, Markdown, clear_output, display\n"
        "get_ipython().run_line_magic('matplotlib', 'inline')\n"
        "IPython.get_ipython().system('ls')\nclear_output(wait=True)\n"
        "display(HTML('<b>ok</b>'))\n" + notebook["cells"][at]["source"]
    )


@style
def a_pasted_picture(notebook: dict) -> None:
    at = place(notebook, "reflection")
    notebook["cells"][at]["source"] = "![image.png](attachment:image.png)\n\n" + " ".join(WRITTEN)
    notebook["cells"][at]["attachments"] = {"image.png": {"image/png": PICTURE}}


@style
def outputs_of_megabytes(notebook: dict) -> None:
    for one in [one for one in notebook["cells"] if one["cell_type"] == "code"][:3]:
        shown = {"image/png": "QUJD" * 2_000_000}
        one["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": shown}]
