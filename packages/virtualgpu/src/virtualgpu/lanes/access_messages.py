"""Messages for an access outside its array, and for a misaligned one."""

from __future__ import annotations

import ast
import re
from typing import NoReturn

import numpy as np

from virtualgpu import sources
from virtualgpu.errors import MemoryAccessError, MisalignedAddressError
from virtualgpu.lanes import index_values
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.wave import STACK_TOP
from virtualgpu.languages import CPP, NUMBA, language_of
from virtualgpu.memory import array_names
from virtualgpu.program.site import Site
from virtualgpu.wording import many

_GUARD = "guard the index (if i < array.size, in C++ if (i < n)) or launch fewer threads"


def _verb(site: Site) -> str:
    return {"load": "reads", "store": "writes", "atomic": "updates"}[site.kind]


def illegal(site: Site, group: Group, space: str, address: np.ndarray, bad: np.ndarray) -> NoReturn:
    """Raise a MemoryAccessError for the first ``bad`` lane of the group."""
    position = int(np.flatnonzero(np.broadcast_to(bad, address.shape))[0])
    wrong = int(address[position])
    lane = int(group.lanes[position])
    several = int(np.count_nonzero(bad))
    language = language_of(site.instruction.source)
    launch, named, numbered = group.wave.launch, None, None
    if space == "global":
        where = launch.memory.describe(wrong, site.size)
        other = launch.memory.elsewhere(wrong)
        place = None if other else array_names.nearest(launch, wrong)
        numbered = None if place else array_names.argument(launch, wrong, site.size)
        help_ = language.guard
        if place:
            named = place.words
            if len(place.shape) > 1 and language is NUMBA:
                named, help_ = _several_indices(site, group, position, place, wrong)
            elif language is NUMBA:
                help_ = _computed_index(site, place) or help_
        elif language is CPP and numbered and "after the end" in where:
            help_ = _computed_index_in_cpp(site) or help_
        if site.instruction.source is None:  # PTX that names no source file
            help_ = _GUARD
        elif numbered and language is NUMBA:
            # In Numba an array takes several parameters, so their numbers mean nothing to the
            # author.
            numbered = numbered.partition(" of argument ")[0]
        if other:
            help_ = "copy the array to the device that launches, or launch on the one that has it"
    elif space == "shared":
        where = launch.shared_layout.describe(wrong, launch.program)
        help_ = f"check the index against the size {language.shared}"
    else:
        where = f"offset {wrong}, outside the thread's local arrays"
        if wrong > STACK_TOP >> 1:
            where = (
                f"offset {wrong}, outside the thread's memory from alloca: past its end, or "
                "already freed by stackrestore or a return"
            )
        help_ = f"check the index against the size {language.local}"
    others = (
        ""
        if several == 1
        else " (1 more thread does the same)"
        if several == 2
        else f" ({several - 1} more threads do the same)"
    )
    what = named or f"{many(site.size, 'byte')} of {space} memory, {where}"
    which = f", element {numbered}" if numbered else ""
    raise MemoryAccessError(
        f"illegal address: the thread {_verb(site)} {what}{others}{which}; {help_}",
        site.location(group, lane),
        address=wrong,
        space=space,
    )


def _several_indices(
    site: Site, group: Group, position: int, place: array_names.ArrayPosition, address: int
) -> tuple[str, str]:
    """Return the element and the advice for an array with several dimensions."""
    name, shape = place.array.name, place.shape
    written = _written_indices(site, name, len(shape))
    index = index_values.indices(site, group, position, place.array, address)
    bad = [k for k, i in enumerate(index or ()) if not -shape[k] <= i < shape[k]]
    if not bad:
        guards = [f"{one} < {name}.shape[{k}]" for k, one in enumerate(written)]
        return place.words, f"guard each index by its own dimension ({' and '.join(guards)})"
    assert index is not None
    beyond = [
        f"index {index[k]} of dimension {k}, which has {many(shape[k], 'element')}" for k in bad
    ]
    guards = [
        f"{written[k]} < {name}.shape[{k}]" if index[k] > 0 else f"{written[k]} >= 0" for k in bad
    ]
    return (
        f"{array_names.element_of(name, index, shape)}: {', '.join(beyond)}",
        f"guard each index by its own dimension (here {' and '.join(guards)})",
    )


