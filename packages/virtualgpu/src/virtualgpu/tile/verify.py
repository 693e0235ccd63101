"""Type check of operations, done once when the bytecode is read.

Operations that pass can run without further checks, because shapes and dtypes of all arrays are
known.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from virtualgpu.tile.body import TileOperation
from virtualgpu.tile.bytecode import MOST_ELEMENTS, damaged
from virtualgpu.tile.types import NAMED, Element, TensorType, TileType, Token, ViewType
from virtualgpu.wording import many

_rules: dict[str, Callable[[TileOperation], bool | str]] = {}
_I32 = TileType(NAMED["i32"], ())


def verify(operation: TileOperation) -> None:
    """Check the types of an operation. Raises BytecodeError if they do not match."""
    kinds = operation.opcode.types
    if kinds.startswith(":"):
        said = _rules[kinds[1:]](operation)
    else:
        taken, _, given = kinds.partition(">")
        said = _fit(taken.split() + given.split(), [*operation.types, *operation.results])
    if said is not True:
        raise refused(operation, said or "the types do not fit")


def refused(operation: TileOperation, why: str):
    def shown(found) -> str:
        return ", ".join(map(str, found)) or "nothing"

    return damaged(
        operation.offset,
        f"operation {operation.name}",
        f"{why}: it takes {shown(operation.types)} and gives {shown(operation.results)}",
    )


def _rule(*names: str):
    def put(function):
        _rules.update(dict.fromkeys(names, function))
        return function

    return put


def _fit(kinds: list[str], found: list) -> bool:
    """Return True if types match those of a row of the table (see :mod:`.opcodes`)."""
    if len(kinds) != len(found):
        return False
    same: dict[str, TileType] = {}
    for kind, one in zip(kinds, found, strict=True):
        if not isinstance(one, TileType) or one.shape != found[0].shape:
            return False
        if not _is(kind[0], one.element):
            return False
        if len(kind) == 1 and same.setdefault(kind, one) != one:
            return False
    return True


def _is(kind: str, element: Element) -> bool:
    return {
        "f": element.kind == "f",
        "i": element.kind == "i",
        "n": element.kind in "fi",
        "p": element.kind == "p",
        "q": element.kind == "p",
        "a": True,
        "b": element.name == "i1",
    }[kind]


def _scalar(found, kind: str = "i") -> bool:
    return isinstance(found, TileType) and not found.shape and _is(kind, found.element)


def _tiles(operation: TileOperation, taken: int, given: int = 1) -> bool:
    """Return True if an operation has these numbers of tile operands and tile results."""
    return (
        len(operation.types) == taken
        and len(operation.results) == given
        and all(isinstance(one, TileType) for one in (*operation.types, *operation.results))
    )


def _same_element(operation: TileOperation) -> bool:
    return len({one.element for one in (*operation.types, *operation.results)}) == 1


# -- values --------------------------------------------------------------------------------------


@_rule("same")
def _same(operation: TileOperation) -> bool:
    return len(operation.types) == 1 and operation.results == operation.types


@_rule("bitcast")
def _bitcast(operation: TileOperation) -> bool:
    if not _tiles(operation, 1):
        return False
    source, result = operation.types[0], operation.results[0]
    return (
        source.shape == result.shape
        and source.element.bits == result.element.bits
        and "p" not in (source.element.kind + result.element.kind)
    )


@_rule("constant")
def _constant(operation: TileOperation) -> bool | str:
    if not _tiles(operation, 0) or operation.results[0].element.kind == "p":
        return False
    tile, data = operation.results[0], operation.attributes["value"]
    count = math.prod(tile.shape)
    size = 3 if tile.element.name == "tf32" else tile.element.size
    fits = {size, size * count} if tile.element.name != "i1" else {1, -(-count // 8)}
    return len(data) in fits or f"{many(len(data), 'byte')} of a constant"


@_rule("iota")
def _iota(operation: TileOperation) -> bool:
    return (
        _tiles(operation, 0)
        and len(operation.results[0].shape) == 1
        and operation.results[0].element.kind == "i"
    )


@_rule("scalars")
def _scalars(operation: TileOperation) -> bool:
    return all(one == _I32 for one in operation.results)


@_rule("tokens")
def _tokens(operation: TileOperation) -> bool:
    return all(isinstance(one, Token) for one in (*operation.types, *operation.results))


@_rule("global", "alloca")
def _pointer(operation: TileOperation) -> bool | str:
    if not _tiles(operation, 0) or not _scalar(operation.results[0], "p"):
        return False
    count, align = (operation.attributes.get(name, 1) for name in ("count", "alignment"))
    return (count <= MOST_ELEMENTS and 0 < align <= 1 << 16 and align & (align - 1) == 0) or (
        f"{count} elements aligned to {align} bytes"
    )


# -- shapes --------------------------------------------------------------------------------------


@_rule("broadcast")
def _broadcast(operation: TileOperation) -> bool:
    if not _tiles(operation, 1) or not _same_element(operation):
        return False
    source, result = operation.types[0].shape, operation.results[0].shape
    return len(source) == len(result) and all(
        a in (1, b) for a, b in zip(source, result, strict=True)
    )


@_rule("reshape")
def _reshape(operation: TileOperation) -> bool:
    return (
        _tiles(operation, 1)
        and _same_element(operation)
        and math.prod(operation.types[0].shape) == math.prod(operation.results[0].shape)
    )


@_rule("permute")
def _permute(operation: TileOperation) -> bool:
    if not _tiles(operation, 1) or not _same_element(operation):
        return False
    order, source = operation.attributes["permutation"], operation.types[0].shape
    return sorted(order) == list(range(len(source))) and operation.results[0].shape == tuple(
        source[one] for one in order
    )


@_rule("cat")
def _cat(operation: TileOperation) -> bool:
    if not _tiles(operation, 2) or not _same_element(operation):
        return False
    (left, right), result = (one.shape for one in operation.types), operation.results[0].shape
    dim = operation.attributes["dim"]
    return len(left) == len(right) == len(result) > dim and all(
        (a + b if d == dim else a) == c and (d == dim or a == b)
        for d, (a, b, c) in enumerate(zip(left, right, result, strict=True))
    )


@_rule("extract", "insert")
def _extract(operation: TileOperation) -> bool:
    many = 2 if operation.name == "insert" else 1
    whole = operation.types[many - 1] if len(operation.types) >= many else None
    part = operation.types[0] if many == 2 else operation.results[0]
    tiles = (*operation.types[:many], *operation.results)
    if (
        whole is None
        or not all(isinstance(one, TileType) for one in tiles)
        or len({one.element for one in tiles}) != 1
    ):
        return False
    indices = operation.types[many:]
    return (
        len(part.shape) == len(whole.shape) == len(indices)
        and all(a % b == 0 for a, b in zip(whole.shape, part.shape, strict=True))
        and all(map(_scalar, indices))
        and (many == 1 or operation.results[0] == whole)
    )


@_rule("pack")
def _pack(operation: TileOperation) -> bool:
    if not _tiles(operation, 1):
        return False
    source, result = operation.types[0], operation.results[0]
    wide, narrow = (source, result) if operation.name == "pack" else (result, source)
    return (
        len(wide.shape) == len(narrow.shape) == 1
        and narrow.element.name == "i8"
        and wide.element.bits >= 8
        and wide.element.kind in "if"
        and wide.shape[0] * wide.element.size == narrow.shape[0]
    )


@_rule("mma")
def _mma(operation: TileOperation) -> bool:
    if not _tiles(operation, 3) or operation.results[0] != operation.types[2]:
        return False
    left, right, sums = operation.types
    kind = "f" if operation.name == "mmaf" else "i"
    rank = len(sums.shape)
    return (
        left.element == right.element
        and left.element.kind == sums.element.kind == kind
        and rank in (2, 3)
        and len(left.shape) == len(right.shape) == rank
        and left.shape[:-2] == right.shape[:-2] == sums.shape[:-2]
        and left.shape[-1] == right.shape[-2]
        and sums.shape[-2:] == (left.shape[-2], right.shape[-1])
        and (kind == "f" or (left.element.name, sums.element.name) == ("i8", "i32"))
    )


@_rule("fold")
def _fold(operation: TileOperation) -> bool | str:
    tiles, results = operation.types, operation.results
    many, dim = len(tiles), operation.attributes["dim"]
    if (
        not tiles
        or len(results) != many
        or not all(isinstance(one, TileType) for one in (*tiles, *results))
    ):
        return False
    shape = tiles[0].shape
    if dim >= len(shape) or len({one.shape for one in tiles}) != 1:
        return False
    after = shape if operation.name == "scan" else shape[:dim] + shape[dim + 1 :]
    body = operation.regions[0]
    scalars = tuple(TileType(one.element, ()) for one in tiles for _ in (0, 1))
    last = body.operations[-1]
    return (
        all(
            a.element == b.element and b.shape == after for a, b in zip(tiles, results, strict=True)
        )
        and body.arguments == scalars
        and last.name == "yield"
        and last.types == scalars[::2]
        and all(one.name in _PURE for one in body.operations[:-1])
    ) or ("its body is to combine two elements of each tile, by operations on scalars alone")


_PURE = frozenset(
    """absf absi addf addi andi atan2 bitcast ceil cmpf cmpi constant cos cosh divf
    divi exp exp2 exti floor fma ftof ftoi fpowi itof log log2 maxf maxi minf mini mulf mulhii muli
    negf negi ori pow remf remi rsqrt select shli shri sin sinh sqrt subf subi tan tanh trunci xori
    """.split()
)


# -- memory --------------------------------------------------------------------------------------


def _rest(
    operation: TileOperation, after: int, mask: TileType, padding: TileType | None = None
) -> bool:
    """Check the optional operands after the first ones: a mask, a padding, a token."""
    wanted: list = []
    for name, kind in (("mask", mask), ("padding", padding), ("token", Token())):
        if name in operation.flags:
            wanted.append(kind)
    return list(operation.types[after:]) == wanted


def _strong(operation: TileOperation) -> bool | str:
    order, scope = operation.attributes["order"], operation.attributes.get("scope")
    return (order == "weak") == (scope is None) or f"order {order} with scope {scope}"


@_rule("load")
def _load(operation: TileOperation) -> bool | str:
    pointers, result = operation.types[0], operation.results[0]
    if not (
        isinstance(pointers, TileType)
        and isinstance(result, TileType)
        and pointers.element.pointee == result.element
        and pointers.shape == result.shape
        and operation.results[1] == Token()
    ):
        return False
    return _rest(operation, 1, TileType(NAMED["i1"], result.shape), result) and _strong(operation)


@_rule("store")
def _store(operation: TileOperation) -> bool | str:
    pointers, value = operation.types[:2]
    if not (
        isinstance(pointers, TileType)
        and isinstance(value, TileType)
        and pointers.element.pointee == value.element
        and pointers.shape == value.shape
        and operation.results == (Token(),)
    ):
        return False
    return _rest(operation, 2, TileType(NAMED["i1"], value.shape)) and _strong(operation)


@_rule("atomic")
def _atomic(operation: TileOperation) -> bool | str:
    many = 3 if operation.name == "atomic_cas_tko" else 2
    pointers, *values = operation.types[:many]
    result = operation.results[0]
    if not (
        isinstance(pointers, TileType)
        and isinstance(result, TileType)
        and pointers.element.pointee == result.element
        and pointers.shape == result.shape
        and all(one == result for one in values)
        and operation.results[1] == Token()
    ):
        return False
    return _rest(operation, many, TileType(NAMED["i1"], result.shape)) and _computes(
        operation, result.element
    )


def _computes(operation: TileOperation, element: Element) -> bool | str:
    mode = operation.attributes.get("mode", "xchg")
    wanted = "f" if mode == "addf" else "fi" if mode == "xchg" else "i"
    return (element.kind in wanted and element.name != "i1") or (
        f"an atomic {mode} of {element} elements"
    )


@_rule("make_tensor")
def _make_tensor(operation: TileOperation) -> bool:
    tensor, named = operation.results[0], operation.named
    if (
        not isinstance(tensor, TensorType)
        or not _scalar(operation.types[0], "p")
        or (operation.types[0].element.pointee != tensor.element)
    ):
        return False
    return (
        len(named["shape"]) == tensor.shape.count(None)
        and len(named["strides"]) == tensor.strides.count(None)
        and all(map(_scalar, operation.types[1:]))
    )


@_rule("make_view")
def _make_view(operation: TileOperation) -> bool:
    view = operation.results[0]
    return (
        isinstance(view, ViewType)
        and operation.types == (view.tensor,)
        and view.kind == operation.name.removeprefix("make_").removesuffix("_view")
    )


@_rule("view")
def _view(operation: TileOperation) -> bool | str:
    named, types = operation.named, dict(zip(operation.operands, operation.types, strict=True))
    view = types[named["view"]]
    if not isinstance(view, ViewType) or len(named["indices"]) != len(view.shape):
        return False
    for place, index in enumerate(named["indices"]):
        found = types[index]
        if (
            not isinstance(found, TileType)
            or found.element.kind != "i"
            or found.shape != ((view.shape[place],) if place == view.sparse else ())
        ):
            return False
    loads = operation.name == "load_view_tko"
    tile = operation.results[0] if loads else types[named["value"]]
    if tile != TileType(view.tensor.element, view.shape) or operation.results[loads:] != (Token(),):
        return False
    if "token" in named and types[named["token"]] != Token():
        return False
    if len(operation.attributes.get("inbounds", ())) not in (0, len(view.shape)):
        return "the list of dimensions that are in bounds has another length"
    if operation.name == "atomic_red_view_tko":
        return _computes(operation, view.tensor.element)
    return _strong(operation)


@_rule("sizes")
def _sizes(operation: TileOperation) -> bool:
    view = operation.types[0]
    return (
        isinstance(view, TensorType if operation.name == "get_tensor_shape" else ViewType)
        and len(operation.results) == len(view.shape)
        and all(map(_scalar, operation.results))
    )


@_rule("print")
def _print(operation: TileOperation) -> bool:
    values = operation.types[: len(operation.named["values"])]
    return all(isinstance(one, TileType) for one in values) and all(
        one == Token() for one in (*operation.results, *operation.types[len(values) :])
    )


# -- control flow --------------------------------------------------------------------------------


@_rule("leave")
def _leave(operation: TileOperation) -> bool:
    return not operation.results  # its values are those of the enclosing operation


def _leaving(operation: TileOperation, ways: dict[str, tuple]) -> bool | str:
    """Check that every exit of the regions yields values of these types."""

    def look(region) -> bool:
        for one in region.operations:
            if one.name in ways and one.types != ways[one.name]:
                return False
            inner = {"if": [way for way in ways if way != "yield"]}.get(one.name, [])
            if inner and not all(_leaving_if(one, {way: ways[way] for way in inner})):
                return False
        return True

    return all(map(look, operation.regions)) or "a way out of it hands over other values"


def _leaving_if(operation: TileOperation, ways: dict[str, tuple]):
    for region in operation.regions:
        yield all(one.types == ways[one.name] for one in region.operations if one.name in ways)
        for one in region.operations:
            if one.name == "if":
                yield from _leaving_if(one, ways)


def _ends(operation: TileOperation, *ways: str) -> bool:
    return all(region.operations[-1].name in ways for region in operation.regions)


@_rule("if")
def _if(operation: TileOperation) -> bool | str:
    return (
        _scalar(operation.types[0], "b")
        and not any(region.arguments for region in operation.regions)
        and _leaving(operation, {"yield": operation.results})
    )


@_rule("for")
def _for(operation: TileOperation) -> bool | str:
    lower, upper, step, *values = operation.types
    return (
        _scalar(lower)
        and lower == upper == step
        and tuple(values) == operation.results
        and operation.regions[0].arguments == (lower, *values)
        and _ends(operation, "continue")
        and _leaving(operation, {"continue": operation.results})
    )


@_rule("loop")
def _loop(operation: TileOperation) -> bool | str:
    return (
        operation.regions[0].arguments == operation.types
        and _ends(operation, "continue", "break", "return")
        and _leaving(operation, {"continue": operation.types, "break": operation.results})
    )
