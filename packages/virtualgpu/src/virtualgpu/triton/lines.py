"""Changes to Triton's PTX before it is loaded: source lines, and the pragma ``ONE_STORE``."""

from __future__ import annotations

import re

from virtualgpu.languages import triton_files
from virtualgpu.ptx.module import ONE_STORE

_FILE = re.compile(r'^\s*\.file\s+\d+\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)


def mended(text: str) -> str:
    """Return ``text`` without locations that LLVM invented, and with :data:`ONE_STORE` in kernels.

    Triton loads and stores with inline assembly, and LLVM counts its lines on from the source
    line, so that the load of line 33 would appear at line 37. From then on, messages use Triton's
    terms for lines of its source files.
    """
    triton_files.update(_FILE.findall(text))
    lines, assembly = [], False
    for line in text.splitlines():
        if "inline asm" in line:
            assembly = "begin inline asm" in line
        elif line.startswith("{"):
            line = f'{line}\n\t.pragma "{ONE_STORE}";'
        if not (assembly and line.lstrip().startswith(".loc")):
            lines.append(line)
    return "\n".join(lines)
