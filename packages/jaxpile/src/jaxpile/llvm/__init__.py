"""Back end for the CPU: LLVM IR through llvmlite, vectorised, with loops split over all cores."""
