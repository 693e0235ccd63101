"""Compiler from a small subset of Python to LLVM assembly, for :mod:`.loops`."""

from __future__ import annotations

import ast
import ctypes
import linecache
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

# annotation → (LLVM type in memory, instruction that widens it to 64 bits)
ELEMENTS = {
    "I64": ("i64", ""),
    "U64": ("i64", ""),
    "I32": ("i32", "sext"),
    "U32": ("i32", "zext"),
    "U8": ("i8", "zext"),
}
# The names of annotations, one by one so that mypy recognises them as types.
I64 = np.ndarray
U64 = np.ndarray
I32 = np.ndarray
U32 = np.ndarray
U8 = np.ndarray


class Words:
    """Annotation of a record of named 64-bit words.

    A variable with this annotation holds the record's address.
    """

    at: ClassVar[dict[str, int]]  # name of a word → its index

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...


def call(address: int, *arguments: Any) -> int:
    """Call the function at ``address`` and return its result."""
    signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))
    return int(signature(address)(*arguments))


def fill(address: int, byte: int, nbytes: int) -> None:
    """Set bytes to a value."""
    ctypes.memset(address, byte, nbytes)


def copy(target: int, origin: int, nbytes: int) -> None:
    """Copy bytes."""
    ctypes.memmove(target, origin, nbytes)


def atomic_add(array: np.ndarray, index: int, value: int) -> None:
    """Compute ``array[index] += value`` atomically, because other cores may do the same."""
    array[index] += value


_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "sdiv",
    ast.Mod: "srem",
    ast.LShift: "shl",
    ast.RShift: "ashr",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_COMPARE = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}


class Compilable:
    """Function of the language; ``inline=False`` keeps it from being inlined into its callers."""

    def __init__(self, function: Callable, inline: bool):
        self.python, self.inline = function, inline
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    def definition(self) -> ast.FunctionDef:
        """Return the function's syntax tree."""
        code = self.python.__code__
        return _definitions(code.co_filename)[code.co_firstlineno]


@cache
def _definitions(filename: str) -> dict[int, ast.FunctionDef]:
    """Return the functions in a file by their first line.

    :func:`inspect.getsource` would parse the file for each function, which takes three times as
    long for the loops of a checker.
    """
    tree = ast.parse("".join(linecache.getlines(filename)))
    return {
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]): node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


def translate(loop: Compilable, texts: dict[str, str]) -> None:
    """Add the LLVM assembly of ``loop`` and of its callees, by name."""
    name = loop.python.__name__
    if name not in texts:
        texts[name] = ""  # added first, so that a recursive call finds its name
        texts[name] = _Translation(loop, texts, internal=len(texts) > 1).text()


