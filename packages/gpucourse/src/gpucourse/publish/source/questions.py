"""Predictions in a lesson's source: the question, the cell that answers it, the explanation.

Four cells belong together, with no other cells between them::

    # %% [markdown] id="who-am-i-predict" tags=["predict"]     the question
    # %% id="who-am-i-guess"                                   predict("who-am-i", "2", "4", "8")
    # %% id="who-am-i"                                         what is predicted: one cell or more;
                                                               an exercise may stand before it
    # %% [markdown] id="who-am-i-why" tags=["why"]             what came out, and why: folded
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpucourse.course.predictions import read_predictions
from gpucourse.course.registry import Course
from gpucourse.publish.source.reader import Cell, Source

_PROMPT = re.compile(r"\*Predict\b|^#+ +Predict\b", re.MULTILINE)
Mistakes = Iterator[tuple[Cell, str]]


def asked(cell: Cell | None) -> tuple[str, tuple[str, ...]] | None:
    """Return (name, choices) of a cell that ends in ``predict("name", "a", "b")``, else None."""
    if cell is None or cell.kind != "code" or "predict(" not in cell.source:
        return None
    try:
        last = ast.parse(cell.source).body[-1]
        assert isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
        assert ast.unparse(last.value.func) == "predict" and not last.value.keywords
        name, *choices = [ast.literal_eval(part) for part in last.value.args]
    except (SyntaxError, ValueError, AssertionError):
        return None
    return (name, tuple(choices)) if all(isinstance(c, str) for c in (name, *choices)) else None


def mistakes(course: Course, source: Source) -> Mistakes:
    """Yield a lesson's predictions that are not asked properly, or that reveal their answer."""
    try:
        known = read_predictions(course.predictions(source.lesson))
    except ValueError as error:
        yield source.cells[0], str(error)
        return
    names = [question[0] for cell in source.cells if (question := asked(cell))]
    for name in known.keys() - set(names):
        yield source.cells[0], f"no cell calls predict({name!r}, …), although it has reasons"
    explaining: set[str] = set()
    for place, cell in enumerate(source.cells):
        if cell.kind != "markdown":
            continue
        if {"predict", "why"} <= set(cell.tags):
            yield (
                cell,
                "asks inside a fold, where nobody sees it: move it to its own cell",
            )
        if "predict" not in cell.tags:
            if _PROMPT.search(cell.source) and "room" not in cell.tags:
                yield cell, 'asks for a prediction: tags=["predict"], and predict(…) below it'
            continue
        following = source.cells[place + 1 :]
        question = asked(following[0]) if following else None
        if question is None:
            yield cell, 'the next cell must be predict("name", "a choice", "another", …)'
            continue
        name, choices = question
        if name not in known:
            file = course.predictions(source.lesson).name
            yield following[0], f"{name!r} has no reasons in {file}"
        else:
            for mistake in known[name].mistakes(choices):
                yield following[0], f"the prediction {name!r} {mistake}"
        ran = 1
        while ran < len(following) and following[ran].kind == "code":
            ran += 1
        why = following[ran] if ran < len(following) else None
        # In a puzzle, the learner writes the kernel between the guess and the cell that checks it.
        shown = [one.name for one in following[1:ran] if "exercise" not in one.tags]
        if not shown or shown[0] != name:
            yield following[0], f"predicts {name!r}, so the cell of that name must come next"
        if why is None or "why" not in why.tags:
            yield (
                why or cell,
                (
                    f"follows the cells that {name!r} predicts and gives the answer away: "
                    'move that to a separate cell, tags=["why"]'
                ),
            )
        else:
            explaining.add(why.name)
            if re.search(r"^#", why.source, re.MULTILINE):
                yield why, "is folded, so nobody finds the heading in it: end the cell"
    for cell in source.cells:
        if "why" in cell.tags and cell.name not in explaining:
            yield cell, "explains no prediction, because it does not follow predicted cells"
        question = asked(cell)
        if question is not None and names.count(question[0]) > 1:
            yield cell, "asks the same prediction as another cell"
