"""Programs as Python source for reading and for numba.njit: loops over flat arrays."""

from __future__ import annotations

import math

import numpy as np

from jaxpile.complexes import parts
from jaxpile.expressions import BOOL, Expr
from jaxpile.program import Branch, Nest, Program, Repeat, While
from jaxpile.text import TextWriter, bare

SIGNS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "and": "&",
    "or": "|",
    "xor": "^",
}
FUNCTIONS = {
    "sqrt": "np.sqrt",
    "floor": "np.floor",
    "ceil": "np.ceil",
    "round_even": "np.rint",
    "exp": "np.exp",
    "log": "np.log",
    "expm1": "np.expm1",
    "log1p": "np.log1p",
    "tanh": "np.tanh",
    "sin": "np.sin",
    "cos": "np.cos",
    "abs": "np.abs",
    "max": "np.maximum",
    "min": "np.minimum",
    "copysign": "np.copysign",
    "shl": "np.left_shift",
    "shr_a": "np.right_shift",
}
LIBRARY = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "pow": "power",
}


def generate(program: Program) -> str:
    """Return the source of a function from flat arrays to flat output arrays.

    Its integers and divisions by zero follow NumPy and not JAX, because it is meant for reading.
    """
    writer = PythonWriter()
    writer.line("import math")
    writer.line("")
    writer.line("import numpy as np")
    writer.line("")
    for buffer in program.buffers:
        if buffer.kind == "const":
            writer.line(
                f"{buffer.name} = np.array({buffer.contents.reshape(-1).tolist()}, "
                f"np.{buffer.dtype.name})"
            )
    name = program.name if program.name.isidentifier() else "program"
    writer.line("")
    writer.line(f"def {name}({', '.join(b.name for b in program.inputs)}):")
    writer.depth += 1
    for buffer in program.buffers:
        if buffer.kind in ("temp", "output"):
            kind = "bool_" if buffer.dtype == BOOL else buffer.dtype.name
            writer.line(f"{buffer.name} = np.empty({buffer.size}, np.{kind})  # {buffer.shape}")
    writer.steps(program.steps)
    writer.line(f"return {', '.join(b.name for b in program.outputs)}")
    return "\n".join(writer.lines) + "\n"


class PythonWriter(TextWriter):
    """Writer of Python inside a function."""

    opens = ":"

    def steps(self, steps: list) -> None:
        for step in steps:
            match step:
                case Nest():
                    with self.fresh():
                        self.nest(step, 0)
                case Repeat():
                    name = step.variable.attr[0] if step.variable.op == "var" else "_"
                    with self.section(f"for {name} in range({step.length})"):
                        self.steps(step.steps)
                case While():
                    with self.section("while True"):
                        self.steps(step.test)
                        self.line(f"if not {step.going.name}[0]: break")
                        self.steps(step.steps)
                case Branch():
                    for k, branch in enumerate(step.branches):
                        word = "if" if k == 0 else "elif"
                        with self.section(f"{word} {step.selector.name}[0] == {k}"):
                            self.steps(branch)
                            self.line("pass")

    def nest(self, nest: Nest, axis: int) -> None:
        if axis == len(nest.ranges):
            self.statements(nest.body)
            return
        low, high = nest.ranges[axis]
        with self.section(self.for_head(f"i{axis}", str(low), str(high))):
            self.nest(nest, axis + 1)

    def constant(self, node: Expr) -> str:
        if node.dtype.kind == "c":
            text = ", ".join(self.constant(part) for part in parts(node))
            return f"np.{node.dtype.name}(complex({text}))"
        if node.dtype.kind == "f" and not math.isfinite(node.attr):
            text = {"nan": "np.nan", "inf": "np.inf"}.get(str(float(node.attr)), "-np.inf")
        elif node.dtype.kind == "f":
            text = repr(float(node.attr))
        else:
            text = str(node.attr)
        plain = node.dtype in (BOOL, np.dtype(np.float64), np.dtype(np.int64))
        return text if plain else f"np.{node.dtype.name}({text})"

    def operation(self, node: Expr, args: list[str]) -> str:
        op = node.op.rpartition("_")[2] if node.op.startswith(("sum_", "exact_")) else node.op
        first, second = args[0], args[-1]
        kind = "bool_" if node.dtype == BOOL else node.dtype.name
        unsigned = f"np.uint{8 * node.dtype.itemsize}"
        match op:
            case _ if op in SIGNS:
                return f"({first} {SIGNS[op]} {second})"
            case "div":
                return f"({first} {'/' if node.dtype.kind == 'f' else '//'} {second})"
            case "rem":
                return f"np.fmod({first}, {second})"
            case "neg":
                return f"(-{first})"
            case "not":
                return f"(not {first})" if node.dtype == BOOL else f"(~{first})"
            case "complex":
                return f"np.{kind}(complex({bare(first)}, {bare(second)}))"
            case "real" | "imag":
                return f"{first}.{op}"
            case "select":
                return f"({args[1]} if {first} else {second})"
            case "piece":
                return f"({args[1]} if {first} < {node.attr} else {second})"
            case "cast":
                return f"np.{kind}({bare(first)})"
            case "bitcast":
                return f"{first}.view(np.{kind})"
            case "shr_l":
                return f"np.{kind}({unsigned}({first}) >> {unsigned}({second}))"
            case "round_away":
                return f"np.copysign(np.floor(np.abs({first}) + 0.5), {first})"
            case "fma":
                return f"({first} * {args[1]} + {second})"
            case "popcnt":
                return f"np.{kind}(bin({unsigned}({first})).count('1'))"
            case "clz":
                bits = 8 * node.dtype.itemsize
                return f"np.{kind}({bits} - int({unsigned}({first})).bit_length())"
            case "idiv":
                return f"({first} // {node.attr})"
            case "imod":
                return f"({first} % {node.attr})"
            case "iclamp":
                return f"min(max({first}, {node.attr[0]}), {node.attr[1]})"
            case "libm" if node.attr in ("erf", "erfc"):
                return f"math.{node.attr}({first})"
            case "libm":
                return f"np.{LIBRARY.get(node.attr, node.attr)}({', '.join(map(bare, args))})"
            case _ if op in FUNCTIONS:
                return f"{FUNCTIONS[op]}({', '.join(map(bare, args))})"
        raise NotImplementedError(f"Python source has no operation {op!r}")

    def name_value(self, name: str, node: Expr, text: str) -> str:
        return f"{name} = {bare(text)}"

    def assign(self, target: str, text: str) -> str:
        return f"{target} = {bare(text)}"

    def for_head(self, name: str, low: str, high: str) -> str:
        return f"for {name} in range({high if low == '0' else f'{low}, {high}'})"

    def while_head(self, condition: str) -> str:
        return f"while {bare(condition)}"

    def if_head(self, condition: str) -> str:
        return f"if {bare(condition)}"
