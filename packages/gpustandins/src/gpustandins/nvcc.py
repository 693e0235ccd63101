"""Types that nvcc knows and NVRTC does not: those of the host's ``<sys/types.h>``."""

from __future__ import annotations

#: A header, by its name and text, and the option that includes it first.
TYPES = (
    "nvcc-types.h",
    "typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;\n",
)
PRE_INCLUDE = f"--pre-include={TYPES[0]}"
