"""The types of the host's ``<sys/types.h>``, which nvcc knows and NVRTC does not."""

from __future__ import annotations

#: The name and text of a header, and the compiler option that includes it first.
TYPES = (
    "nvcc-types.h",
    "typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;\n",
)
PRE_INCLUDE = f"--pre-include={TYPES[0]}"
