"""Separate functions for exp, sin and others, if a program has too many calls to inline.

A sine is about 50 instructions. LLVM took 5 s to compile three hundred of them in one loop, and
0.1 s to compile them as calls. LLVM's vectoriser calls a vector form of a function, which the
attribute ``vector-function-abi-variant`` of the call names.
"""

from __future__ import annotations

import re

from llvmlite import ir

from jaxpile.expressions import Expr, local, ordered
from jaxpile.llvm.engine import vector_bytes
from jaxpile.llvm.operations import constant, emit, type_of
from jaxpile.mathematics import WRITTEN_OUT
from jaxpile.program import expressions, walk

#: Up to this many are inlined, so that LLVM sees the whole loop without calls.
INLINE = 24
I64 = ir.IntType(64)


def called(steps: list) -> bool:
    """Return True if the steps have too many functions to inline each of them."""
    nodes = ordered(expr for item in walk(steps) for expr in expressions(item))
    return sum(node.op in WRITTEN_OUT for node in nodes) > INLINE


def function_for(module: ir.Module, node: Expr) -> ir.Function:
    """Return the function for a node's operation and dtype, created once with its vector forms."""
    name = f"jx_{node.op}_{node.dtype.name}"
    if name not in module.globals:
        kind = type_of(node.dtype)
        function = ir.Function(module, ir.FunctionType(kind, [kind]), name)
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        builder.ret(value(builder, node, function.args[0]))
        for lanes in lanes_of(node.dtype.itemsize):
            vector_form(module, node, f"{name}_v{lanes}", lanes)
    return module.globals[name]


def lanes_of(itemsize: int) -> list[int]:
    """Return the lane counts that LLVM may use: a whole vector register, or half of one."""
    return [vector_bytes() // itemsize, vector_bytes() // itemsize // 2]


def vector_form(module: ir.Module, node: Expr, name: str, lanes: int) -> None:
    """Write a loop over the lanes with the function inlined, which LLVM vectorises."""
    kind = type_of(node.dtype)
    vector = ir.VectorType(kind, lanes)
    function = ir.Function(module, ir.FunctionType(vector, [vector]), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    memory = builder.alloca(kind, ir.Constant(I64, lanes))
    whole = builder.bitcast(memory, vector.as_pointer())
    builder.store(function.args[0], whole, align=node.dtype.itemsize)
    head, end = function.append_basic_block("lane"), function.append_basic_block("end")
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    lane = builder.phi(I64)
    place = builder.gep(memory, [lane], source_etype=kind)
    builder.store(value(builder, node, builder.load(place, typ=kind)), place)
    after = builder.add(lane, ir.Constant(I64, 1))
    lane.add_incoming(ir.Constant(I64, 0), before)
    lane.add_incoming(after, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", after, ir.Constant(I64, lanes)), head, end)
    builder.position_at_end(end)
    builder.ret(builder.load(whole, typ=vector, align=node.dtype.itemsize))


def value(builder: ir.IRBuilder, node: Expr, argument):
    """Write out the operation on an LLVM value."""
    x = local("x", node.dtype)
    memo = {x: argument}
    root = WRITTEN_OUT[node.op](x)
    for inner in ordered([root], memo):
        memo[inner] = (
            constant(inner)
            if inner.op == "const"
            else emit(builder, inner, [memo[arg] for arg in inner.args])
        )
    return memo[root]


def announced(text: str) -> str:
    """Name the vector forms at each call in the text, because llvmlite cannot do this."""
    names = sorted(set(re.findall(r'define \w+ @"(jx_\w+)"\(', text)))
    for number, name in enumerate(names):
        text = re.sub(rf'(call \w+ @"{name}"\([^)]*\))', rf"\1 #{number}", text)
        forms = ",".join(
            f"_ZGV_LLVM_N{lanes}v_{name}({name}_v{lanes})"
            for lanes in lanes_of(4 if name.endswith("32") else 8)
        )
        text += (
            f"attributes #{number} = {{ nounwind willreturn memory(none) "
            f'"vector-function-abi-variant"="{forms}" }}\n'
        )
    return text
