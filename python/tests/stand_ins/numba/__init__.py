"""Stands for Numba in tests of the scripts for hardware: what they use of it, over the simulated driver of CUDA."""

__version__ = "stand-in"
