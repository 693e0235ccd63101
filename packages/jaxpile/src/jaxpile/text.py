"""Base class of the back ends that write source text: named expressions and statements."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager

from jaxpile.expressions import Expr, dim, ordered
from jaxpile.memos import Memos
from jaxpile.program import Loop, Nest, Set, Store, Until, When, walk

#: A longer expression gets a name, so that lines stay readable.
LONG = 70


class TextWriter(Memos):
    """Writer of statements as lines; a subclass defines the language's syntax."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.depth = 0
        self.declared: set[str] = set()
        self.count = 0

    # --- what a language says ---

    def constant(self, node: Expr) -> str:
        raise NotImplementedError

    def operation(self, node: Expr, args: list[str]) -> str:
        raise NotImplementedError

    def name_value(self, name: str, node: Expr, text: str) -> str:
        raise NotImplementedError

    def assign(self, target: str, text: str) -> str:
        raise NotImplementedError

    def declare(self, name: str, dtype) -> None:
        """Declare a local variable before the loops that it outlives."""

    def for_head(self, name: str, low: str, high: str) -> str:
        raise NotImplementedError

    def while_head(self, condition: str) -> str:
        raise NotImplementedError

    def if_head(self, condition: str) -> str:
        raise NotImplementedError

    # The text after the head of a section, and the line that ends one.
    opens, closes = "", ""

    # --- lines ---

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text if text else "")

    @contextmanager
    def section(self, head: str):
        """Indent lines below a head such as ``while (x)``."""
        self.line(head + self.opens)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            if self.closes:
                self.line(self.closes)

    # --- statements ---

    def statements(self, items: list) -> None:
        for item in items:
            match item:
                case Store():
                    position, value = self.values([item.position, item.value])
                    self.line(self.assign(f"{item.buffer.name}[{position}]", value))
                    self.changed(item.buffer)
                case Set():
                    (value,) = self.values([item.value])
                    self.line(self.assign(item.name, value))
                    self.changed(item.name)
                case Loop():
                    low, high = self.values([item.low, item.high])
                    self.forget(item.body)
                    head = self.for_head(item.variable.attr[0], low, high)
                    with self.fresh(), self.section(head):
                        self.statements(item.body)
                case Until():
                    self.forget(item.body)
                    (condition,) = self.values([item.condition], inline=True)
                    with self.fresh(), self.section(self.while_head(condition)):
                        self.statements(item.body)
                case When():
                    (condition,) = self.values([item.condition])
                    for words, body in (
                        (self.if_head(condition), item.body),
                        ("else", item.otherwise),
                    ):
                        if body:
                            with self.fresh(), self.section(words):
                                self.statements(body)
                    self.forget([item])

    def declare_locals(self, nest: Nest) -> None:
        for item in walk(nest.body):
            if isinstance(item, Set) and item.name not in self.declared:
                self.declared.add(item.name)
                self.declare(item.name, item.value.dtype)

    # --- expressions ---

    def values(self, exprs: list[Expr], inline: bool = False) -> list[str]:
        """Return texts of expressions; parts that are used twice or too long get names first."""
        known: dict[Expr, str] = {}
        for memo in self.memos:
            known.update(memo)
        order = ordered(exprs, known)
        uses = Counter(arg for node in order for arg in node.args)
        for node in order:
            text = self.node(node, [known[arg] for arg in node.args])
            plain = node.op in ("const", "dim", "var", "local")
            if not plain and not inline and (uses[node] > 1 or len(text) > LONG):
                self.count += 1
                name = f"v{self.count}"
                self.line(self.name_value(name, node, text))
                text = self.memos[-1][node] = name
            known[node] = text
        return [known[expr] for expr in exprs]

    def node(self, node: Expr, args: list[str]) -> str:
        match node.op:
            case "const":
                return self.constant(node)
            case "dim":
                return f"i{node.attr[0]}"
            case "var":
                return node.attr[0]
            case "local":
                return node.attr
            case "load":
                return f"{node.attr.name}[{bare(args[0])}]"
            case "linear":
                parts = [
                    arg if factor == 1 else f"{arg} * {factor}"
                    for arg, factor in zip(args, node.attr, strict=False)
                ]
                if node.attr[-1]:
                    parts.append(str(node.attr[-1]))
                return "(" + " + ".join(parts).replace("+ -", "- ") + ")"
            case _:
                return self.operation(node, args)


def bare(text: str) -> str:
    """Strip the outermost brackets."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for k, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]


def dimension_names(nest: Nest) -> list[tuple[str, int, int]]:
    """Return name and bounds of each dimension that is a loop; dimensions of size 1 are numbers."""
    return [
        (f"i{axis}", low, high)
        for axis, (low, high) in enumerate(nest.ranges)
        if dim(axis, low, high).op == "dim"
    ]
