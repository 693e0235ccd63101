"""The back end for the CPU: LLVM IR through llvmlite, vectorised by LLVM, split over all cores."""
