"""Numba's own types in kernels of numba-cuda-mlir, which accepts only its own types.

``from numba import cuda, float32`` is how programs for ``numba.cuda`` are written; where the
successor answers to ``numba.cuda`` (:mod:`virtualgpu.successor.choice`), ``float32`` means its own
type of that name: in a kernel, in a signature, as the element type of a shared array.

What it relies on (numba-cuda-mlir 0.6): ``typeof_impl`` gives types to a kernel's globals, and
signatures go through ``sigutils.is_signature`` and ``sigutils.normalize_signature``.
"""

from __future__ import annotations

from typing import Any


def accept() -> None:
    """Have the successor take Numba's types, from now on."""
    from numba.core import types, typing
    from numba_cuda_mlir.numba_cuda.core import sigutils
    from numba_cuda_mlir.numba_cuda.typing import typeof

    typeof_impl: Any = typeof.typeof_impl

    def type_of_numbas(value: Any, context: Any) -> Any:
        return typeof_impl(successors(value), context)

    typeof_impl.register(types.Type, type_of_numbas)
    is_signature, normalize = sigutils.is_signature, sigutils.normalize_signature

    def normalize_signature(signature: Any) -> Any:
        if isinstance(signature, tuple):
            signature = tuple(map(successors, signature))
        elif isinstance(signature, typing.Signature):
            from numba_cuda_mlir.numba_cuda import typing as successor

            signature = successor.signature(
                successors(signature.return_type), *map(successors, signature.args)
            )
        return normalize(signature)

    sigutils.normalize_signature = normalize_signature
    sigutils.is_signature = lambda signature: (
        is_signature(signature) or isinstance(signature, typing.Signature)
    )


def successors(kind: Any) -> Any:
    """Return the successor's type for Numba's type ``kind``; others as they are.

    Raises TypeError for a type that the successor has not.
    """
    from numba.core import types
    from numba_cuda_mlir.numba_cuda import types as successor

    if not isinstance(kind, types.Type):
        return kind
    if isinstance(kind, types.Array):
        return successor.Array(
            successors(kind.dtype),
            kind.ndim,
            kind.layout,
            readonly=not kind.mutable,
            aligned=kind.aligned,
        )
    if isinstance(kind, types.NumberClass):
        return successor.NumberClass(successors(kind.instance_type))
    if isinstance(kind, types.BaseTuple):
        return successor.BaseTuple.from_types([successors(item) for item in kind])
    if isinstance(kind, types.Number | types.Boolean | types.NoneType):
        return getattr(successor, kind.name)
    raise TypeError(f"numba-cuda-mlir knows no type like Numba's {kind}")
