"""Programs as CUDA C++: one kernel for each loop nest, and the order of their launches."""

from __future__ import annotations

from dataclasses import dataclass

from jaxpile.cuda.columns import by_columns
from jaxpile.cuda.operations import HELPERS, constant, operation, type_name
from jaxpile.expressions import Expr, ordered
from jaxpile.program import (
    Branch,
    Buffer,
    Loop,
    Nest,
    Program,
    Repeat,
    While,
    expressions,
    reads_of,
    walk,
    writes_of,
)
from jaxpile.text import TextWriter, bare, dimension_names

BLOCK = 256
#: Up to this many threads, including those of the last block, have 32-bit numbers.
SHORT = 2**32 - BLOCK


@dataclass(eq=False)
class Kernel:
    """A step of a plan: a kernel with its source, its arguments and its number of threads."""

    name: str
    text: str
    buffers: list[Buffer]
    variables: list[Expr]
    threads: int


@dataclass
class Plan:
    """Steps with kernels instead of nests, and the source of all kernels as one text."""

    steps: list
    text: str


def generate(program: Program) -> Plan:
    """Generate the kernels of a program that was translated for the target "gpu"."""
    kernels: list[Kernel] = []

    def planned(steps: list) -> list:
        result: list = []
        for step in steps:
            if isinstance(step, Repeat):
                step = by_columns(step) or step
            match step:
                case Nest():
                    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in program.name)
                    kernel = kernel_of(step, f"{name}_{len(kernels)}")
                    kernels.append(kernel)
                    result.append(kernel)
                case Repeat():
                    result.append(Repeat(step.variable, step.length, planned(step.steps)))
                case While():
                    result.append(While(planned(step.test), step.going, planned(step.steps)))
                case Branch():
                    result.append(Branch(step.selector, [planned(b) for b in step.branches]))
        return result

    steps = planned(program.steps)
    return Plan(steps, "\n".join([HELPERS, *(kernel.text for kernel in kernels)]))


def kernel_of(nest: Nest, name: str) -> Kernel:
    """Write the kernel of a nest, with one thread for each index of its ranges."""
    writes = writes_of([nest])
    buffers = sorted(reads_of([nest]) | writes, key=lambda b: (b in writes, b.name))
    bound = {item.variable for item in walk(nest.body) if isinstance(item, Loop)}
    free = {
        node
        for item in walk(nest.body)
        for node in ordered(expressions(item))
        if node.op == "var" and node not in bound
    }
    variables = sorted(free, key=lambda node: node.serial)
    writer = CudaWriter()
    # Every buffer has separate memory, except for arguments, which are only read.
    takes = [
        f"{'' if b in writes else 'const '}{type_name(b.dtype)}* __restrict__ {b.name}"
        for b in buffers
    ]
    takes += [f"const long long {node.attr[0]}" for node in variables]
    writer.line(f'extern "C" __global__ void {name}({", ".join(takes)}) {{')
    writer.depth += 1
    # 64-bit divisions take several times the instructions of 32-bit ones.
    if nest.count <= SHORT:
        writer.line("const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;")
    else:
        writer.line("const long long thread = blockIdx.x * (long long)blockDim.x + threadIdx.x;")
    writer.line(f"if (thread >= {nest.count}{'u' if nest.count <= SHORT else 'll'}) return;")
    stride = nest.count
    for axis_name, low, high in dimension_names(nest):
        stride //= high - low
        text = "thread" if stride == 1 else f"thread / {stride}"
        if stride * (high - low) != nest.count:
            text = f"{text} % {high - low}"
        writer.line(f"const long long {axis_name} = {text}{f' + {low}' if low else ''};")
    writer.declare_locals(nest)
    writer.statements(nest.body)
    writer.depth -= 1
    writer.line("}")
    return Kernel(name, "\n".join(writer.lines) + "\n", buffers, variables, nest.count)


class CudaWriter(TextWriter):
    """Writer of C++ inside a kernel."""

    opens, closes = " {", "}"

    def constant(self, node: Expr) -> str:
        return constant(node.attr, node.dtype)

    def operation(self, node: Expr, args: list[str]) -> str:
        return operation(node, args)

    def name_value(self, name: str, node: Expr, text: str) -> str:
        return f"const {type_name(node.dtype)} {name} = {bare(text)};"

    def assign(self, target: str, text: str) -> str:
        return f"{target} = {bare(text)};"

    def declare(self, name: str, dtype) -> None:
        self.line(f"{type_name(dtype)} {name} = {'{}' if dtype.kind == 'c' else '0'};")

    def for_head(self, name: str, low: str, high: str) -> str:
        return f"for (long long {name} = {low}; {name} < {high}; ++{name})"

    def while_head(self, condition: str) -> str:
        return f"while ({bare(condition)})"

    def if_head(self, condition: str) -> str:
        return f"if ({bare(condition)})"
