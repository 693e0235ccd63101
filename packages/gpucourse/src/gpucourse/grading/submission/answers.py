"""Search for the cells of a submitted notebook that belong to an answer cell.

Usually this is the one cell with its ``grade_id``. But JupyterLab's *Split Cell* copies the
``grade_id`` to both halves, other editors remove it from one of them, converters drop the
metadata, and students merge cells or write into a new one. This module finds every cell that
defines the names required from an answer cell, and joins these parts in the order of the notebook.
Only if two cells hold different answers to one question is the student asked to decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.assignment import SOLUTION, Assignment, AssignmentCell
from gpucourse.grading.submission.reading import grade_id_of, source_of
from gpucourse.grading.submission.statements import (
    definitions,
    is_stub,
    joined,
    names_defined,
    names_used,
    needed,
    top_level,
)
from gpucourse.grading.submission.versions import Version

# Number of cells above and below an answer that are searched for parts of it.
NEAR = 40
# Minimum length at which a piece of the course's prose is recognised; some editors split prose.
PIECE = 20
MISSING = (
    "The answer cell '{name}' is missing, and no other cell holds its answer. It was graded as "
    "released. Write your answer into the original cell of a fresh copy of the notebook."
)
FORGOTTEN = (
    "The answer cells of this notebook are not marked, because a converter or another editor has "
    "removed their metadata. The grader recognised {found} of {all} answers by the names that "
    "they define and by their position, and graded these. Use the notebook as Jupyter saves it."
)


@dataclass(frozen=True)
class Cell:
    """One cell of a submitted notebook, numbered from 1.

    `name` is the grade_id of the corresponding cell of the assignment, found from the metadata,
    the identity or the text. It is empty for a cell that the student has added, and for the
    course's own prose and plots, for which `given` is True.
    """

    number: int
    kind: str
    source: str | None
    name: str
    marked: bool
    given: bool

    @property
    def own(self) -> bool:
        """Return True for a cell that is not part of the assignment."""
        return not self.name and not self.given

    @property
    def text(self) -> str:
        return self.source or ""

    @cached_property
    def defined(self) -> set[str]:
        return names_defined(self.text) if self.kind == "code" else set()


@dataclass
class Answer:
    """The source of one answer, with remarks on how it was found."""

    source: str | None = None
    notices: list[str] = field(default_factory=list)
    # Numbers of the cells from which the answer was taken.
    cells: tuple[int, ...] = ()
    # True if the answer's cell is in the notebook, answered or as it was released.
    present: bool = False


class Submitted:
    """The cells of a submitted notebook, compared with those of its assignment.

    Parameters
    ----------
    versions
        The versions of the assignment that were handed out, the current one first.
    limit
        Number of characters of other cells that are searched for names.
    """

    def __init__(
        self, cells: Sequence[dict], assignment: Assignment, versions: Sequence[Version], limit: int
    ) -> None:
        self.assignment = assignment
        self.versions = versions
        names = {name for version in versions for name in version.cells}
        marked = {grade_id_of(cell) for cell in cells} & names
        self.forgotten = not marked
        by_id: dict[str, str] = {}
        by_text: dict[str, str] = {}
        prose: list[str] = []
        given: set[str] = set()
        for version in versions:
            for name, released in version.cells.items():
                if name not in marked:
                    by_id.setdefault(str(released.get("id")), name)
                    by_text.setdefault(released.source.strip(), name)
            given |= version.texts
            prose.append(version.prose)
        ids = {cell.get("id") for cell in assignment.released.cells} - {None}
        left = limit
        self.cells: list[Cell] = []
        for number, cell in enumerate(cells, start=1):
            name, kind, source = grade_id_of(cell), str(cell.get("cell_type")), source_of(cell)
            text = (source or "").strip()
            is_marked = name in names
            if not is_marked:
                id = cell.get("id")
                name = by_id.get(id, "") if isinstance(id, str) else ""
                name = name or by_text.get(text, "")
            own = not name and not (
                text in given
                or (kind != "code" and cell.get("id") in ids)
                or (kind != "code" and len(text) > PIECE and any(text in one for one in prose))
            )
            if own and kind == "code":
                left -= len(text)
                if left < 0:
                    source = None
            self.cells.append(Cell(number, kind, source, name, is_marked, not own and not name))
        self.named: dict[str, list[Cell]] = {}
        for one in self.cells:
            if one.name:
                self.named.setdefault(one.name, []).append(one)
        # Names that the course's own cells define, so that no added cell is needed for them.
        self.course = set().union(
            *(names_defined(cell.source) for cell in assignment.cells if cell.role != SOLUTION),
        )
        self.wanted = {
            cell.grade_id: definitions(assignment.starters[cell.grade_id])
            for cell in assignment.solutions
        }
        self.places: dict[str, list[Cell]] = {}
        for one in self.cells:
            if not one.given:
                for name in one.defined:
                    self.places.setdefault(name, []).append(one)

    def answer(self, wanted: AssignmentCell) -> Answer:
        """Return the answer to the answer cell `wanted`; its source is None if there is none."""
        return self._code(wanted) if wanted.cell_type == "code" else self._prose(wanted)

    # --- code -----------------------------------------------------------------------------------

    def _code(self, wanted: AssignmentCell) -> Answer:
        name = wanted.grade_id
        copies = self.named.get(name, [])
        answer = Answer(present=bool(copies))
        code = [cell for cell in copies if cell.kind == "code"]
        to_define = self.wanted[name]
        lacking = to_define - _answered(cell.text for cell in code)
        if code and lacking:
            code = [cell for cell in copies if cell in code or definitions(cell.text) & lacking]
        if copies and not code:
            code = copies
            answer.notices.append(
                f"The cell '{name}' was changed to another type; it was graded as code, as "
                "released."
            )
        parts = {cell.number: cell.text for cell in self._written(code, name)}
        if copies and all(cell.source is None for cell in copies):
            answer.notices.append(f"The cell '{name}' holds no text; it was graded as released.")
        if (times := max(Counter(cell.text for cell in code).values(), default=1)) > 1 and parts:
            answer.notices.append(
                f"The answer cell '{name}' is in the notebook {times} times with the same text; it "
                "counts once."
            )
        parts = self._with_lacking(name, parts, copies, answer)
        if not parts:
            return answer
        self._add_helpers(name, parts, copies)
        asked = self._without_superseded(parts)
        answer.cells = tuple(sorted(parts.keys() - {0}))
        answer.source = self._joined(parts)
        self._say(name, answer, copies, asked)
        return answer

    def _written(self, copies: Iterable[Cell], name: str) -> list[Cell]:
        """Return the cells in which the student wrote something, without duplicates."""
        starters = self._starters(name)
        texts: dict[str, Cell] = {}
        for cell in copies:
            if cell.text.strip() not in starters:
                texts[cell.text.strip()] = cell
        return sorted(texts.values(), key=lambda cell: cell.number)

    def _starters(self, name: str) -> set[str]:
        texts = {
            version.cells[name].source.strip() for version in self.versions if name in version.cells
        }
        return texts | {"", self.assignment.starters[name].strip()}

    def _with_lacking(
        self, name: str, parts: dict[int, str], copies: list[Cell], answer: Answer
    ) -> dict[int, str]:
        """Return `parts` and the cells that define names missing from the answer."""
        lacking = self.wanted[name] - _answered(parts.values())
        if not lacking:
            return parts
        near = {cell.number for cell in self._near(name, copies)}
        found: dict[int, set[str]] = {}
        unclear: set[int] = set()
        for one in sorted(lacking):
            places = [
                cell
                for cell in self.places.get(one, [])
                if cell.number not in parts
                and cell.name != name
                and one in names_defined(cell.text) - _stubs(cell.text)
            ]
            places = [cell for cell in places if cell.number in near] or places
            texts = {cell.text.strip() for cell in places}
            if len(texts) == 1:
                found.setdefault(places[-1].number, set()).add(one)
            elif places:
                unclear |= {cell.number for cell in places}
        if unclear:
            answer.notices.append(
                f"Several cells that you added ({_numbers(sorted(unclear))}) define the names "
                f"that the answer cell '{name}' should define. It is not clear which of them is "
                "the answer, so they are not graded. Copy the one that counts into the answer "
                "cell."
            )
            return parts
        if not found:
            return parts
        more = dict(parts)
        if not parts and set().union(*found.values()) != lacking:
            # Released cells beside the stub are needed too.
            more[copies[-1].number if copies else 0] = self.assignment.starters[name]
        for number, names in found.items():
            cell = self.cells[number - 1]
            more[number] = self._of(cell, name, names)
        return more

    def _of(self, cell: Cell, name: str, names: set[str]) -> str:
        """Return the source of another cell that belongs to the answer."""
        role = next((one.role for one in self.assignment.cells if one.grade_id == cell.name), "")
        if role == SOLUTION:
            return f"# {_quoted(names)}: in the cell '{cell.name}'."
        others = set().union(*(more for other, more in self.wanted.items() if other != name))
        if role or others & definitions(cell.text):
            return needed(cell.text, names, self.course | others)
        return cell.text

    def _near(self, name: str, copies: Sequence[Cell]) -> list[Cell]:
        """Return the student's added cells beside the answer cell or beside its former position."""
        if copies:
            found: dict[int, Cell] = {}
            for cell in copies[:NEAR]:
                at = cell.number - 1
                found |= {one.number: one for one in self._run(range(at - 1, at - 1 - NEAR, -1))}
                found |= {one.number: one for one in self._run(range(at + 1, at + 1 + NEAR))}
            return [found[number] for number in sorted(found)]
        order = [self._at(cell) for cell in self.assignment.released.cells]
        here = next(
            n
            for n, cell in enumerate(self.assignment.released.cells)
            if cell.metadata.get("nbgrader", {}).get("grade_id") == name
        )
        above = next((at for at in reversed(order[:here]) if at is not None), None)
        below = next((at for at in order[here + 1 :] if at is not None), None)
        if above is None or below is None or above >= below:
            return []
        return [cell for cell in self.cells[above + 1 : min(below, above + NEAR)] if cell.own]

    def _at(self, released: Mapping) -> int | None:
        """Return the index of a released cell in the submission, or None."""
        name = released["metadata"].get("nbgrader", {}).get("grade_id")
        if name:
            return self.named[name][0].number - 1 if name in self.named else None
        return self._given_at.get(released["source"].strip())

    @cached_property
    def _given_at(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for cell in self.cells:
            if cell.given:
                places.setdefault(cell.text.strip(), cell.number - 1)
        return places

    def _run(self, places: Iterable[int]) -> Iterable[Cell]:
        """Return the student's added cells at `places`, up to the first cell of the assignment."""
        for at in places:
            if not 0 <= at < len(self.cells) or not self.cells[at].own:
                return
            yield self.cells[at]

    def _add_helpers(self, name: str, parts: dict[int, str], copies: list[Cell]) -> None:
        """Add nearby cells that define names which the answer uses and no graded cell defines."""
        near = [
            cell
            for cell in self._near(name, copies or [self.cells[n - 1] for n in sorted(parts)])
            if cell.kind == "code" and cell.number not in parts
        ]
        defined = self.course.union(*map(names_defined, parts.values()), *self.wanted.values())
        while near:
            used = set().union(*map(names_used, parts.values()))
            more = [cell for cell in near if cell.defined & used - defined]
            if not more:
                return
            for cell in more:
                parts[cell.number] = cell.text
                defined |= cell.defined
            near = [cell for cell in near if cell.number not in parts]

    @staticmethod
    def _without_superseded(parts: dict[int, str]) -> list[tuple[int, int]]:
        """Remove parts that other parts replace completely.

        Return pairs of cells that hold two answers to one question, the earlier cell first.
        """
        answered = {number: names_defined(text) - _stubs(text) for number, text in parts.items()}
        times = Counter(name for names in answered.values() for name in names)
        later: dict[str, int] = {}
        asked: dict[int, int] = {}
        for number in sorted(parts, reverse=True):
            names, mine = names_defined(parts[number]), answered[number]
            for name in definitions(parts[number]) & mine & later.keys():
                asked[number] = later[name]
            if definitions(parts[number]) and (
                names <= later.keys()
                # Released cells that are answered in another part.
                or (names - mine and all(times[name] > (name in mine) for name in names))
            ):
                del parts[number]
                continue
            for name in mine:
                later.setdefault(name, number)
        return sorted(asked.items())

    @staticmethod
    def _joined(parts: dict[int, str]) -> str:
        """Join the parts in the order of the notebook.

        A part that still contains a stub comes before the part that answers it.
        """
        done = _answered(parts.values())
        order = sorted(parts, key=lambda number: (not _stubs(parts[number]) & done, number))
        return joined((number, parts[number]) for number in order)

    def _say(
        self, name: str, answer: Answer, copies: list[Cell], asked: list[tuple[int, int]]
    ) -> None:
        mine = [n for n in answer.cells if self.cells[n - 1].name == name]
        others = [n for n in answer.cells if self.cells[n - 1].name != name]
        for earlier, later in asked[:3]:
            answer.notices.append(
                f"Two cells answer '{name}' differently: cells {earlier} and {later}. The lower "
                f"one was graded. If you meant the other, copy its text into cell {later}."
            )
        if self.forgotten:
            return
        if others and not mine:
            state = "as it was released" if copies else "missing"
            cells = _numbers(others)
            own = "a cell" if len(others) == 1 else "cells"
            answer.notices.append(
                f"The answer cell '{name}' is {state}. Its answer was found in {cells}, {own} "
                "that you added, and graded. Write your answer into the answer cell itself."
                if all(self.cells[n - 1].own for n in others)
                else (
                    f"The answer cell '{name}' is {state}. Its answer was found in {cells} and "
                    "graded. Write your answer into the answer cell itself."
                )
            )
        elif others:
            answer.notices.append(
                f"A part of the answer '{name}' is in {_numbers(others)}, beside the answer "
                "cell, and was graded with it. Move it into the answer cell, which every grader "
                "reads."
            )
        elif len(mine) > 1 and not asked:
            answer.notices.append(
                f"The answer '{name}' is in {len(mine)} parts ({_numbers(mine)}), which were "
                "graded as one. Edit > Merge Selected Cells makes one cell of them."
            )

    # --- written answers ------------------------------------------------------------------------

    def _prose(self, wanted: AssignmentCell) -> Answer:
        name = wanted.grade_id
        copies = self.named.get(name, [])
        answer = Answer(present=bool(copies))
        if copies and all(cell.source is None for cell in copies):
            answer.notices.append(f"The cell '{name}' holds no text; it was graded as released.")
        if copies and copies[0].kind != wanted.cell_type:
            answer.notices.append(
                f"The cell '{name}' was changed to another type; it was graded as text, as "
                "released."
            )
        beside = [
            cell
            for cell in self._near(name, copies)
            if cell.kind != "code" and not cell.text.startswith(("# ", "## "))
        ]
        parts = self._written([*copies, *beside], name)
        if parts:
            answer.source = "\n\n".join(cell.text for cell in parts)
            answer.cells = tuple(cell.number for cell in parts)
            if len(parts) > 1 and not self.forgotten:
                answer.notices.append(
                    f"The answer '{name}' is in {len(parts)} parts ({_numbers(answer.cells)}), "
                    "which are read as one answer."
                )
            elif not parts[0].name and not self.forgotten:
                answer.notices.append(
                    f"The answer to '{name}' was found in cell {parts[0].number}, which you "
                    "added, and is read there. Write your answer into the answer cell itself."
                )
        return answer


def answers_in(cells: Sequence[dict], assignment: Assignment) -> dict[str, str]:
    """Return the answers among `cells`, by grade_id.

    If nobody has written an answer, the released text is used.
    """
    released = [Version.of(assignment.released)]
    submitted = Submitted(cells, assignment, released, Limits().cell_bytes)
    answers = {cell.grade_id: submitted.answer(cell) for cell in assignment.solutions}
    return {
        name: assignment.starters[name] if answer.source is None else answer.source
        for name, answer in answers.items()
        if answer.present or answer.source is not None
    }


def _answered(texts: Iterable[str]) -> set[str]:
    """Return the names that `texts` define, without those of stubs."""
    return set().union(*(names_defined(text) - _stubs(text) for text in texts))


def _stubs(text: str) -> set[str]:
    """Return the names that `text` defines as stubs."""
    if not is_stub(text):
        return set()
    return set().union(*(definitions(piece) for piece in top_level(text) if is_stub(piece)))


def _numbers(numbers: Sequence[int]) -> str:
    """Return ``cell 7``, ``cells 7 and 9`` or ``cells 7, 9 and 12``."""
    if len(numbers) == 1:
        return f"cell {numbers[0]}"
    shown = [*map(str, numbers[:8])]
    return f"cells {', '.join(shown[:-1])} and {shown[-1]}"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
