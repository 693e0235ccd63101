"""Costs of a correct kernel: reads, writes, sectors, atomics, barriers and bytes."""

from __future__ import annotations

from gpucourse.puzzles.board import Winners, parting
from gpucourse.puzzles.judge import Judged, rows
from gpucourse.system.language import _
from gpucourse.views.page import View, box, escape, head, note


def _rows() -> dict[str, str]:
    return {
        "global_loads": _("reads, global"),
        "global_stores": _("writes, global"),
        "shared_loads": _("reads, shared"),
        "shared_stores": _("writes, shared"),
        "bank_conflicts": _("bank conflicts"),
        "global_sectors": _("sectors of 32 bytes"),
        "atomics": _("atomics"),
        "barriers": _("barriers"),
        "bytes": _("bytes moved"),
    }


def view(
    judged: Judged,
    winners: Winners | None,
    ms: float | None,
    library_ms: float | None,
    gpu: str | None,
    cause: str = "",
) -> View:
    """Return counts beside the solution's, the time beside the library's, and a question.

    ``cause`` is the reason why this kernel costs more than the solution.
    """
    named = _rows()
    heads = ["", _("yours"), *([_("ours")] if judged.ours else [])]
    table = [
        [named[name], *(f"{one:,}" for one in (mine, ours) if one is not None)]
        for name, mine, ours in rows(judged)
        if mine or ours
    ]
    if judged.library is not None:
        heads.append(_("CuPy's"))
        for row in table:
            row.append(f"{judged.library:,}" if row[0] == named["bytes"] else "")
    notes = [cause] if cause else []
    counted = _("Counted on the virtual GPU, {case}.").format(case=judged.case)
    if judged.mine.global_atomics:
        counted += " " + _("An atomic counts as one sector.")
    notes.append(counted)
    if ms is not None:
        beside = "" if library_ms is None else _("; CuPy's lines {ms:.3g} ms").format(ms=library_ms)
        notes.append(
            _("{ms:.3g} ms on the {gpu}, in a larger launch").format(ms=ms, gpu=gpu) + f"{beside}."
        )
    else:
        notes.append(_("There is no time, because this machine has no GPU."))
    if winners is not None and (asked := parting(judged.puzzle, winners)):
        notes.append(asked)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{"n" * (at > 0)}">{escape(cell)}</td>' for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in table
    )
    title = _("{puzzle}: the cost of your kernel").format(puzzle=judged.puzzle.heading)
    markup = box(
        head(title),
        "<table><tr>"
        + "".join(f'<th class="n">{one}</th>' for one in heads)
        + f"</tr>{body}</table>",
        *map(note, notes),
    )
    lines = [
        "".join(f"{cell:>14}" if at else f"  {cell:22}" for at, cell in enumerate(row))
        for row in (heads, *table)
    ]
    return View(markup, "\n".join([title, *lines, *notes]))
