"""One line of advice for each error that beginners often meet."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

Advice = str | Callable[[re.Match, BaseException], str | None]


def _similar(found: re.Match, error: BaseException) -> str | None:
    module, name = sys.modules.get(found[1]), found[2]
    close = difflib.get_close_matches(name, dir(module), n=1) if module else []
    return f"did you mean {found[1].rpartition('.')[2]}.{close[0]}?" if close else None


def _not_read(name: str) -> str | None:
    """Return the advice if the latest cell that defines ``name`` has a syntax error."""
    shell = _shell()
    if shell is None:
        return None
    defines = re.compile(rf"^\s*(def|class)\s+{name}\b|^{name}\s*=[^=]", re.MULTILINE)
    for number, cell in reversed([*enumerate(shell.history_manager.input_hist_parsed)]):
        if not defines.search(cell):
            continue
        try:
            ast.parse(cell)
        except SyntaxError as error:
            return (
                f"cell In[{number}] defines {name}, but Python cannot read it (line "
                f"{error.lineno}: {error.msg}), so {name} does not exist yet. Correct that line "
                "and run the cell again"
            )
        return None
    return None


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _undefined(found: re.Match, error: BaseException) -> str | None:
    name = found[1]
    if advice := _not_read(name):
        return advice
    cuda = sys.modules.get("numba.cuda")
    if cuda is not None and name in _NAMES_OF_CUDA and hasattr(cuda, name):
        return f"did you mean cuda.{name}?"
    return (
        f"no cell that has run defines {name}. Check its spelling. After a restart, run "
        "the cells above again (Run › Run All Above Selected Cell)"
    )


#: Names that a kernel reaches as `cuda.…` and that learners often write without the prefix.
_NAMES_OF_CUDA = (
    "atomic blockDim blockIdx grid gridDim gridsize jit shared syncthreads syncwarp threadIdx "
    "to_device"
).split()


def _undefined_in_kernel(found: re.Match, error: BaseException) -> str | None:
    name = found[1]
    cuda = sys.modules.get("numba.cuda")
    if cuda is not None and name in _NAMES_OF_CUDA and hasattr(cuda, name):
        return f"did you mean cuda.{name}?"
    if name in _IMPORTS:
        return f"{name} comes with `{_IMPORTS[name]}` in a cell above. Run that cell, then this one"
    if cuda is not None and isinstance(getattr(cuda, name, None), type(cuda.float32)):
        return f"{name} comes with `from numba import {name}` in a cell above"
    code = getattr(_compiled_function(error), "__code__", None)
    close = difflib.get_close_matches(name, code.co_varnames if code else (), n=1)
    if close:
        return f"the kernel has no {name}. Did you mean {close[0]}?"
    return (
        "a kernel sees its parameters, its own variables and the globals that existed when it "
        f"was first launched, and {name} is none of these. Check its spelling"
    )


def _compiled_function(error: BaseException) -> Any:
    return next(
        (
            frame.f_locals["py_func"]
            for frame, _ in traceback.walk_tb(error.__traceback__)
            if "py_func" in frame.f_locals
        ),
        None,
    )


def _called(found: re.Match, error: BaseException) -> str:
    """Return the advice for parentheses after a value that is not a function."""
    kind = found[1]
    if "Tuple(" in kind:
        return (
            "a shape takes brackets, as in a.shape[0]. Parentheses call a function, "
            "and a shape is not a function"
        )
    if kind.startswith("array("):
        return (
            "an array takes brackets, as in a[i]. Parentheses call a function, and an "
            "array is not a function"
        )
    return (
        "this is a number, and parentheses call a function. Write a.size and cuda.threadIdx.x "
        "without parentheses"
    )


def _named_first(found: re.Match, error: BaseException) -> str:
    kernel = ", kernel" if found[1] == "replay" else ", answer" if found[1] == "check" else ""
    return f'pass the name of the exercise first, in quotes: {found[1]}("…"{kernel})'


def _method(found: re.Match, error: BaseException) -> str | None:
    name, close = found[1], difflib.get_close_matches(found[1], _DEVICE_ARRAY, n=1, cutoff=0.5)
    return f"an array on the device has no {name}. Did you mean .{close[0]}?" if close else None


#: Attributes and methods of a device array that the lessons use.
_DEVICE_ARRAY = ("copy_to_host", "copy_to_device", "shape", "size", "dtype", "reshape")


def _signature(found: re.Match, error: BaseException) -> str | None:
    function = _compiled_function(error)
    if function is None:
        return None
    names = [*inspect.signature(function).parameters]
    many = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
    return f"{function.__name__}({', '.join(names)}) takes {many} and was given {found[1]}"


#: Names that the notebooks give to imported modules, with the import statement.
_IMPORTS = {
    "cp": "import cupy as cp",
    "cuda": "from numba import cuda",
    "jnp": "import jax.numpy as jnp",
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
    **{name: f"import {name}" for name in ("gpucourse", "jax", "math", "numba", "virtualgpu")},
}


def _module(found: re.Match, error: BaseException) -> str | None:
    return (
        f"{found[1]} comes with `{_IMPORTS[found[1]]}`. Write that line above, or, after a "
        "restart, run the cells above again (Run › Run All Above Selected Cell)"
    )


def _atomic(found: re.Match, error: BaseException) -> str | None:
    # Numba unpacks an atomic's arguments in the frame where it resolves the type of the call.
    last = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1:]
    key = getattr(last[0].f_locals.get("self"), "key", None) if last else None
    name = getattr(key, "__qualname__", "")
    if not name.startswith("atomic.") or name == "atomic.compare_and_swap":
        return None
    return f"cuda.{name} takes an array, an index and a value"


def _both_numbers(found: re.Match, error: BaseException) -> str | None:
    # For `kernel[8]`, numba-cuda asks the number for its length, in one of its own frames. For
    # `kernel[1, array]`, it uses the launch configuration as a dictionary key.
    last = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1:]
    if not last or not last[0].f_globals.get("__name__", "").startswith("numba."):
        return None
    return (
        "a launch has two numbers in its brackets: kernel[blocks, threads](…), for "
        "example kernel[1, 8](…)"
    )


_ADVICE: tuple[tuple[str, Advice], ...] = (
    (r"module '([\w.]+)' has no attribute '(\w+)'", _similar),
    (r"Signature mismatch: (\d+) argument types given", _signature),
    (
        r"Untyped global name '(\w+)'(?s:.*)<class 'function'>",
        r"'\1' is an ordinary Python function, and kernels can call only compiled functions. "
        "Decorate it with @cuda.jit(device=True)",
    ),
    (
        (
            r"^name '(check|hint|predict|call|launch\w*|secret_rng|unwritten|expect\w*)' is not "
            r"defined"
        ),
        r"\1 comes from the cell at the top of the lesson that begins with %load_ext "
        r"gpucourse. Run that cell first (Run › Run All Above Selected Cell)",
    ),
    (rf"^name '({'|'.join(_IMPORTS)})' is not defined", _module),
    (r"^name '(\w+)' is not defined", _undefined),
    (r"\b(hint|check|picture|predict|replay)\(\) missing \d .*'name'", _named_first),
    (
        r"\breplay\(\) missing 1 required positional argument: 'kernel'",
        'replay takes the name of the puzzle and the kernel: replay("…", kernel)',
    ),
    (
        r"\b(show_)?board\(\) takes 0 positional arguments",
        "the board shows all puzzles at once: board()",
    ),
    (
        r"\b(grid|gridsize)\(\) missing 1 required positional argument: 'ndim'",
        r"cuda.\1 needs the number of dimensions of the launch: write cuda.\1(1), cuda.\1(2) "
        r"or cuda.\1(3)",
    ),
    (
        r"^'Integer' object has no attribute 'dtype'|^'Float' object has no attribute 'dtype'",
        "an atomic takes an array, an index and a value: cuda.atomic.add(out, 0, x), not out[0]",
    ),
    (
        r"\bInvalid use of ((?:array|UniTuple|Tuple|u?int|float|bool)\S*.*) with parameters "
        r"(?s:.*)as a callable",
        _called,
    ),
    (
        r"\bInvalid use of getiter with parameters \((?:Literal\[int\]|u?int|float)",
        "a loop cannot iterate over a number. Write: for i in range(n)",
    ),
    (
        r"found for signature:\s+>>> range\(array\(",
        "range takes a number, as in range(a.size) or range(a.shape[0])",
    ),
    (
        r"found for signature:\s+>>> len\(((u?int|float)\d+|bool)\)",
        "this is one number, which has no length. For the length of the array, write len(a) "
        "or a.size",
    ),
    (
        r"Unknown attribute '(\w+)' of type array\(",
        r"an array in a kernel has elements, a[i], and .size, .shape and .ndim, but no .\1",
    ),
    (
        r"Unknown attribute '(\w+)' of type (?:Literal\[int\]|u?int|float|bool)",
        r"this is one number, which has no .\1. In a kernel, a[i] is one element and a is the "
        "whole array",
    ),
    (r"^'DeviceNDArray' object has no attribute '(\w+)'", _method),
    (
        r"found for signature:\s+>>> i?(?:add|sub|mul|truediv|floordiv|mod|pow|lt|le|gt|ge)\("
        r"[^\n]*\bnone\b",
        "one of the two values is None, and arithmetic with None is an error. Look where the "
        "None comes from",
    ),
    (
        r"^'module' object is not callable",
        "a module is not called. Call a function in it, as in @cuda.jit, math.sqrt(x) or "
        "np.zeros(8)",
    ),
    (r"^not enough values to unpack \(expected 3", _atomic),
    (
        r"signature:\s+>>> setitem\(array\(.*\), .*, array\(",
        "an element holds one number, and this is a whole array. Take one of its elements, "
        "array[i]",
    ),
    (
        r"^\s*Kernel launch configuration was not specified",
        "a launch needs its numbers of blocks and threads: kernel[blocks, threads](…)",
    ),
    # Arithmetic of whole arrays, as in NumPy. Numba fails where it allocates the result, where it
    # copies an assigned slice, and where it looks for the ufunc of an in-place operation.
    (
        r"_ol_array_allocate|NRT required but not enabled\s+During: lowering \"\S+\[slice\(",
        "this works on whole arrays, which a kernel cannot do. Let each thread take its own "
        "element, as in out[i] = a[i] + 10",
    ),
    (
        r"^<ufunc '(add|subtract|multiply|true_divide|floor_divide|remainder|power)'>",
        r"NumPy's '\1' does not exist in kernels, so they cannot calculate with whole arrays. "
        "Let each thread take its own element, as in a[i] = a[i] + 10",
    ),
    (
        r"found for signature:\s+>>> bool\(array\(",
        "a whole array is neither true nor false. Test one element, as in a[i] > 0",
    ),
    (
        r"^<ufunc '(\w+)'>",
        r"NumPy's function '\1' does not exist in kernels. To replace it, use Python's or "
        "math's function",
    ),
    (
        r"Function\(<(?:built-in )?function (?![gs]etitem)(\w+).*\) found for signature:"
        r"\s+>>> \w+\(array\(",
        r"\1 of a whole array does not exist in kernels. Write a loop, or let each thread "
        "handle one element",
    ),
    (
        r"Function\(<(?:built-in )?function (where|clip)\b.*?\) found for signature:"
        r"\s+>>> \w+\((?!array)",
        r"NumPy's \1 takes arrays, and a thread has one number. Choose with `b if condition "
        "else c`, or with min and max",
    ),
    (
        r"found for signature:\s+>>> array\((?:shape=)?(?:Literal\[int\]\(\d+\)"
        r"|(?:Uni)?Tuple\([^)]*(?:\(\d+\)[^)]*)*\))\)\s",
        "the array needs the type of its elements as its second argument: "
        "cuda.shared.array(64, np.float32)",
    ),
    (
        r"found for signature:\s+>>> array\((?:shape=)?(?:int|UniTuple\(int|Tuple\()",
        "the size of an array in a kernel must be known when the kernel is compiled. Write a "
        "number or the name of a global",
    ),
    (
        r"^(none) cannot be represented as a NumPy dtype",
        "this function can reach its end without returning a value. Write `return` and the "
        "number there",
    ),
    (
        r"No conversion from .+ to none",
        "a kernel returns nothing. Write its results into an array that you pass to it",
    ),
    (
        r"Function\(<class 'str'>\)|signature:\s+>>> .*(unicode_type|Literal\[str\])",
        'kernels have no strings, except in print("thread", i): pass it words and numbers '
        "with commas between them",
    ),
    (
        r"NRT required but not enabled|of type list\(|imprecise type: \w+\(|type: DictType"
        r"|Function\(<(built-in )?function (zeros|ones|empty|full|arange|array)\b"
        r"|\(List\(",
        "kernels cannot make lists or arrays of any size. Pass arrays to the kernel "
        "(np.array), and make small ones with cuda.local.array",
    ),
    (
        r"(grid|block)dim must be a sequence of integers",
        "the numbers of blocks and threads must be integers. Write (n + 127) // 128 instead "
        "of n / 128",
    ),
    (
        r"_LaunchConfiguration.__call__\(\) got an unexpected keyword",
        "a launch takes its arguments by position, so leave out their names",
    ),
    (
        r"Cannot determine Numba type of <class '([\w.]+)'>",
        r"kernels and compiled functions take arrays and numbers, not a \1",
    ),
    (
        r"^Attempted boolean conversion of traced array",
        "what JAX traces has no value yet. Write & for and, jnp.where or jax.lax.cond for "
        "if, jax.lax.while_loop for while, and in Pallas pl.ds(start, size) for start:stop",
    ),
    (
        r"__array__\(\) was called on traced array",
        "NumPy needs values, and what JAX traces has none yet. Write jnp in place of np",
    ),
    (
        r"^Encountered an unexpected tracer",
        "a list or a global cannot keep what JAX traces. Return it instead; the body of a "
        "scan returns it as its second result",
    ),
    (
        r"<intrinsic (grid|gridsize)> is not usable in pure-python",
        r"\1 returns a thread's index or the number of threads, so it works only in a kernel. "
        "Call it in a function under @cuda.jit",
    ),
    (
        r"<intrinsic syncthreads\w*> is not usable|<class '[\w.]*\.syncwarp'> is not instantiable",
        "threads wait for each other at this call, and on the host there are no threads. "
        "Call it in a function under @cuda.jit. To make the host wait for the device, call "
        "cuda.synchronize()",
    ),
    (
        r"<intrinsic (\w+)> is not usable|<class '[\w.]*\.stubs\.(\w+)'> is not instantiable"
        r"|<function [\w.]+( at \w+)?> cannot be called from host code|^Stub\.__new__\(\) takes",
        "this is for the threads of a kernel. Call it in a function under @cuda.jit",
    ),
    (
        (
            r"^must specify at least the griddim and blockdim|^object of type 'int' has no len\(\)"
            r"|^unhashable type"
        ),
        _both_numbers,
    ),
    (
        r"^'function' object is not subscriptable",
        "only a kernel takes [blocks, threads]: write @cuda.jit above its def, and run that "
        "cell again",
    ),
    (
        r"found for signature:\s+>>> [gs]etitem\([^\n]*array\([^\n]*, float\d+",
        (
            "an index is an integer, and this one is a float. Even 4 / 2 is a float; 4 // 2 "
            "is an integer"
        ),
    ),
    (
        r"found for signature:\s+>>> [^\n]*Function\(<intrinsic (\w+)>\)",
        r"\1 is named here and not called. Write \1(…), for example cuda.grid(1) for an index",
    ),
    (
        r"found for signature:\s+>>> [^\n]*\bDim3\b|of type Dim3|Dim3 as a callable",
        "threadIdx, blockIdx, blockDim and gridDim have three numbers each: x, y and z. "
        "Write for example cuda.threadIdx.x",
    ),
    (
        r"non-precise type array\(pyobject",
        "this array holds Python objects (dtype=object), which kernels cannot read. Give it "
        "a numeric dtype, np.array(…, dtype=np.float64), with np.nan in place of None",
    ),
    (
        r"^user defined function compilation failed",
        "cuDF compiles the function for a GPU. The function gets one row or one number, and "
        "returns a number. Arithmetic, `if` and loops work there; Python's objects and "
        "strings do not",
    ),
    (
        r"getitem\([^\n]*\[unichr|\(\[unichr x \d+\]",
        "kernels have no strings. Pass numbers instead, one for each word",
    ),
    (
        r"of type reflected (list|set)",
        r"the argument of this kernel is a Python \1. Make it an array with np.array(…)",
    ),
    (
        r"(unsupported operand type|not supported between)[^\n]*'DeviceNDArray'",
        "an array from cuda.to_device has no arithmetic; only kernels can use it. "
        ".copy_to_host() returns a NumPy array, and cupy.asarray(…) returns an array that "
        "computes on the device",
    ),
    (
        r"^'numpy.ndarray' object has no attribute 'copy_to_host'",
        "this array is on the host already. Only an array from cuda.to_device(…) can be "
        "copied back",
    ),
    (
        r"cannot index array\(\w+, (\d)d[^\n]* with (\d) indices",
        r"dimensions of the array: \1; indices in the brackets: \2. cuda.grid(1) returns one "
        "index, cuda.grid(2) returns two",
    ),
    (
        r"failed to unpack u?int\d+",
        "this is one number. cuda.grid(1) returns one number, cuda.grid(2) returns two and "
        "cuda.grid(3) returns three",
    ),
    (
        r"found for signature:\s+>>> [gs]etitem\((none|u?int\d+|float\d+),",
        r"the brackets belong to a value of type \1, which is not an array and has no "
        "elements. Write only its name, or pass an array",
    ),
    (
        r"found for signature:\s+>>> setitem\(\w*Tuple\(",
        "a tuple cannot be changed. Pass an array, np.array(…)",
    ),
    (r"NameError: name '(\w+)' is not defined", _undefined_in_kernel),
    (
        r"Unknown attribute 'random' of type Module",
        "NumPy's random numbers exist only on the host. In a kernel, use numba.cuda.random",
    ),
    (
        r"construct is not supported|unsupported opcode|intrinsic exception_match",
        "kernels have arithmetic, if, for, while and calls of device functions, but no with, "
        "no import and no except",
    ),
    (
        r"No definition for lowering None\(|^'CUDACompileResult' object has no attribute 'launch'",
        "a kernel cannot call another kernel. Decorate the function that it calls with "
        "@cuda.jit(device=True)",
    ),
)


def advise(error: BaseException) -> str | None:
    """Return advice about ``error``, or None if there is none."""
    if isinstance(error, SyntaxError):
        return _of_syntax(error)
    text = str(error)
    if isinstance(error, NotImplementedError) and not text:
        return "there is no answer here yet. Write yours in place of `raise NotImplementedError`"
    for pattern, advice in _ADVICE:
        if found := re.search(pattern, text):
            return found.expand(advice) if isinstance(advice, str) else advice(found, error)
    return None


def _of_syntax(error: SyntaxError) -> str | None:
    """Return the advice for a syntax error whose message from Python misleads."""
    line, said = error.text or "", error.msg or ""
    if "<<<" in line:
        return "a launch in Python has brackets: write kernel[blocks, threads](…)"
    if said.startswith("cannot assign to function call"):
        return "an element takes brackets, as in out[i] = …, because parentheses call a function"
    if said.startswith("expected 'else' after 'if'"):
        return "a guard comes before the line that it guards: if i < a.size: out[i] = …"
    if re.search(r"\[[^\]]*;", line):
        return "separate the two numbers of a launch with a comma: kernel[blocks, threads](…)"
    return None
