"""The real compilers, from their wheels: no GPU, driver or toolkit is needed."""
