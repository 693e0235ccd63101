"""Kernels with a label: what is wrong with each, and at which lines.

A case is a kernel decorated with :func:`labelled.catalog.case`. Its faulty lines end in the
comment ``# fault``; a kernel without faults is labelled ``clean``. ``test_labelled.py`` runs all
of them under ``virtualgpu.check()``, in lockstep and in random orders.
"""
