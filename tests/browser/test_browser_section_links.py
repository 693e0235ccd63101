"""Links to a section of a lesson, clicked in JupyterLab: the section comes into view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from jupyter_lab import REPOSITORY, Server, Tab, chromium, copy_course

pytestmark = [pytest.mark.browser, pytest.mark.rehearsal]

SYLLABUS = "docs/syllabi/three_hours_puzzles.md"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    folder = tmp_path_factory.mktemp("links")
    copy_course(folder)
    server = Server(folder, folder / "home")
    server.start()
    try:
        with chromium() as browser:
            yield Tab(browser.new_page(viewport={"width": 1280, "height": 900}), server)
    finally:
        server.stop()


def test_a_link_of_a_syllabus_opens_the_notebook_at_its_section(tab: Tab) -> None:
    """The last section that the page names, far below; one further up; the first of them again."""
    words = {
        name: target
        for name, target in re.findall(
            r"\[([^]]+)\]\(([^)]+)\)", (REPOSITORY / SYLLABUS).read_text()
        )
        if ".ipynb#" in target
    }
    last = list(words)[-1]
    other = next(
        name
        for name, target in words.items()
        if target.partition("#")[0] == words[last].partition("#")[0]
    )
    tab.open("welcome.ipynb")
    tab.page.locator(".jp-MarkdownOutput a", has_text="three hours of kernels").first.click()
    page = tab.page.locator(".jp-MarkdownViewer:visible")
    for number, name in enumerate((last, other, last)):
        page.get_by_role("link", name=name, exact=True).first.click()
        panel = tab.page.locator(".jp-NotebookPanel:visible")
        heading = panel.locator("h2, h3", has_text=name).first
        expect(heading).to_be_in_viewport(ratio=1)
        tab.page.wait_for_timeout(5000)  # what is drawn above it later moves it no more
        expect(heading).to_be_in_viewport(ratio=1)
        tab.picture(f"section-{number}")
        tab.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tabLabel").get_by_text(
            Path(SYLLABUS).name, exact=True
        ).click()
