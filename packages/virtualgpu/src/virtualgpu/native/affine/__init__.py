"""Registers that are affine functions of the lane, kept as a base and a step."""
