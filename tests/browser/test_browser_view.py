"""What JupyterLab does with the course's notebooks: text, pictures that are stepped through, checks
under *Validate*, and a file that stays as it was when it is only read.

What the browser showed is kept in build/browser/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from playwright.sync_api import Locator, expect

from gpucourse.publish.notebooks.derive import notebook_text
from jupyter_lab import REPOSITORY, Server, Tab, chromium

pytestmark = [pytest.mark.browser, pytest.mark.rehearsal]

WORDS = "kernels go through the real compilers and run on the CPU of this very machine. "
CELLS = {
    "text": f"print({WORDS!r} * 6)",
    "error": f"raise ValueError({WORDS!r} * 3)",
    "picture": (
        "from IPython.display import HTML\nfrom gpucourse.views import page\n"
        "HTML(page.stepper(['<b>at the start</b>', '<b>then</b>', '<b>at the end</b>'], 'abc'))"
    ),
    "dial": (
        "import numpy as np\nfrom gpucourse.views.dial import dial\n"
        "from gpucourse.views.threads import draw_lanes\n"
        "dial('numbers of iterations', {n: draw_lanes(np.arange(32) % n) for n in (2, 4, 8)})"
    ),
    "card": (
        "import gpucourse\nimport numpy as np\nfrom numba import cuda\n\n"
        "@cuda.jit\ndef doubled_in_place(values):\n    i = cuda.grid(1)\n"
        "    if i < values.size:\n        values[i] *= 2\n\n"
        "gpucourse.report(doubled_in_place, 3, 32, np.ones(90))"
    ),
    "locked": "given = 3",
    "check": (
        "from gpucourse.exercises.outcomes import Outcome, show\n"
        "show(Outcome('double', False, 'doubled(3) is 3, not 6'));"
    ),
}


def turned() -> dict:
    """What the cell of the dial shows, as it is saved."""
    names: dict = {}
    exec(CELLS["dial"].replace("dial('numbers", "shown = dial('numbers"), names)
    return names["shown"]._repr_mimebundle_()


def lectures() -> list[str]:
    """Names of the course's notebooks, which the list of files beside the notebook shows."""
    return sorted(path.name for path in (REPOSITORY / "lectures").glob("*.ipynb"))


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A tab with a notebook as the course makes them, of one cell of each kind."""
    folder = tmp_path_factory.mktemp("learner")
    notebook = new_notebook(
        cells=[
            new_code_cell(text, id=f"c{n}", metadata={"editable": name != "locked"})
            for n, (name, text) in enumerate(CELLS.items())
        ],
        metadata={
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python", "version": "3.9.1"},
            "gpucourse": {"id": "welcome"},
        },
    )
    (folder / "welcome.ipynb").write_text(notebook_text(notebook))
    notebook.cells = [new_code_cell(CELLS["dial"], outputs=[new_output("display_data", turned())])]
    (folder / "elsewhere.ipynb").write_text(nbformat.writes(notebook))
    for lecture in lectures():
        (folder / lecture).touch()
    server = Server(folder, tmp_path_factory.mktemp("home"), autosave=False)
    server.start()
    try:
        with chromium() as browser:
            tab = Tab(browser.new_page(viewport={"width": 1000, "height": 800}), server)
            tab.open_notebook("welcome.ipynb")
            yield tab
    finally:
        server.stop()


def saved(tab: Tab) -> Path:
    return tab.server.folder / "welcome.ipynb"


def test_a_notebook_that_is_only_opened_stays_as_it_was(tab: Tab) -> None:
    before = saved(tab).read_bytes()
    tab.page.wait_for_timeout(1000)  # the kernel has told which Python it is
    expect(tab.unsaved()).to_have_count(0)
    tab.page.keyboard.press("Control+s")
    expect(tab.unsaved()).to_have_count(0)
    tab.menu("File", "Save Notebook")
    saved_lately = (
        "async () => (await (await fetch('/api/contents/welcome.ipynb?content=0')).json())"
        ".last_modified > new Date(Date.now() - 60000).toISOString()"
    )
    while not tab.page.evaluate(saved_lately):
        tab.page.wait_for_timeout(100)
    while not (after := saved(tab).read_bytes()):  # the server is writing it
        tab.page.wait_for_timeout(50)
    assert after == before


@pytest.mark.parametrize("width", [1280, 820])
def test_names_of_lectures_are_read_in_full(tab: Tab, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    names = tab.page.locator(".jp-DirListing-itemText")
    expect(names.filter(has_text=lectures()[-1])).to_be_attached()
    tab.page.wait_for_timeout(500)  # the list is laid out anew
    tab.picture(f"view-names-{width}")
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
    assert set(lectures()) <= set(names.all_text_contents())
    assert names.evaluate_all(cut) == []


def test_a_narrow_window_gives_its_room_to_an_opened_notebook(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 820, "height": 800})
    tab.open()
    expect(tab.page.locator("#filebrowser")).to_be_visible()
    tab.page.locator(".jp-DirListing-itemText", has_text="welcome.ipynb").dblclick()
    expect(tab.cells().first).to_be_visible()
    tab.wait_for_kernel("welcome.ipynb")
    tab.picture("view-narrow")
    expect(tab.page.locator("#filebrowser")).to_be_hidden()
    editor = tab.page.locator(".jp-CodeCell .cm-content").first
    letters = "e => e.clientWidth / (parseFloat(getComputedStyle(e).fontSize) * 0.6)"
    assert editor.evaluate(letters) > 72
    tab.page.locator(".jp-SideBar.jp-mod-left .lm-TabBar-tab").first.click()
    expect(tab.page.locator("#filebrowser")).to_be_visible()
    tab.page.set_viewport_size({"width": 1280, "height": 800})


def open_beside_files(tab: Tab) -> Locator:
    """Open the notebook in a wide window beside the list of files, and return the list."""
    files = tab.page.locator("#filebrowser")
    tab.page.set_viewport_size({"width": 1280, "height": 800})
    tab.open_notebook("welcome.ipynb")
    with tab.page.expect_response(lambda answer: "/api/workspaces" in answer.url):
        tab.menu("View", "File Browser")  # JupyterLab stores its layout after each change
    if files.is_hidden():
        with tab.page.expect_response(lambda answer: "/api/workspaces" in answer.url):
            tab.menu("View", "File Browser")
    expect(files).to_be_visible()
    return files


def test_a_window_made_narrow_folds_the_list_until_it_is_wide(tab: Tab) -> None:
    files = open_beside_files(tab)
    tab.page.set_viewport_size({"width": 820, "height": 800})
    expect(files).to_be_hidden()
    tab.page.set_viewport_size({"width": 1280, "height": 800})
    expect(files).to_be_visible()


def test_a_narrow_window_gives_its_room_to_a_restored_notebook(tab: Tab) -> None:
    files = open_beside_files(tab)
    address = tab.page.url
    tab.page.goto("about:blank")
    tab.page.set_viewport_size({"width": 820, "height": 800})
    tab.page.goto(address)
    tab.wait_for_kernel("welcome.ipynb")
    expect(files).to_be_hidden()
    tab.page.set_viewport_size({"width": 1280, "height": 800})


def ran(tab: Tab, name: str) -> Locator:
    cell = tab.cells().nth(list(CELLS).index(name))
    tab.run(cell)
    return cell.locator(".jp-OutputArea")


@pytest.mark.parametrize("name", ["text", "error"])
def test_words_are_not_broken(tab: Tab, name: str) -> None:
    """Each line of text ends where a word does, also in a narrow window."""
    output = ran(tab, name)
    tab.page.set_viewport_size({"width": 700, "height": 800})
    tab.picture(f"view-{name}")
    lines = output.locator("pre").first.evaluate(
        """pre => {
            const lines = [], walker = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
            let top = null, node;
            while ((node = walker.nextNode())) {
                for (let n = 0; n < node.length; n++) {
                    const range = document.createRange();
                    range.setStart(node, n); range.setEnd(node, n + 1);
                    const box = range.getBoundingClientRect();
                    if (top === null || box.top > top + 5) { lines.push(""); top = box.top; }
                    lines[lines.length - 1] += node.data[n];
                }
            }
            return lines;
        }"""
    )
    assert len(lines) > 3
    words = set(re.findall(r"[a-zA-Z]+", " ".join(CELLS.values()) + output.text_content()))
    broken = [
        word for line in lines for word in re.findall(r"[a-zA-Z]+", line) if word not in words
    ]
    assert broken == []


# WCAG 2.1, contrast (minimum): 4.5 between the luminance of text and of what is behind it.
CONTRASTS = """pre => {
    const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
    const light = colour => colour.slice(0, 3).map(c => c / 255)
        .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
    const over = area => {  // colours that let some of what is behind them through
        const [r, g, b, share = 1] = numbers(getComputedStyle(area).backgroundColor);
        if (share === 1 || !area.parentElement) return [r, g, b];
        return over(area.parentElement).map((c, n) => c * (1 - share) + [r, g, b][n] * share);
    };
    const behind = light(over(pre));
    return [pre, ...pre.querySelectorAll("span")].map(span => {
        const text = light(numbers(getComputedStyle(span).color));
        return (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
    });
}"""


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_a_traceback_can_be_read(tab: Tab, theme: str) -> None:
    tab.menu("Settings", "Theme", theme)
    expect(tab.page.locator("body")).to_have_attribute(
        "data-jp-theme-light", "true" if theme.endswith("Light") else "false"
    )
    traceback = ran(tab, "error").locator("pre").first
    tab.picture(f"view-traceback-{theme[-5:].strip().lower()}")
    found = traceback.evaluate(CONTRASTS)
    assert len(found) > 5 and min(found) >= 4.5


def test_a_locked_cell_says_so_where_one_types(tab: Tab) -> None:
    editor = tab.cells().nth(list(CELLS).index("locked")).locator(".cm-editor")
    editor.locator(".cm-content").click()
    tab.picture("view-locked")
    said = "el => getComputedStyle(el, '::after').content"
    assert "try things in a cell of your own" in editor.evaluate(said)
    other = tab.cells().nth(0).locator(".cm-editor")
    other.locator(".cm-content").click()
    assert other.evaluate(said) == editor.evaluate(said) == "none"


def test_the_arrow_keys_step_a_picture(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 1000, "height": 800})
    output = ran(tab, "picture")
    output.locator("label").first.click()
    chosen = output.get_by_role("radio", checked=True)
    expect(chosen).to_be_focused()
    tab.page.keyboard.press("ArrowRight")
    expect(output.get_by_text("then")).to_be_visible()
    expect(chosen).to_be_focused()
    tab.page.keyboard.press("ArrowRight")
    tab.picture("view-stepped")
    expect(output.get_by_text("at the end")).to_be_visible()
    expect(output.get_by_text("at the start")).to_be_hidden()
    # The notebook's selected cell is the same one.
    expect(tab.page.locator(".jp-Notebook-cell.jp-mod-active")).to_contain_text("page.stepper")


def test_a_dial_is_turned_by_mouse_and_by_keys(tab: Tab) -> None:
    output = ran(tab, "dial")
    shown = output.locator("img:visible")
    expect(shown).to_have_count(1)
    expect(shown).to_have_attribute("alt", re.compile(" 32 are executed"))
    output.get_by_text("4", exact=True).click()
    expect(shown).to_have_attribute("alt", re.compile(" 96 are executed"))
    tab.page.keyboard.press("ArrowRight")
    expect(shown).to_have_attribute("alt", re.compile(" 224 are executed"))
    expect(output.get_by_role("radio", checked=True)).to_have_accessible_name(
        "numbers of iterations: 8"
    )
    tab.picture("view-dial")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_a_card_scrolls_in_its_own_box_where_the_window_is_narrow(tab: Tab, theme: str) -> None:
    tab.page.set_viewport_size({"width": 820, "height": 800})
    tab.menu("Settings", "Theme", theme)
    output = ran(tab, "card").locator(".jp-OutputArea-output").last
    table = output.locator(".scroll")
    tab.picture(f"view-card-{theme[-5:].strip().lower()}")
    beyond = """output => [...output.querySelectorAll(".gpuc *")].filter(part =>
        part.getBoundingClientRect().right > output.getBoundingClientRect().right + 1
        && !part.closest(".scroll")).length"""
    assert output.evaluate(beyond) == 0
    columns = ["line", "cost", "instructions", "sectors/request", "lanes lost"]
    assert table.locator("th.n").all_text_contents() == columns
    wide, room = table.evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert wide < 1.5 * room  # the code gives way first
    # What tells that there is more at the right.
    assert "gradient" in table.evaluate("box => getComputedStyle(box).backgroundImage")
    tab.page.set_viewport_size({"width": 1000, "height": 800})


def test_validate_counts_a_check_that_found_a_mistake(tab: Tab) -> None:
    tab.save()
    tab.page.get_by_role("button", name="Validate").click()
    expect(tab.dialog()).to_contain_text("Validation Results")
    tab.picture("view-validated")
    expect(tab.dialog()).to_contain_text("✗ double: doubled(3) is 3, not 6")
    expect(tab.dialog()).not_to_contain_text("Success")
    tab.answer("Ok")


def test_what_the_welcome_page_showed_is_not_kept(tab: Tab) -> None:
    expect(ran(tab, "text")).to_contain_text("kernels go through")
    tab.save()
    cells = nbformat.read(saved(tab), as_version=4).cells
    assert [cell.source for cell in cells] == [*CELLS.values()]
    assert not any(cell.outputs or cell.execution_count for cell in cells)


def test_in_a_notebook_that_was_run_elsewhere_all_pictures_of_a_dial_stand_there(tab: Tab) -> None:
    """JupyterLab takes out styles, and with them what hides all but one."""
    tab.open_notebook("elsewhere.ipynb")
    output = tab.cell("numbers of iterations").locator(".jp-OutputArea-output")
    for n, size in enumerate((2, 4, 8)):
        expect(output.get_by_text(f"numbers of iterations: {size}", exact=True)).to_be_visible()
        expect(output.locator("img").nth(n)).to_be_visible()
    tab.picture("view-dial-untrusted")
