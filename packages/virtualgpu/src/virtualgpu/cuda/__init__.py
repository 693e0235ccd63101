"""CUDA C++ and PTX as Python objects: modules, functions, arguments, the driver API."""
