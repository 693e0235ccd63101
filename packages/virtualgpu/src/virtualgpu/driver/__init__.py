"""``libcuda.so.1`` of the virtual GPU, for libraries that call the driver from compiled code.

``cuda.core`` and similar libraries call the CUDA driver through C function pointers. On a machine
without a GPU, this package loads a shared library under the driver's own name (:mod:`.library`).
Its exported functions jump to Python functions (:mod:`.entries`), which are grouped by subject:
:mod:`.contexts`, :mod:`.memory`, :mod:`.pools`, :mod:`.kernels`, :mod:`.streams`. :mod:`.cuda_core`
contains the further changes that ``cuda.core`` needs.

Names, arguments and result codes are those of the CUDA Driver API reference (CUDA 13).
"""
