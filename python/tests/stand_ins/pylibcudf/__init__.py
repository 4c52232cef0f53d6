"""Stands for pylibcudf in tests of the scripts for hardware: columns that are arrays of this package. STAND_IN_FAULTS names rules that
are broken."""

import os

import arrow_device as ad
import pyarrow as pa

__version__ = "stand-in"
FAULTS = os.environ.get("STAND_IN_FAULTS", "").split()
KEPT = []


def on(stream):
    """A queue of a stream, or the device."""
    return "cuda:0" if stream is None else ad.Queue.from_handle("cuda:0", stream.handle)


class Column:
    def __init__(self, array):
        self.array = array

    @staticmethod
    def from_arrow(obj, dtype=None, stream=None, mr=None):
        array = ad.array(obj)
        if str(array.device) == "cpu":
            return Column(array.to(on(stream)))
        if "hoarding" in FAULTS:
            KEPT.append(array)
        return Column(array)

    def copy(self, stream=None, mr=None):
        return Column(self.array.to_host().to(on(stream)))

    def to_arrow(self, metadata=None, stream=None):
        there = pa.array(self.array.to_host())
        return there[::-1] if "wrong" in FAULTS else there

    def __arrow_c_device_array__(self, requested_schema=None, **options):
        return self.array.__arrow_c_device_array__(requested_schema, **options)
