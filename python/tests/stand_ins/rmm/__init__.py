"""Stands for RMM in tests of the scripts for hardware."""

from . import mr

__version__ = "stand-in"
__all__ = ["mr"]
