"""Changes to Triton's PTX before it is loaded: source lines, and the pragma ``ONE_STORE``."""

from __future__ import annotations

import re

from virtualgpu.languages import triton_files
from virtualgpu.ptx.module import ONE_STORE

_FILE = re.compile(r'^\s*\.file\s+\d+\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)


def mended(text: str) -> str:
    """Return ``text`` without LLVM's invented places, and with :data:`ONE_STORE` in its kernel.

    Triton loads and stores by inline assembly, in which LLVM counts on: the load of line 33 would
    be line 37's. What messages call things in its files is Triton's from then on.
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
