"""Translation of a lesson's cells: all Markdown, and the comments and choices in code.

Parts that a grader reads stay unchanged: cells with a role, and all text in solution regions.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator

from gpucourse.course.predictions import Prediction
from gpucourse.course.regions import SOLUTION, find_regions
from gpucourse.system.language import SETTING, _, language

Say = Callable[[str], str]
#: First line of a text that has no translation.
UNTRANSLATED = "*This part has not been translated yet.*"


def setting() -> str:
    """Return the first code of a translated notebook, which sets its language."""
    comment = _("the language of checks, hints and messages")
    return f'import os\n\nos.environ["{SETTING}"] = "{language()}"  # {comment}'


def markdown(source: str, say: Say) -> str:
    """Translate a text cell; if it has no translation, add a line that says so."""
    told = say(source)
    if told != source or not language():
        return told
    heading, _break, rest = source.partition("\n")
    mark = _(UNTRANSLATED)
    if heading.startswith("#"):
        return f"{heading}\n\n{mark}\n{rest}".rstrip()
    return f"{mark}\n\n{source}"


def code(source: str, say: Say, predictions: dict[str, Prediction]) -> str:
    """Translate a code cell: its comments, and the choices of ``predict``."""
    lines = source.split("\n")
    closed = {
        number
        for region in find_regions(source)
        if region.kind == SOLUTION
        for number in range(region.begin, region.end + 1)
    }
    edits = [
        edit
        for edit in (*_comments(source, say), *_choices(source, predictions))
        if edit[0] not in closed
    ]
    for row, begin, end, new in sorted(edits, reverse=True):
        lines[row] = lines[row][:begin] + new + lines[row][end:]
    return "\n".join(lines)


Edit = tuple[int, int, int, str]


def _comments(source: str, say: Say) -> Iterator[Edit]:
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    except (tokenize.TokenError, SyntaxError):  # a shell line, or a deliberate mistake
        return
    for token in tokens:
        text = token.string.lstrip("#: ")
        if (
            token.type == tokenize.COMMENT
            and re.search(r"[^\W\d_]{2}", text)
            and not (token.string.startswith("###"))
        ):  # a region's marker
            row, column = token.start
            yield row - 1, column + len(token.string) - len(text), token.end[1], say(text)


def _choices(source: str, predictions: dict[str, Prediction]) -> Iterator[Edit]:
    if "predict(" not in source:
        return
    lines = source.split("\n")
    for node in ast.walk(ast.parse(re.sub(r"^%.*$", "pass", source, flags=re.MULTILINE))):
        match node:
            case ast.Call(func=ast.Name(id="predict"), args=[ast.Constant(value=name), *choices]):
                shown = predictions[name].shown if name in predictions else {}
                for choice in choices:
                    if isinstance(choice, ast.Constant) and choice.value in shown:
                        row, new = choice.lineno - 1, shown[choice.value]
                        begin, end = (
                            len(lines[row].encode()[:at].decode())
                            for at in (choice.col_offset, choice.end_col_offset)
                        )
                        escaped = new.replace("\\", "\\\\").replace('"', '\\"')
                        yield row, begin, end, f'"{escaped}"'
