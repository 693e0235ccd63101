"""``libcuda.so.1`` of the virtual GPU, for libraries that call the driver from compiled code.

``cuda.core`` and its like reach the CUDA driver through C function pointers. Without a GPU, this
package gives them a shared library under the driver's own name (:mod:`.library`) whose functions
are Python's (:mod:`.entries`), written by subject: :mod:`.contexts`, :mod:`.memory`, :mod:`.pools`,
:mod:`.kernels`, :mod:`.streams`. :mod:`.cuda_core` is what ``cuda.core`` needs beside.

Names, arguments and result codes are those of the CUDA Driver API reference (CUDA 13).
"""
