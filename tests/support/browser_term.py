"""One assignment's whole term for teacher and student, each in a tab of a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect

from jupyter_lab import TOKEN, Server, Tab

CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "gpucourse"
c.Exchange.root = {exchange!r}
c.Exchange.assignment_dir = {folder!r}
"""


@dataclass
class Teacher:
    """Formgrader on the server of a course directory."""

    page: Page
    server: Server
    assignment: str

    def press(self, icon: str) -> str:
        """Press the assignment's button with this icon; return nbgrader's message of success."""
        self.page.goto(f"{self.server.address}/formgrader?token={TOKEN}")
        row = self.page.locator("tr").filter(has=self.page.get_by_text(self.assignment, exact=True))
        row.locator(f".glyphicon-{icon}").click()
        dialog = self.page.locator(".modal.in, .modal.show, .modal-dialog:visible").first
        expect(dialog).to_contain_text(re.compile("Success|Error"))
        said = dialog.inner_text()
        assert "Success" in said, said
        return said

    def mark(self, submission: str, cell: str, points: float, comment: str) -> None:
        """Write points and a comment below a written answer, and wait until both are stored."""
        page = self.page
        page.goto(f"{self.server.address}/formgrader/submissions/{submission}")
        field = page.locator(f"input.score[id='{cell}']")
        note = page.locator(f"textarea[id='{cell}-comment']")
        # Formgrader stores typed text only after it has loaded what was stored before. Then its
        # fields show placeholders.
        for loaded in (page.locator(f"input[id='{cell}_extra_credit']"), note):
            expect(loaded).to_have_attribute("placeholder", re.compile("."))
        for locator, text, path in (
            (field, f"{points:g}", "api/grade/"),
            (note, comment, "api/comment/"),
        ):
            locator.click()
            locator.fill(text)
            with page.expect_response(
                lambda answer, path=path: path in answer.url and answer.request.method == "PUT"
            ) as stored:
                locator.blur()
            assert stored.value.ok


@dataclass
class Student:
    """JupyterLab in a student's own folder."""

    tab: Tab
    folder: Path
    assignment: str

    def list_of(self, kind: str):
        """Return the assignment's row in the list of "released", "fetched" or "submitted" ones."""
        self.tab.open()
        self.tab.menu("Nbgrader", "Assignment List")
        page = self.tab.page
        listed = page.locator(f"#{kind}_assignments_list")
        expect(listed).to_contain_text(self.assignment)
        return listed

    def press(self, kind: str, button: str) -> None:
        """Press a button of that row, and wait until the list has been updated."""
        listed = self.list_of(kind)
        with self.tab.page.expect_response(
            lambda answer: "/assignments/" in answer.url and answer.request.method == "POST"
        ) as done:
            listed.get_by_text(button, exact=True).first.click()
        said = done.value.json()
        assert said["success"], said

    def write(self, notebook: str, answers: dict[str, str]) -> None:
        """Open the notebook, put each text into the cell that contains its key, and save."""
        self.tab.open_notebook(f"{self.assignment}/{notebook}")
        for containing, text in answers.items():
            # The cell is found again by its number, because its text changes.
            texts = self.tab.cells().all_text_contents()
            cell = self.tab.cells().nth(next(n for n, one in enumerate(texts) if containing in one))
            cell.scroll_into_view_if_needed()
            if (
                cell.locator(".cm-content").count() == 0
                or not cell.locator(".cm-content").first.is_visible()
            ):
                cell.dblclick()  # a text cell is rendered until it is opened
            self.tab.write(cell, text)
        self.tab.save()

    def feedback(self) -> str:
        """Return the text of the newest page of feedback."""
        pages = sorted(
            (self.folder / self.assignment / "feedback").rglob("*.html"),
            key=lambda path: path.stat().st_mtime,
        )
        self.tab.page.goto(pages[-1].as_uri())
        return self.tab.page.locator("body").inner_text()


def settings(folder: Path, exchange: Path) -> None:
    """Return the file that tells a student's server where the course is."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nbgrader_config.py").write_text(
        CONFIG.format(exchange=str(exchange), folder=str(folder))
    )
