"""Puzzles: one-screen kernels to predict, write and check, with their costs."""
