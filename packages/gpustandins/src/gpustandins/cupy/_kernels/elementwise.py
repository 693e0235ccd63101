"""``ElementwiseKernel``: a C++ loop body that runs for each element of broadcast arguments."""

from __future__ import annotations

import operator

import numpy as np

from .._arrays.operands import as_array
from ..cuda.texture import Handle
from . import kernel
from .code import prelude, quoted


class ElementwiseKernel(kernel.GeneratedKernel):
    """Kernel that computes each element of its outputs from the elements of its inputs.

    >>> squared_difference = cupy.ElementwiseKernel(
    ...     "float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squared_difference")

    C++ code is generated for the argument types, compiled by NVRTC and launched on the virtual
    GPU. Line numbers in messages are those of ``operation``.

    Parameters
    ----------
    in_params, out_params : str
        Declarations separated by commas, each with a NumPy type (or a one-letter placeholder) and
        a name. With ``raw`` before the type, the loop body gets the whole array, which is indexed
        by element number or by one index per dimension.
    operation : str
        The loop body. ``i`` is the element number and ``_ind`` holds the indices
        (``_ind.get()[axis]``, ``_ind.size()``).
    name : str
        The kernel's name.
    reduce_dims : bool
        If True, dimensions are merged where the arrays allow it.
    preamble : str
        C++ code before the kernel.
    no_return, return_tuple : bool
        Return nothing, or return a tuple even for one output.
    options : tuple of str
        Compiler options for NVRTC.
    loop_prep, after_loop : str
        C++ code before and after the loop.
    """

    _kind = "elementwise"

    def __init__(
        self,
        in_params,
        out_params,
        operation,
        name="kernel",
        reduce_dims=True,
        preamble="",
        no_return=False,
        return_tuple=False,
        *,
        options=(),
        loop_prep="",
        after_loop="",
    ):
        self._init(in_params, out_params, name, options)
        self.params = self.in_params + self.out_params
        if any(one.name == "i" for one in self.params):
            raise ValueError("Can not use 'i' as a parameter name")
        self.operation, self.preamble, self.reduce_dims = operation, preamble, reduce_dims
        self.no_return, self.return_tuple = no_return, return_tuple
        self._loop_prep, self._after_loop = loop_prep, after_loop

    def __call__(self, *args, size: int | None = None, stream=None, block_size: int = 128):
        """Compile the kernel for the argument types if necessary, and launch it.

        Parameters
        ----------
        args : cupy.ndarray or numbers
            The inputs, or the inputs and the outputs. A number is converted to the type of its
            parameter.
        size : int, optional
            The number of iterations. It is required, and allowed, only if all arrays are ``raw``.
        block_size : int
            Threads per block.

        Returns
        -------
        cupy.ndarray, a tuple of them, or None (``no_return``)
        """
        if block_size <= 0:
            raise ValueError("block_size must be greater than zero")
        self._count(len(args))
        for value in args:
            if hasattr(value, "__cupy_override_elementwise_kernel__"):
                return value.__cupy_override_elementwise_kernel__(
                    self, *args, **({} if size is None else {"size": size})
                )
        # Outputs may also lie in the memory of another library.
        args = tuple(value if (array := as_array(value)) is None else array for value in args)
        values = [kernel.operand(value) for value in args]
        types = [
            value.dtype if is_array or isinstance(given, Handle) else None
            for (value, is_array), given in zip(values, args, strict=True)
        ]
        if any(one is None for one in types[self.nin :]):
            raise TypeError("Output arguments must be cupy.ndarray")
        in_types, out_types, meaning = kernel.resolve_types(
            self.in_params, self.out_params, types[: self.nin], types[self.nin :]
        )
        operands = [
            value if is_array else kernel.number(value, dtype)
            for (value, is_array), dtype in zip(values, [*in_types, *out_types], strict=False)
        ]
        operands, shape = kernel.broadcast(operands, self.params[: len(operands)])
        if size is not None:
            if shape is not None:
                raise ValueError(
                    "Specified 'size' can be used only if all of the ndarray are 'raw'."
                )
            shape = (operator.index(size),)
        elif shape is None:
            raise ValueError("Loop size is undecided.")
        elif len(args) == self.nin and any(one.raw for one in self.out_params):
            raise ValueError("Output array size is Undecided")
        outputs = kernel.new_outputs(self.out_params, out_types, shape, args[self.nin :])
        if 0 not in shape:
            self._launch(
                [*operands[: self.nin], *map(kernel.output, outputs)],
                shape,
                meaning,
                block_size,
                stream,
            )
        if self.no_return:
            return None
        return outputs[0] if len(outputs) == 1 and not self.return_tuple else tuple(outputs)

    def _launch(self, operands, shape, meaning, block_size, stream) -> None:
        if self.reduce_dims:
            operands, shape = kernel.squash(operands, self.params, shape)
        function = self._function(operands, (len(shape),), meaning)
        arguments = [*(one.argument() for one in operands), kernel.indexer(shape)]
        function.linear_launch(
            int(np.prod(shape, dtype=np.int64)), arguments, 0, block_size, stream
        )

    def _code(self, operands, dimensions: tuple[int], meaning: dict[str, np.dtype]) -> str:
        declared, elements = [], []
        for one, given in zip(self.params, operands, strict=True):
            const = "const " if one.is_const else ""
            is_element = given.is_array and not one.raw
            declared.append(f"{const}{given.c_type()} {'_raw_' if is_element else ''}{one.name}")
            if is_element:
                elements.append(f"{const}{one.ctype} &{one.name} = _raw_{one.name}[_ind.get()];")
        declared.append(f"CIndexer<{dimensions[0]}> _ind")
        elements = "\n        ".join(elements)
        return f"""{prelude(one.dtype for one in operands)}{kernel.typedefs(meaning)}
{self._own(self.preamble, "preamble")}
extern "C" __global__ void {self.name}({", ".join(declared)}) {{
    {self._own(self._loop_prep, "loop_prep")};
    #pragma unroll 1
    CUPY_FOR(i, _ind.size()) {{
        _ind.set(i);
        {elements}
        {quoted(self.operation, self.name)};
    }}
    {self._own(self._after_loop, "after_loop")};
}}
"""

    def _own(self, text: str, what: str) -> str:
        """Return user code outside the loop, with line numbers for messages."""
        return quoted(text, f"{self.name} ({what})") if text else ""
