"""Compilers from their wheels (NVRTC, nvJitLink, LLVM); they need no GPU, driver or toolkit."""
