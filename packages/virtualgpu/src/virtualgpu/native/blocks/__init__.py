"""Blocks of a grid on the cores, blocks that wait for each other included."""
