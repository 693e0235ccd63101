"""Stand-ins for libraries that cannot work without a GPU: CuPy, PyCUDA, cuDF.

The stand-ins themselves are packages of a separate distribution, gpustandins. This package switches
them on and off (:mod:`.finder`), defines the names of virtualgpu that they use (:mod:`.interface`),
and lists the kernels that the original libraries would have launched (:mod:`.recorder`).
"""
