"""Tile IR: kernels over tiles, as cuTile writes them, run block by block.

``cuda.tile`` compiles a kernel to Tile IR bytecode, with no GPU. This room reads the bytecode into
a small program (:mod:`.bytecode`, :mod:`.opcodes`, :mod:`.body`), proves that its types fit
(:mod:`.verify`), and runs it one block after the other (:mod:`.launch`, :mod:`.blocks`), a tile
being a NumPy array (:mod:`.arithmetic`, :mod:`.shapes`, :mod:`.reductions`, :mod:`.views`,
:mod:`.access`). :mod:`.check` finds what is wrong with a launch, :mod:`.counts` counts what it
moves, :mod:`.module` is what a device loads. :mod:`virtualgpu.driver.cutile` sends cuTile's kernels
here.

Names of operations are those of the Tile IR specification, versions 13.1 to 13.4 of the bytecode.
"""