class _Translation:
    """Compiler of one function; each variable is a stack slot, which LLVM turns into a value."""

    def __init__(self, loop: Compilable, texts: dict[str, str], internal: bool):
        self.loop, self.texts, self.internal = loop, texts, internal
        self.tree = loop.definition()
        self.globals = loop.python.__globals__
        self.arrays: dict[str, tuple[str, str]] = {}
        self.words: dict[str, dict[str, int]] = {}
        self.slots: dict[str, str] = {}
        self.lines: list[str] = []
        self.count = 0
        self.targets: list[tuple[str, str]] = []  # targets of continue and break
        self.ended = False  # the current block has its terminator

    def text(self) -> str:
        parameters, entry = [], []
        for argument in self.tree.args.args:
            is_array = _is_array(argument)
            parameters.append(f"{'ptr noalias' if is_array else 'i64'} %{argument.arg}")
            self.annotate(argument.arg, argument.annotation)
            if not is_array:
                self.slots[argument.arg] = f"%{argument.arg}.slot"
                entry.append(f"store i64 %{argument.arg}, ptr %{argument.arg}.slot")
        self.body(self.tree.body)
        if not self.ended:
            self.lines.append("ret i64 0")
        slots = [f"{slot} = alloca i64" for slot in self.slots.values()]
        linkage = "internal " if self.internal else ""
        suffix = ""
        if self.internal:
            suffix = " alwaysinline" if self.loop.inline else " noinline"
        return "\n".join(
            [
                f"define {linkage}i64 @{self.tree.name}({', '.join(parameters)}){suffix} {{",
                "entry:",
                *slots,
                *entry,
                *self.lines,
                "}",
            ]
        )

    def annotate(self, name: str, annotation: ast.expr | None) -> None:
        """Record the element type to which the pointer or number ``name`` refers."""
        assert isinstance(annotation, ast.Name)
        known = self.globals.get(annotation.id)
        if annotation.id in ELEMENTS:
            self.arrays[name] = ELEMENTS[annotation.id]
        elif isinstance(known, type) and issubclass(known, Words):
            self.words[name] = known.at

    # -- assembly ------------------------------------------------------------------------------

    def new(self, operation: str) -> str:
        self.count += 1
        self.lines.append(f"%t{self.count} = {operation}")
        return f"%t{self.count}"

    def label(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def start(self, label: str) -> None:
        """Begin a block; the previous one falls through into it."""
        if not self.ended:
            self.lines.append(f"br label %{label}")
        self.lines.append(f"{label}:")
        self.ended = False

    def jump(self, operation: str) -> None:
        if not self.ended:
            self.lines.append(operation)
        self.ended = True

    def refuse(self, node: ast.AST) -> NoReturn:
        raise SyntaxError(
            f"{self.tree.name}, line {getattr(node, 'lineno', '?')}: compiled loops have no "
            f"`{ast.unparse(node)}`"
        )

    # -- statements ----------------------------------------------------------------------------

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.ended:
                return
            handler = getattr(self, f"on_{type(statement).__name__.lower()}", self.refuse)
            handler(statement)

    def on_expr(self, node: ast.Expr) -> None:
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.value(node.value)

    def on_pass(self, node: ast.Pass) -> None:
        """Translate ``pass`` to nothing."""

    def on_assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def on_annassign(self, node: ast.AnnAssign) -> None:
        """Translate the annotation of a number as the address of an array or of words."""
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.refuse(node)
        self.annotate(node.target.id, node.annotation)
        self.assign(node.target, self.value(node.value))

    def on_augassign(self, node: ast.AugAssign) -> None:
        self.assign(
            node.target, self.binary(node.op, self.value(node.target), self.value(node.value), node)
        )

    def assign(self, target: ast.expr, value: str) -> None:
        if isinstance(target, ast.Name):
            slot = self.slots.setdefault(target.id, f"%{target.id}.slot")
            self.lines.append(f"store i64 {value}, ptr {slot}")
        elif isinstance(target, ast.Subscript | ast.Attribute):
            place, element = self.place(target)
            self.lines.append(f"store {element} {self.narrow(value, element)}, ptr {place}")
        else:
            self.refuse(target)

    def on_if(self, node: ast.If) -> None:
        yes, no, after = self.label(), self.label(), self.label()
        self.jump(f"br i1 {self.condition(node.test)}, label %{yes}, label %{no}")
        for label, statements in ((yes, node.body), (no, node.orelse)):
            self.start(label)
            self.body(statements)
            self.jump(f"br label %{after}")
        self.start(after)

    def on_while(self, node: ast.While) -> None:
        self.loop_over(node, lambda: self.condition(node.test), None)

    def on_for(self, node: ast.For) -> None:
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and len(call.args) in (1, 2)
        ):
            self.refuse(node.iter)
        first = "0" if len(call.args) == 1 else self.value(call.args[0])
        last = self.value(call.args[-1])
        # A separate counter: `continue` must not skip its increment, nor the body change it.
        counter = f"%for{self.count}.slot"
        self.slots[counter] = counter
        self.lines.append(f"store i64 {first}, ptr {counter}")

        def goes_on() -> str:
            now = self.new(f"load i64, ptr {counter}")
            self.assign(node.target, now)
            return self.new(f"icmp slt i64 {now}, {last}")

        def step() -> None:
            now = self.new(f"load i64, ptr {counter}")
            self.lines.append(f"store i64 {self.new(f'add i64 {now}, 1')}, ptr {counter}")

        self.loop_over(node, goes_on, step)

    def loop_over(self, node, goes_on: Callable, step: Callable | None) -> None:
        if node.orelse:
            self.refuse(node.orelse[0])
        test, body, again, after = (self.label() for _ in range(4))
        self.start(test)
        self.jump(f"br i1 {goes_on()}, label %{body}, label %{after}")
        self.start(body)
        self.targets.append((again, after))
        self.body(node.body)
        self.targets.pop()
        self.start(again)
        if step:
            step()
        self.jump(f"br label %{test}")
        self.start(after)

    def on_continue(self, node: ast.Continue) -> None:
        self.jump(f"br label %{self.targets[-1][0]}")

    def on_break(self, node: ast.Break) -> None:
        self.jump(f"br label %{self.targets[-1][1]}")

    def on_return(self, node: ast.Return) -> None:
        self.jump(f"ret i64 {self.value(node.value) if node.value else '0'}")

    # -- expressions ---------------------------------------------------------------------------

    def value(self, node: ast.expr) -> str:
        """Return the expression as an i64."""
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int):
            return str(int(node.value))
        if isinstance(node, ast.Name):
            if node.id in self.slots:
                return self.new(f"load i64, ptr {self.slots[node.id]}")
            known = self.globals.get(node.id)
            if isinstance(known, int):
                return str(known)
        elif isinstance(node, ast.Subscript | ast.Attribute):
            place, element = self.place(node)
            loaded = self.new(f"load {element}, ptr {place}")
            assert isinstance(node.value, ast.Name)  # place() would have rejected others
            widen = self.arrays[node.value.id][1] if isinstance(node, ast.Subscript) else ""
            return self.new(f"{widen} {element} {loaded} to i64") if widen else loaded
        elif isinstance(node, ast.BinOp):
            return self.binary(node.op, self.value(node.left), self.value(node.right), node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.new(f"sub i64 0, {self.value(node.operand)}")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return self.new(f"xor i64 {self.value(node.operand)}, -1")
        elif isinstance(node, ast.Call):
            return self.call(node)
        elif isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
            return self.new(f"zext i1 {self.condition(node)} to i64")
        return self.refuse(node)

    def binary(self, operator: ast.operator, left: str, right: str, node: ast.AST) -> str:
        if type(operator) not in _BINARY:
            self.refuse(node)
        return self.new(f"{_BINARY[type(operator)]} i64 {left}, {right}")

    def condition(self, node: ast.expr) -> str:
        """Return the expression as an i1.

        ``and`` and ``or`` short-circuit, because the right side may use an index that the left
        side has checked.
        """
        if isinstance(node, ast.Compare):
            if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARE:
                self.refuse(node)
            left, right = self.value(node.left), self.value(node.comparators[0])
            return self.new(f"icmp {_COMPARE[type(node.ops[0])]} i64 {left}, {right}")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.new(f"xor i1 {self.condition(node.operand)}, true")
        if isinstance(node, ast.BoolOp):
            stops = isinstance(node.op, ast.Or)
            slot = f"%bool{self.count}.slot"
            self.slots[slot] = slot
            after = self.label()
            for number, part in enumerate(node.values):
                value = self.condition(part)
                wide = self.new(f"zext i1 {value} to i64")
                self.lines.append(f"store i64 {wide}, ptr {slot}")
                if number + 1 < len(node.values):
                    onward = self.label()
                    targets = (after, onward) if stops else (onward, after)
                    self.jump(f"br i1 {value}, label %{targets[0]}, label %{targets[1]}")
                    self.start(onward)
            self.start(after)
            loaded = self.new(f"load i64, ptr {slot}")
            return self.new(f"icmp ne i64 {loaded}, 0")
        return self.new(f"icmp ne i64 {self.value(node)}, 0")

    def narrow(self, value: str, element: str) -> str:
        return value if element == "i64" else self.new(f"trunc i64 {value} to {element}")

    def pointer(self, name: str) -> str:
        """Return the pointer of the parameter or the number ``name``."""
        if name not in self.slots:
            return f"%{name}"
        return self.new(f"inttoptr i64 {self.new(f'load i64, ptr {self.slots[name]}')} to ptr")

    def place(self, node: ast.Subscript | ast.Attribute) -> tuple[str, str]:
        """Return the address of an element or a word, and its type."""
        if not isinstance(node.value, ast.Name):
            self.refuse(node)
        name = node.value.id
        if isinstance(node, ast.Subscript) and name in self.arrays:
            element, index = self.arrays[name][0], self.value(node.slice)
        elif isinstance(node, ast.Attribute) and node.attr in self.words.get(name, ()):
            element, index = "i64", str(self.words[name][node.attr])
        else:
            self.refuse(node)
        return self.new(f"getelementptr {element}, ptr {self.pointer(name)}, i64 {index}"), element

    def call(self, node: ast.Call) -> str:
        callee = self.globals.get(getattr(node.func, "id", ""))
        if node.keywords:
            self.refuse(node)
        if callee is atomic_add:
            array, index, value = node.args
            place, element = self.place(ast.Subscript(array, index))
            added = self.narrow(self.value(value), element)
            self.lines.append(f"atomicrmw add ptr {place}, {element} {added} monotonic")
            return "0"
        if not isinstance(callee, Compilable):
            return self.provided(callee, node)
        translate(callee, self.texts)
        arguments = [
            self.argument(argument, _is_array(parameter))
            for argument, parameter in zip(node.args, callee.definition().args.args, strict=True)
        ]
        return self.new(f"call i64 @{callee.python.__name__}({', '.join(arguments)})")

    def argument(self, node: ast.expr, is_array: bool) -> str:
        if not is_array:
            return f"i64 {self.value(node)}"
        if isinstance(node, ast.Name) and node.id in self.arrays:
            return f"ptr {self.pointer(node.id)}"
        return f"ptr {self.new(f'inttoptr i64 {self.value(node)} to ptr')}"

    def provided(self, callee: object, node: ast.Call) -> str:
        """Call a function that LLVM or the host provides."""
        values = [self.value(argument) for argument in node.args]
        if callee is call:
            address = self.new(f"inttoptr i64 {values[0]} to ptr")
            return self.new(f"call i64 {address}({', '.join(f'i64 {v}' for v in values[1:])})")
        if callee is not fill and callee is not copy:
            self.refuse(node)
        target, second, nbytes = values
        target = self.new(f"inttoptr i64 {target} to ptr")
        if callee is fill:
            name, second = "memset.p0.i64", f"i8 {self.narrow(second, 'i8')}"
        else:
            name, second = "memcpy.p0.p0.i64", f"ptr {self.new(f'inttoptr i64 {second} to ptr')}"
        self.texts[name] = f"declare void @llvm.{name}(ptr, {second.split()[0]}, i64, i1)"
        self.lines.append(f"call void @llvm.{name}(ptr {target}, {second}, i64 {nbytes}, i1 false)")
        return "0"


def _is_array(parameter: ast.arg) -> bool:
    return isinstance(parameter.annotation, ast.Name) and parameter.annotation.id in ELEMENTS
