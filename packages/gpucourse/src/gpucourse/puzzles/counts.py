"""What a right kernel cost, in a small table: reads, writes, sectors, atomics, barriers, bytes."""

from __future__ import annotations

from gpucourse.puzzles.board import Winners, parting
from gpucourse.puzzles.judge import Judged, rows
from gpucourse.views.page import View, box, escape, head, note

_ROWS = {"global_loads": "reads, global", "global_stores": "writes, global",
         "shared_loads": "reads, shared", "shared_stores": "writes, shared",
         "bank_conflicts": "bank conflicts",
         "global_sectors": "sectors of 32 bytes", "atomics": "atomics", "barriers": "barriers",
         "bytes": "bytes moved"}


def view(judged: Judged, winners: Winners | None, ms: float | None, library_ms: float | None,
         gpu: str | None) -> View:
    """The counts beside the solution's, the time beside the library's, and the last question."""
    heads = ["", "yours", *(["ours"] if judged.ours else [])]
    table = [[_ROWS[name], *(f"{one:,}" for one in (mine, ours) if one is not None)]
             for name, mine, ours in rows(judged) if mine or ours]
    if judged.library is not None:
        heads.append("CuPy's")
        for row in table:
            row.append(f"{judged.library:,}" if row[0] == _ROWS["bytes"] else "")
    atomics = " An atomic counts as one sector." if judged.mine.global_atomics else ""
    notes = [f"Counted on the virtual GPU, {judged.case}.{atomics}"]
    if ms is not None:
        beside = f"; CuPy's lines {library_ms:.3g} ms" if library_ms is not None else ""
        notes.append(f"{ms:.3g} ms on the {gpu}, in a larger launch{beside}.")
    else:
        notes.append("No time: there is no GPU here.")
    if winners is not None and (asked := parting(judged.puzzle, winners)):
        notes.append(asked)
    body = "".join("<tr>" + "".join(f'<td class="{"n" * (at > 0)}">{escape(cell)}</td>'
                                     for at, cell in enumerate(row)) + "</tr>" for row in table)
    title = f"{judged.puzzle.heading}: what it cost"
    markup = box(head(title), "<table><tr>" + "".join(f'<th class="n">{one}</th>' for one in heads)
                 + f"</tr>{body}</table>", *map(note, notes))
    lines = ["".join(f"{cell:>14}" if at else f"  {cell:22}" for at, cell in enumerate(row))
             for row in (heads, *table)]
    return View(markup, "\n".join([title, *lines, *notes]))
