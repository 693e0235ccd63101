"""Stand-ins for libraries that cannot work without a GPU: CuPy, PyCUDA, cuDF.

The stand-ins themselves are packages of a distribution of its own, gpustandins. Here is what
switches them on and off (:mod:`.finder`), what they use of virtualgpu (:mod:`.interface`), and the
list of kernels that the originals would have launched (:mod:`.recorder`).
"""