def _computed_index(site: Site, place: array_names.ArrayPosition) -> str | None:
    """Return the advice for an expression as index, such as ``a.size - i``, past the end.

    It is None for any other index, because a guard of the thread's index helps there.
    """
    name, (size,) = place.array.name, place.shape
    beyond = re.match(rf"{re.escape(name)}\[(\d+)\]", place.words)
    if not size or beyond is None or int(beyond[1]) < size:
        return None
    written = _furthest(_subscripts(site, name))
    if all(re.fullmatch(r"[\w.]+", text) for text in written):
        return None
    guards = " and ".join(f"{text} < {name}.size" for text in written)
    return f"the last element is {name}[{size - 1}]: {_where_too_large(written, 'larger', guards)}"


def _where_too_large(written: list[str], larger: str, guards: str) -> str:
    quoted = " or ".join(f"`{text}`" for text in written)
    return (
        f"in which threads is {quoted} {larger}? Change that index, or guard the index itself "
        f"(if {guards})"
    )


def _furthest(indices: list[ast.expr]) -> list[str]:
    """Return the texts of ``indices``; of ``i``, ``i + 1`` and ``i - 1`` only ``i + 1``."""
    furthest: dict[str, tuple[int, str]] = {}
    for index in indices:
        base, offset = index, 0
        match index:
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=ast.Constant(int(by))):
                base, offset = left, by if isinstance(op, ast.Add) else -by
        key, text = ast.unparse(base), ast.unparse(index)
        furthest[key] = max(furthest.get(key, (offset, text)), (offset, text))
    return [text for _, text in furthest.values()]


def _computed_index_in_cpp(site: Site) -> str | None:
    """Return the same advice for CUDA C++, if the line has only one possible index.

    PTX does not name the pointer, but a load is to the right of the line's ``=`` and a store to
    its left.
    """
    source = site.instruction.source
    line = (sources.text(source.filename, source.line) or "") if source else ""
    sides = re.split(r"(?<![=!<>])=(?!=)", line)
    if len(sides) > 2 or (len(sides) == 1 and site.kind != "load"):
        return None
    in_both = site.kind != "store" and sides[0].rstrip().endswith(
        ("+", "-", "*", "/", "&", "|", "^")
    )
    side = line if in_both else sides[0] if site.kind == "store" else sides[-1]
    written = {index.strip() for index in re.findall(r"\w\[([^\[\]]+)\]", side)}
    if len(written) != 1 or re.fullmatch(r"[\w.]+", text := written.pop()):
        return None
    return _where_too_large([text], "too large", f"({text} < n)")


def _written_indices(site: Site, name: str, dimensions: int) -> list[str]:
    """Return the indices of ``name`` as in the source line, or ``i``, ``j``, ``k``."""
    found = {
        tuple(map(ast.unparse, index.elts))
        for index in _subscripts(site, name)
        if isinstance(index, ast.Tuple) and len(index.elts) == dimensions
    }
    if len(found) == 1:
        return [*found.pop()]
    return [*"ijkl"[:dimensions]] if dimensions <= 4 else [f"i{k}" for k in range(dimensions)]


def _subscripts(site: Site, name: str) -> list[ast.expr]:
    """Return the expressions in the brackets of ``name`` in the site's line, each once."""
    source = site.instruction.source
    if source is None:
        return []
    found: dict[str, ast.expr] = {}
    line = (sources.text(source.filename, source.line) or "").strip().rstrip(":")
    for text in (line, f"{line}: pass"):  # the second form is for the head of an if or a loop
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == name:
                found[ast.unparse(node.slice)] = node.slice
    return list(found.values())


def misaligned(site: Site, group: Group, space: str, address: np.ndarray) -> NoReturn:
    """Raise a MisalignedAddressError for the first misaligned lane.

    Its address is not a multiple of the site's size.
    """
    position = int(np.flatnonzero(address & np.uint64(site.size - 1))[0])
    wrong = int(address[position])
    raise MisalignedAddressError(
        f"misaligned address: the thread {_verb(site)} {many(site.size, 'byte')} of "
        f"{space} memory at {wrong:#x}, which is not a multiple of {site.size}. Records "
        "and vector types must start at a multiple of their alignment",
        site.location(group, int(group.lanes[position])),
        address=wrong,
        space=space,
    )
