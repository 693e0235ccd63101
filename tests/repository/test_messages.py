"""How messages are put together: no article before a word that is known at run time only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARTICLE = re.compile(r"\b[Aa]n? $")
RUN_TIME = re.compile("__name__|__module__|dtype|[.]type|have|kind|other|wanted")


def _articles(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each f-string with an article right before what it is filled with."""
    for string in ast.walk(tree):
        if isinstance(string, ast.JoinedStr):
            for before, value in zip(string.values, string.values[1:], strict=False):
                if (
                    isinstance(value, ast.FormattedValue)
                    and isinstance(before, ast.Constant)
                    and ARTICLE.search(str(before.value))
                    and RUN_TIME.search(ast.unparse(value.value))
                ):
                    yield string.lineno, ast.unparse(value.value)


def test_no_message_guesses_an_article():
    """``f"this is a {type(x).__name__}"`` says "a int": virtualgpu.wording knows the article."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for folder in [*ROOT.glob("packages/*/src"), ROOT / "course"]
        for path in folder.rglob("*.py")
        for line, what in _articles(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
