"""Interpreter for Tile IR, the kernels over tiles that cuTile compiles, block by block.

``cuda.tile`` compiles a kernel to Tile IR bytecode without a GPU. This package decodes the
bytecode (:mod:`.bytecode`, :mod:`.opcodes`, :mod:`.body`), checks the types of all operations
(:mod:`.verify`), and runs one block after the other (:mod:`.launch`, :mod:`.blocks`). A tile is a
NumPy array (:mod:`.arithmetic`, :mod:`.shapes`, :mod:`.reductions`, :mod:`.views`,
:mod:`.access`). :mod:`.check` finds faults in a launch, :mod:`.counts` counts its memory traffic,
and a device loads the bytecode as a :mod:`.module`. :mod:`virtualgpu.driver.cutile` directs
cuTile's kernels to this package.

Names of operations are those of the Tile IR specification, versions 13.1 to 13.4 of the bytecode.
"""
