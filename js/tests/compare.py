"""Compares Arrow streams of two folders: compare.py FOLDER FOLDER NAME..."""

import pathlib
import sys

import pyarrow as pa

one, other, *names = sys.argv[1:]
equal = 0
for name in names:
    tables = [pa.ipc.open_stream((pathlib.Path(folder) / name).read_bytes()).read_all() for folder in (one, other)]
    for table in tables:
        table.validate()
    if tables[0].equals(tables[1], check_metadata=True):
        equal += 1
    else:
        print(f"{name}: {tables[0].schema} is not {tables[1].schema}, or has other values")
print(f"{equal} equal")
