"""CUDA C++ teaching kernels, written for this list after the subjects that courses on CUDA share.

Each is a short text and a check against NumPy (:mod:`.sample`); ``python -m
lab.evidence.cuda_samples`` runs all of them.
"""
