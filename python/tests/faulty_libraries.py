"""Tensor libraries over the simulated driver of CUDA that break a rule each, to see that the scripts for hardware find out."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from simulated_libraries import Simulated


class Careless(Simulated):
    """Hands data over without having anybody wait for it."""

    def order(self, stream):
        pass


class Hasty(Simulated):
    """Takes data without asking to be told when it is there."""

    def asked_stream(self):
        return -1


class Hoarding(Simulated):
    """Keeps what it took."""

    kept = []

    def take(self, tensor):
        self.kept.append(super().take(tensor))
        return self.kept[-1]


class Nothing(dict):
    def __setitem__(self, key, value):
        managed, shape, strides, owner = value
        # All but the memory.
        super().__setitem__(key, (managed, shape, strides))


class Forgetful(Simulated):
    """Frees memory while others have it."""

    def __init__(self):
        super().__init__()
        self.exported = Nothing()


class Copying(Simulated):
    """Copies what it is handed."""

    def take(self, tensor):
        taken = super().take(tensor)
        return self.make(self.values(taken), taken.dtype)


class Dying(Simulated):
    """Ends the process in the middle of a check."""

    def transposed(self, array):
        os.abort()


class Hanging(Simulated):
    """Never comes back from the middle of a check."""

    def transposed(self, array):
        while True:
            time.sleep(1)
