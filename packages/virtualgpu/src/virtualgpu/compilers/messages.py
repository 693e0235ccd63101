"""Explanations of NVRTC's error messages, for CUDA C++ in Python strings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from virtualgpu.wording import many

SHOWN = 5  # errors quoted in a message; the log contains all of them

# A pattern in the compiler's message, and advice. The first match is used.
_ADVICE = (
    (
        r'identifier "u?int(8|16|32|64)_t" is undefined',
        "NVRTC has no <stdint.h>: write int, long long ..., or #include <cuda/std/cstdint>",
    ),
    (
        r'cannot open source file "curand',
        "install the wheel nvidia-curand, which contains this header (nvidia-curand-cu12 for "
        "CUDA 12); its device functions also run on the virtual GPU",
    ),
    (
        r'cannot open source file "(cublas|cufft)',
        "this header belongs to a library that is not installed and that the virtual GPU cannot "
        "run: write the kernel yourself, or compute on the host",
    ),
    (
        r"device-side kernel launch",
        "dynamic parallelism (a kernel that launches kernels) is not supported: return to the "
        "host and launch the next kernel there",
    ),
    (
        r'cannot open source file "(std\w+|math|assert|string|limits|float|c\w+|iostream|vector|'
        r'algorithm|type_traits|complex|array|utility)(\.h)?"',
        "NVRTC compiles only device code and has no host headers. printf, assert and the "
        "functions of <math.h> need no #include; for C++ headers use <cuda/std/...>",
    ),
    (
        r'identifier "(std|thrust|cub)" is undefined|name followed by "::" must be a class',
        "#include the header that declares this namespace (<cuda/std/...>, <cub/cub.cuh>)",
    ),
    (
        r'this declaration may not have extern "C" linkage|'
        r'template.* may not .*extern "C"|linkage specification is incompatible',
        'templates cannot be inside extern "C" { }: close it before them',
    ),
    (
        r"calling a __host__ function",
        "mark the function __device__, because a kernel can only call device functions",
    ),
    (
        r"unrecognized option|invalid value for",
        "NVRTC takes fewer options than nvcc; its documentation lists them under "
        '"Supported Compile Options"',
    ),
)


def explain(log: str) -> str:
    """Return an error message from NVRTC's log: each error's line, its code and a caret."""
    found = list(_errors(log))
    if unknown := re.search(r'Input name expression was: "\s*(.+?)\s*"', log):
        text = (
            f"the CUDA C++ code has no {unknown[1]}; a name expression is what you would write "
            f"after & in the source\n{found[0]}"
        )
    elif not found:
        text = f"the CUDA C++ does not compile:\n{log}"
    else:
        text = "the CUDA C++ does not compile: " + "\n".join(found[:SHOWN])
        if len(found) > SHOWN:
            text += f"\n({many(len(found) - SHOWN, 'more error')}: see the error's .log)"
    for pattern, advice in _ADVICE:
        if re.search(pattern, log):
            return f"{text}\n{advice}"
    return text


def of_the_source(log: str, folders: Sequence[str]) -> str:
    """Return a log without the warnings about headers in ``folders``."""
    kept = [part for part in log.strip("\n").split("\n\n") if not part.startswith(tuple(folders))]
    if all(part.startswith(("Remark:", " ")) or not part.strip() for part in kept):
        return ""
    return "\n\n".join(kept) + "\n"


def _errors(log: str) -> Iterator[str]:
    """Yield each error: file, line, words, and the code as the compiler shows it."""
    lines, last = log.splitlines(), None
    for at, line in enumerate(lines):
        match = re.match(r"(.+?)\((\d+)\): (?:catastrophic )?error[^:]*: (.*)", line)
        if not match:
            continue
        # Name the file only if it changes, because usually there is only one.
        file, last = (f"{match[1]} " if match[1] != last else ""), match[1]
        place = f"{file}line {match[2]}: {match[3]}"
        echo, caret = [*lines[at + 1 : at + 3], "", ""][:2]
        if echo.strip() and caret.strip() == "^":
            indent = len(echo) - len(echo.lstrip())
            place += f"\n    {echo.strip()}\n    {caret[indent:].rstrip()}"
        yield place
