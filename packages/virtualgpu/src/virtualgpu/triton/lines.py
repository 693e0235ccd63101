"""Triton's PTX for the machine: the lines of the user's kernel, and who wrote it.

Two things about the lines of Triton 3.9 would mislead. LLVM counts on within a piece of inline
assembly, so a load that is line 33's says 37. And what Triton's own library does for a kernel, a
reduction, say, names the library first and the kernel's line as the one it was inlined at.
"""

from __future__ import annotations

import re

from virtualgpu.languages import triton_files
from virtualgpu.ptx.module import ONE_STORE

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_PLACE = re.compile(r"^\s*\.loc\s+(\d+ \d+ \d+)(?:.*\binlined_at (\d+ \d+ \d+))?")


def mended(text: str, folder: str) -> str:
    """``text`` with one place for each instruction, the nearest outside Triton's ``folder``; the
    kernel says that its threads may store one value to one place (:data:`ONE_STORE`)."""
    files = dict(_FILE.findall(text))
    library = {number for number, path in files.items() if path.startswith(folder)}
    triton_files.update(path for number, path in files.items() if number not in library)
    callers: dict[str, str] = {}
    lines, assembly = [], False
    for line in text.splitlines():
        if (place := _PLACE.match(line)) is not None:
            where, caller = place.groups()
            if caller:
                callers[where] = caller
            if assembly:
                continue
            while where.split()[0] in library and where in callers:
                where = callers[where]
            line = f"\t.loc\t{where}"
        elif "inline asm" in line:
            assembly = "begin inline asm" in line
        elif line.startswith("{"):
            line = f'{line}\n\t.pragma "{ONE_STORE}";'
        lines.append(line)
    return "\n".join(lines)
