"""Damaged Tile IR bytecode against its reader and the machine."""
