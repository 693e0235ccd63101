"""Loads, stores and atomics in native code."""
