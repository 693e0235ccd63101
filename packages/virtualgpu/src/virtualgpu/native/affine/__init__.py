"""Registers that are affine functions of the lane, stored as a base and a stride."""
