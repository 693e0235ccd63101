"""Fuzzing of the Tile IR reader and executor with damaged bytecode."""
